"""A systemd unit that runs ``pipemagic serve`` for good, shut off from what it does not need."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

STATE = Path("/var/lib/pipemagic")
LOGS = Path("/var/log/pipemagic")

_UNIT = """\
# /etc/systemd/system/pipemagic.service, made by: pipemagic serve --print-systemd
# systemctl daemon-reload && systemctl enable --now pipemagic

[Unit]
Description=pipemagic, SQL over HTTP
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
ExecStart={command}
# Opens the access log again. A renewed certificate is handed over by a restart.
ExecReload=/bin/kill -USR1 $MAINPID
Restart=on-failure
RestartSec=1
TimeoutStopSec=10
LimitNOFILE=16384
UMask=0077
{who}
{capabilities}
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
LockPersonality=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""


def unit(options: argparse.Namespace, user: str) -> str:
    """Give the text of the unit for the options of ``serve``.

    Without --data the service gets a user and a data folder of its own; else it runs as ``user``, who can use the
    folder. The certificate and its key are read by systemd, so that they may stay files of root.
    """
    folder = options.data or STATE
    credentials, replaced = _credentials(options)
    command = [sys.executable, "-m", "pipemagic", "serve", "--data", str(folder)]
    low = options.port is not None and 0 < options.port < 1024
    return _UNIT.format(
        command=" ".join([*map(_quoted, command), *_flags(options, replaced)]),
        who="\n".join([*_user(options, user), *credentials]),
        capabilities=f"AmbientCapabilities={_BIND}\nCapabilityBoundingSet={_BIND}" if low else "CapabilityBoundingSet=",
        home="read-only" if any(map(_in_home, [sys.executable, sys.prefix, str(folder)])) else "yes",
    )


_BIND = "CAP_NET_BIND_SERVICE"


def _user(options: argparse.Namespace, user: str) -> list[str]:
    """Give the lines that say whom it runs as and where that one may write."""
    log = options.access_log
    written = [] if log is None or log == Path("-") or log.is_relative_to(LOGS) else [log.parent]
    if options.data is None:
        lines = ["DynamicUser=yes", "StateDirectory=pipemagic", "StateDirectoryMode=0700", "LogsDirectory=pipemagic"]
    else:
        lines = [f"User={user}"]
        written.insert(0, options.data)
    return [*lines, *(f"ReadWritePaths={_quoted(str(path))}" for path in written)]


def _credentials(options: argparse.Namespace) -> tuple[list[str], dict[str, str]]:
    """Give the lines that hand over certificate and key, and what stands for their paths in the command."""
    lines, replaced = [], {}
    for name in ("ssl_certfile", "ssl_keyfile"):
        if (path := getattr(options, name)) is not None:
            lines.append(f"LoadCredential={name}:{str(path).replace('%', '%%')}")
            replaced[name] = f"%d/{name}"
    return lines, replaced


def _flags(options: argparse.Namespace, replaced: dict[str, str]) -> list[str]:
    """Give the options as they are written on a command line; paths are absolute by now."""
    words: list[str] = []
    for action in options.flags:
        value = getattr(options, action.dest)
        if value == action.default or action.dest == "print_systemd":
            continue
        if isinstance(value, bool):
            words.append(action.option_strings[0 if value else -1])
            continue
        for one in value if isinstance(value, list) else [value]:
            words += [action.option_strings[0], replaced.get(action.dest) or _quoted(str(one))]
    return words


def _quoted(word: str) -> str:
    """Write a word as systemd reads it again."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$").replace("%", "%%")
    return f'"{text}"' if not text or any(mark in text for mark in " \t'\"\\;#") else text


def _in_home(path: str) -> bool:
    return path.startswith(("/home/", "/root/"))
