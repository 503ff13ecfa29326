"""A JupyterHub with the configuration in examples/, and the kernels of its users."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import websocket
from client_packages import install_npm, install_python
from distributions import search_path
from waiting import until

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "jupyterhub_class.py"
PINS = ROOT / "tests" / "hub"
WAIT = 60.0  # seconds
TOKEN = "the-token-of-the-tests"

CONFIG = """
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.ConfigurableHTTPProxy.command = [{proxy!r}]
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.spawner_class = "simple"
c.Authenticator.allow_all = True
c.SimpleLocalProcessSpawner.home_dir_template = {homes!r}
c.Spawner.args = ["--allow-root"]  # for tests in a container
c.Spawner.environment = {{"PYTHONPATH": {path!r}}}
c.JupyterHub.services.append({{"name": "tests", "api_token": {token!r}}})
scopes = ["admin:users", "admin:servers", "access:servers"]
c.JupyterHub.load_roles = [{{"name": "tests", "services": ["tests"], "scopes": scopes}}]
"""


@dataclass(frozen=True)
class Programs:
    """The interpreter of an environment with JupyterHub, and the command of its proxy."""

    python: Path
    proxy: Path

    @classmethod
    def install(cls, cache: Path) -> Programs:
        """Install them into a cache; raise `CannotInstall` without npm or a registry."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        python = install_python(cache, PINS / "requirements.txt", project["dependencies"])
        return cls(python, install_npm(cache, PINS) / "node_modules" / ".bin" / "configurable-http-proxy")


@dataclass(frozen=True)
class Hub:
    """A running hub; its users and hand-outs are in ``folder``."""

    url: str
    folder: Path

    @property
    def service(self) -> str:
        """The address of the service behind the hub's proxy."""
        return f"{self.url}/services/sql"

    @property
    def platform_token(self) -> str:
        return (self.folder / "data" / "platform-token").read_text().strip()

    def home(self, user: str) -> Path:
        """Return the home folder of a user."""
        return self.folder / user

    def call(self, method: str, path: str, **options: Any) -> Any:
        """Call the hub or the server of a user; return the parsed body."""
        headers = {"Authorization": f"token {TOKEN}"}
        answer = httpx.request(method, self.url + path, headers=headers, timeout=WAIT, **options)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    @contextmanager
    def kernel(self, user: str) -> Iterator[Kernel]:
        """Start the server of a user and a kernel on it; stop the server at the end."""
        self.call("POST", f"/hub/api/users/{user}")
        self.call("POST", f"/hub/api/users/{user}/server")
        try:
            until(lambda: self.call("GET", f"/hub/api/users/{user}")["servers"].get("", {}).get("ready"), seconds=WAIT)
            number = self.call("POST", f"/user/{user}/api/kernels", json={})["id"]
            address = f"{self.url.replace('http', 'ws')}/user/{user}/api/kernels/{number}/channels"
            channels = websocket.create_connection(address, WAIT, header=[f"Authorization: token {TOKEN}"])
            try:
                yield Kernel(channels)
            finally:
                channels.close()
        finally:
            self.call("DELETE", f"/hub/api/users/{user}/server")


class Kernel:
    """A kernel on the server of a user, over the websocket of its channels."""

    def __init__(self, channels: websocket.WebSocket) -> None:
        self._channels, self._session = channels, uuid.uuid4().hex

    def run(self, code: str) -> str:
        """Run a cell; return what it printed and showed, and its error."""
        number = uuid.uuid4().hex
        header = {"msg_id": number, "msg_type": "execute_request", "session": self._session, "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = {"header": {**header, "username": ""}, "parent_header": {}, "metadata": {}, "content": content}
        self._channels.send(json.dumps({**message, "channel": "shell"}))
        shown: list[str] = []
        while True:
            received = json.loads(self._channels.recv())
            if received["parent_header"].get("msg_id") != number:
                continue
            match received["msg_type"], received["content"]:
                case "stream", {"text": text}:
                    shown.append(text)
                case "execute_result" | "display_data", {"data": {"text/plain": text}}:
                    shown.append(text)
                case "error", {"traceback": lines}:
                    shown += lines
                case "status", {"execution_state": "idle"}:
                    return "\n".join(shown)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in sockets]


def configure(folder: Path, programs: Programs) -> str:
    """Write the configuration of a hub: that of examples/, with other paths; return its address."""
    port, hub_port, proxy_port, service_port = free_ports(4)
    command = folder / "pipemagic"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m pipemagic "$@"\n')
    command.chmod(0o700)
    url = f"http://localhost:{port}"
    text = example(
        HUB=url, PIPEMAGIC=str(command), DATA=folder / "data", PORT=service_port, HANDOUTS=folder / "handouts.csv"
    )
    settings = CONFIG.format(
        port=port,
        hub_port=hub_port,
        proxy_port=proxy_port,
        proxy=str(programs.proxy),
        path=search_path(folder / "metadata"),
        token=TOKEN,
        homes=str(folder / "{username}"),
    )
    (folder / "jupyterhub_config.py").write_text(text + settings)
    return url


def example(**constants: object) -> str:
    """Return the example with other values of its constants, and without another user for the service."""
    lines = EXAMPLE.read_text("utf-8").splitlines()
    for name, value in constants.items():
        [number] = [number for number, line in enumerate(lines) if line.startswith(f"{name} = ")]
        lines[number] = f"{name} = {f'Path({str(value)!r})' if isinstance(value, Path) else repr(value)}"
    [number] = [number for number, line in enumerate(lines) if line == '    "user": USER,']
    del lines[number]
    return "\n".join(lines) + "\n"


@contextmanager
def running_hub(folder: Path, programs: Programs) -> Iterator[Hub]:
    """Run a hub until the end of the block."""
    hub = Hub(configure(folder, programs), folder)
    path = os.pathsep.join([str(programs.python.parent), os.environ["PATH"]])
    with (folder / "hub.log").open("wb") as log:
        process = subprocess.Popen(
            [programs.python, "-m", "jupyterhub", "-f", "jupyterhub_config.py"], cwd=folder,
            env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            until(lambda: process.poll() is not None or serves(hub), "the hub", WAIT)
            assert process.poll() is None, (folder / "hub.log").read_text()
            yield hub
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(WAIT)


def serves(hub: Hub) -> bool:
    try:
        return httpx.get(f"{hub.service}/version").status_code == 200
    except httpx.HTTPError:
        return False
