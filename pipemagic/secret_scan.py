"""Find tokens, passwords and private host names in texts, notebooks and other files.

`PATTERNS` describes them. No pattern matches inside of base64: each needs a character that base64 does not have, or an
edge on both sides. So pictures need no exception, and tokens are found everywhere.
"""

from __future__ import annotations

import base64
import html
import ipaddress
import json
import re
import socket
from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pipemagic.errors import PipemagicError

ALLOWED = "pipemagic: allow"
"""A line with this text, in a comment, is not scanned."""

SUFFIX = ".ipynb"
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages"})
_ANSI_CODES = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\]8;;[^\x1b]*\x1b\\")
_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200d\u2060\ufeff]|</?(?:span|b|i|em|strong|code|font|mark|u|a|wbr)(?:\\s[^<>]{0,500})?/?>"
)
_ESCAPED = re.compile(r"\\u00([2-7][0-9A-Fa-f])|\\x([2-7][0-9A-Fa-f])|%([2-7][0-9A-Fa-f])")
_SVG_PATHS = re.compile(r"\s(?:d|points|transform|viewBox)=\\?\"[^\"\\]*\\?\"")  # numbers that look like addresses
_MOST_FINDINGS = 20  # findings of one cell or line; a column of addresses is one mistake, not a thousand


class UnreadableFile(PipemagicError):
    """A file is missing, or is not of its type."""

    code = "UNREADABLE"


@dataclass(frozen=True)
class Finding:
    """A match in a file.

    ``cell`` is the number of a cell, ``notebook``, or the line of another file; ``where`` is the part of it.
    """

    path: Path
    cell: str
    where: str
    kind: str
    text: str


def files_in(path: Path) -> Iterator[Path]:
    """Yield a file itself, or the notebooks in a folder and its subfolders, except hidden ones."""
    if not path.is_dir():
        yield path
        return
    for below in sorted(path.iterdir()):
        hidden = below.name.startswith(".") or below.name in _SKIPPED_FOLDERS
        if (below.is_dir() and not hidden and not below.is_symlink()) or (below.is_file() and below.suffix == SUFFIX):
            yield from files_in(below)


def scan_file(path: Path) -> Iterator[Finding]:
    """Yield the findings in a notebook or another text file; raise UnreadableFile if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path} is not text in UTF-8") from None
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror}") from None
    return _scan_notebook(path, text) if path.suffix == SUFFIX else _scan_text_file(path, text)


def _scan_text_file(path: Path, text: str) -> Iterator[Finding]:
    lines, number, end = text.split("\n"), 0, 0
    for secret in sorted(find_secrets(text), key=lambda secret: secret.start):
        while secret.start >= end + len(lines[number]) + 1:
            end += len(lines[number]) + 1
            number += 1
        if ALLOWED not in lines[number]:
            yield Finding(path, str(number + 1), "text", secret.kind, secret.text)


def _scan_notebook(path: Path, text: str) -> Iterator[Finding]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableFile(f"{path} is not a notebook: it is not JSON") from None
    if not isinstance(document, dict):
        raise UnreadableFile(f"{path} is not a notebook")
    for cell, where, value in _parts(document):
        seen: set[tuple[str, str]] = set()
        for secret in _find_in_json(value, source=where == "source"):
            if (secret.kind, secret.text) not in seen and len(seen) < _MOST_FINDINGS:
                seen.add((secret.kind, secret.text))
                yield Finding(path, cell, where, secret.kind, secret.text)


def _parts(document: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield cell, part and JSON value of all parts of a notebook."""
    cells = document.get("cells")
    for number, cell in enumerate(cells if isinstance(cells, list) else (), start=1):
        if not isinstance(cell, dict):
            yield str(number), "cell", cell
            continue
        for key, value in cell.items():
            if key == "outputs" and isinstance(value, list):
                yield from _outputs(str(number), value)
            else:
                yield str(number), key if key in _KEYS else "cell", value if key in _KEYS else {key: value}
    for key, value in document.items():
        if key == "metadata" and isinstance(value, dict):
            for name, inside in value.items():
                yield "notebook", "widgets" if name == "widgets" else "metadata", {name: inside}
        elif key != "cells" or not isinstance(value, list):
            yield "notebook", "document", {key: value}


_KEYS = frozenset({"source", "metadata", "attachments", "id"})


def _outputs(cell: str, outputs: list[Any]) -> Iterator[tuple[str, str, Any]]:
    for number, output in enumerate(outputs, start=1):
        rest = dict(output) if isinstance(output, dict) else {"output": output}
        data = rest.pop("data", None)
        if isinstance(data, dict):
            for mime, value in data.items():
                yield cell, f"output {number} {mime}" if _is_mime(mime) else f"output {number}", {mime: value}
        elif data is not None:
            rest["data"] = data
        what = rest.get("name") if rest.get("output_type") == "stream" else rest.get("output_type")
        known = what if what in ("stdout", "stderr", "error") else "metadata"
        yield cell, f"output {number} {known}", rest


def _is_mime(text: str) -> bool:
    return bool(re.fullmatch(r"[a-z]+/[a-z0-9.+-]{1,60}", text))


def _find_in_json(value: Any, *, source: bool = False) -> Iterator[Match]:
    """Yield the matches in the strings and keys of JSON, and values whose key is the name of a secret."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield from _find_in_string(item, source=source)
        elif isinstance(item, dict):
            for key, inside in item.items():
                yield from find_secrets(key)
                if isinstance(inside, str) and is_secret_entry(key, inside):
                    yield Match("password or token", inside, 0)
                waiting.append(inside)
        elif isinstance(item, list):
            if item and all(isinstance(line, str) for line in item):  # the lines of one text, or words
                yield from _find_in_string("".join(item), source=source)
                if not all(line.endswith("\n") for line in item[:-1]):
                    waiting.extend(item)
            else:
                waiting.extend(item)


def _find_in_string(text: str, *, source: bool) -> Iterator[Match]:
    if source:
        text = "\n".join("" if ALLOWED in line else line for line in text.split("\n"))
    if "\x1b" in text:
        text = _ANSI_CODES.sub("", text)
    if "<svg" in text or "<path" in text:
        text = _SVG_PATHS.sub(" ", text)
    for reading in dict.fromkeys((text, *_readings(text))):
        yield from find_secrets(reading)


def _readings(text: str) -> Iterator[str]:
    """Yield the text, its form in a browser, and with its escapes decoded, if they differ."""
    if "&" in text:
        text = html.unescape(text)
        yield text
    if _INVISIBLE.search(text):
        text = _INVISIBLE.sub("", text)
        yield text
    if _ESCAPED.search(text):
        yield _ESCAPED.sub(lambda match: chr(int(match[1] or match[2] or match[3], 16)), text)


# -- texts

_EDGE = r"(?<![A-Za-z0-9])"  # before a token
_OUTSIDE = r"(?<![A-Za-z0-9+/_-])"  # before one that could be in base64
_END = r"(?![A-Za-z0-9+/=_-])"  # after it


@dataclass(frozen=True)
class Match:
    """A secret or a private host name: its kind, its text and its offset in characters."""

    kind: str
    text: str
    start: int


class Pattern(NamedTuple):
    """The pattern of one kind of secret.

    ``regex`` is tried if one of the ``hints``, words in lower case, is in the text. Its group ``it``, or the whole
    match if it has no such group, is the secret if ``accept`` returns True for it.
    """

    kind: str
    hints: str
    regex: str
    accept: Callable[[str], bool] = bool
    flags: int = 0


def find_secrets(text: str) -> Iterator[Match]:
    """Yield the secrets and private host names in a text; matches do not overlap."""
    lowered, taken = text.lower(), _Spans()
    for pattern in PATTERNS:
        if not any(hint in lowered for hint in pattern.hints.split()):
            continue
        for match in re.finditer(pattern.regex, text, pattern.flags):
            start, end = match.span("it" if "it" in match.re.groupindex else 0)
            if pattern.accept(text[start:end]) and taken.add(start, end):
                yield Match(pattern.kind, text[start:end], start)
    for start in _own_host_places(lowered):
        if taken.add(start, start + len(_own_host_name())):
            yield Match(PRIVATE_HOST, text[start : start + len(_own_host_name())], start)


class _Spans:
    """Ranges of a text that do not overlap."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> bool:
        """Add a range; return False if it overlaps another."""
        place = bisect(self._spans, (start, end))
        before, after = self._spans[max(place - 1, 0) : place], self._spans[place : place + 1]
        if any(other > start for _, other in before) or any(begin < end for begin, _ in after):
            return False
        self._spans.insert(place, (start, end))
        return True


def holds_secret(text: str) -> bool:
    """Return True if a text has a token or a password; private host names do not count."""
    return any(secret.kind != PRIVATE_HOST for secret in find_secrets(text))


def is_secret_entry(key: str, value: str) -> bool:
    """Return True if a key of JSON or TOML names a secret and its value may be one."""
    if _TOKEN_NAME.search(key):
        return _is_random(value)
    return bool(_SECRET_NAME.search(key)) and len(value) >= _SHORTEST and _is_literal(value)


def mask(text: str) -> str:
    """Return the first characters of a secret, for messages."""
    first = text.split("\n")[0]
    return f"{first[: min(4, len(first) // 4)]}***"


# -- text that only looks like a secret

_SHORTEST = 4  # characters of a password: shorter ones are examples
_PLACEHOLDER = re.compile(
    r"[*x.\u2022_-]+\Z|[<{$%\[(].*|your?[-_ ].*|my[-_ ]?(password|token|secret|key).*|.*\.\.\.\Z|.*\*\*\*.*"
    r"|(pass(word|wd|phrase)?|pwd?|secret|token|user(name)?|none|null|true|false|undefined|optional|required|string|str|bytes|redacted|hidden|example|placeholder)\Z",
    re.IGNORECASE | re.DOTALL,
)


def _is_literal(text: str) -> bool:
    return not _PLACEHOLDER.match(text)


def _is_random(text: str) -> bool:
    """Return True if a text has letters and digits, like tokens."""
    return len(text) >= 8 and _is_literal(text) and bool(re.search(r"\d", text) and re.search(r"[A-Za-z]", text))


def _decode(text: str) -> str:
    """Decode text from base64; return '' if it is not text."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
    except ValueError:
        return ""


def _is_encoded_token(text: str) -> bool:
    return bool(re.match(r"(eyJ[\w-]{8,}\.|pm[pl]_)[\w-]{8,}", _decode(text)))


def _is_encoded_password(text: str) -> bool:
    user, colon, password = _decode(text).partition(":")
    return bool(colon) and len(password) >= _SHORTEST and (user + password).isprintable() and _is_literal(password)


# -- hosts

_EXAMPLES = re.compile(
    r"(localhost|host|hostname|server|domain|name|url|uri|address|example|site|www|unused|ignored|(my|your)-?(host|server)"
    r"|.)\Z",
    re.IGNORECASE,
)


def _is_private_address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return False
    return any(address in network for network in _NETWORKS if network.version == address.version)


_NETWORKS = tuple(
    map(
        ipaddress.ip_network,
        ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "fc00::/7", "fe80::/10"],
    )
)


def _is_host_label(text: str) -> bool:
    return not _EXAMPLES.match(text) and not text.isdigit() and not text.isupper()


def _is_host_name(text: str) -> bool:
    return text.split(".")[-2].lower() not in ("threading", "env", "asyncio") and text.lower() != "host.docker.internal"


@cache
def _own_host_name() -> str:
    """Return the name of this machine, '' if it is a plain word, which other texts may contain."""
    name = socket.gethostname().lower()
    return name if len(name) >= 5 and re.search(r"[\d.-]", name) and name not in ("localhost.localdomain",) else ""


def _own_host_places(lowered: str) -> Iterator[int]:
    name = _own_host_name()
    if name and name in lowered:
        for match in re.finditer(rf"(?<![\w-]){re.escape(name)}(?![\w-])", lowered):
            yield match.start()


# -- the list

PRIVATE_HOST = "private host"

_SECRET_WORDS = r"(?:password|passwd|passphrase|pwd|secret|secret_?key|access_?key|private_?key|account_?key)"
_TOKEN_WORDS = r"(?:token|api_?key|auth_?key|jwt|credential)"
_SECRET_NAME = re.compile(rf"{_SECRET_WORDS}\Z", re.IGNORECASE)
_TOKEN_NAME = re.compile(rf"{_TOKEN_WORDS}\Z", re.IGNORECASE)
_NETWORK_SCHEMES = r"(?:https?|wss?|libsql|turso|ssh|s?ftp|postgres(?:ql)?|mysql|mariadb|redis|mongodb|amqps?|ldaps?)"
_LABELS = r"(?:[A-Za-z0-9-]{1,63}\.){1,9}"
_PRIVATE_ENDS = r"(?:local|internal|corp|lan|intranet|home\.arpa)"


_ASSIGNED = (
    r"""(?:\\?["'])?\]?\s{0,9}(?:=>?|:)\s{0,9}[rbuf]?(?P<quote>\\?["'])"""
    rf"""(?P<it>[^"'\s\\),;]{{{_SHORTEST},}})(?P=quote)"""
)
"""The text after a name in ``password="..."`` and ``"password": "..."``, also with escaped quotes."""

PATTERNS: tuple[Pattern, ...] = (
    Pattern("private key", "private", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    Pattern("token (JWT)", "eyj", r"(?<![\w.-])eyJ[\w-]{8,}={0,2}\.[\w-]{8,}={0,2}(?:\.[\w-]{8,})?"),
    Pattern("platform token", "pmp_ pml_", r"(?<![A-Za-z0-9])pm[pl]_[\w-]{12,}"),
    Pattern("AWS access key", "akia asia", rf"{_OUTSIDE}(?:AKIA|ASIA)[0-9A-Z]{{16}}{_END}"),
    Pattern("Google API key", "aiza", rf"{_OUTSIDE}AIza[\w-]{{35}}{_END}"),
    Pattern("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
             rf"{_EDGE}(?:gh[pousr]_[A-Za-z0-9]{{36,}}|github_pat_\w{{22,}})"),
    Pattern("GitLab token", "glpat-", rf"{_EDGE}glpat-[\w-]{{20,}}"),
    Pattern("Slack token", "xox", rf"{_EDGE}xox[abeoprs]-[\w-]{{10,}}"),
    Pattern("Stripe key", "_live_", rf"{_EDGE}[sr]k_live_\w{{16,}}"),
    Pattern("AI provider key", "sk-", rf"{_EDGE}sk-(?:proj-|ant-|or-|svcacct-)?(?=[\w-]*\d)[\w-]{{24,}}", _is_random),
    Pattern("Hugging Face token", "hf_", rf"{_EDGE}hf_[A-Za-z]{{30,}}{_END}"),
    Pattern("package index token", "pypi- npm_", rf"{_EDGE}(?:pypi-AgE[\w-]{{50,}}|npm_[A-Za-z0-9]{{36}}{_END})"),
    Pattern("SendGrid key", "sg.", rf"{_EDGE}SG\.[\w-]{{20,24}}\.[\w-]{{39,50}}"),
    Pattern("Databricks token", "dapi", rf"{_OUTSIDE}dapi[0-9a-f]{{32}}(?:-\d)?{_END}"),
    Pattern("Docker token", "dckr_pat_", rf"{_EDGE}dckr_pat_[\w-]{{20,}}"),
    Pattern("Azure key", "accountkey= sharedaccesskey= sig=",
             r"(?i:AccountKey|SharedAccessKey|[?&]sig)=(?P<it>[A-Za-z0-9+/%]{40,}={0,2})"),
    Pattern("bearer token", "bearer", r"(?i:bearer)\s{1,9}(?P<it>[\w.~+/-]{16,}=*)", _is_random),
    Pattern("password in base64", "basic", r"(?i:basic)\s{1,9}(?P<it>[A-Za-z0-9+/]{8,}={0,2})", _is_encoded_password),
    Pattern("token in base64", "zxlk cg1wx", rf"{_OUTSIDE}(?:ZXlK|cG1wX)[A-Za-z0-9+/]{{20,}}={{0,2}}",
             _is_encoded_token),
    Pattern("token in an address", "token= jwt= key= password= secret=",
             r"[?&;](?i:auth_?token|access_?token|token|jwt|api_?key|key|password|secret)="
             r"(?P<it>[^&\s\"'<>#\\`)]{6,})", _is_literal),
    Pattern("password in an address", "://",
             r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"'<>]{0,99}:(?P<it>[^\s/@\"'<>]{2,200})"
             r"@(?=[\w\[])", _is_literal),
    Pattern("password", "passw passphrase pwd secret key", _SECRET_WORDS + _ASSIGNED, _is_literal, re.IGNORECASE),
    Pattern("token", "token key jwt credential", _TOKEN_WORDS + _ASSIGNED, _is_random, re.IGNORECASE),
    Pattern("password", "password passwd pwd secret access_key",
             rf"^[ \t]*(?:(?:%env|%set_env|!?export|set)[ \t]+)?[A-Z0-9_]*(?i:{_SECRET_WORDS})[ ]?=[ ]?"
             r"(?P<it>[^\s\"'()\[\]{},;]{6,})[ \t]*$", _is_random, re.MULTILINE),
    Pattern("token", "token key jwt",
             r"^[ \t]*(?:(?:%env|%set_env|!?export|set)[ \t]+)?[A-Z0-9_]*(?:TOKEN|API_?KEY|JWT)[ ]?=[ ]?"
             r"(?P<it>[^\s\"'()\[\]{},;]{12,})[ \t]*$", _is_random, re.MULTILINE),
    Pattern(PRIVATE_HOST, "10. 172. 192.168. 100. 169.254.",
             r"(?<![\w.=-])(?:10|172|192|100|169)(?:\.\d{1,3}){3}(?![\w.-]*\d)", _is_private_address),
    Pattern(PRIVATE_HOST, "fc fd fe80:", r"(?<![\w:])(?i:f[cd][0-9a-f]{2}|fe80):[0-9A-Fa-f:]{2,}(?![\w:])",
             _is_private_address),
    Pattern(PRIVATE_HOST, "://", rf"\b{_NETWORK_SCHEMES}://(?:[^\s/@\"'<>]{{0,200}}@)?(?P<it>[A-Za-z][A-Za-z0-9-]{{0,62}})"
             r"(?![^\s/@\"'<>]{0,200}@)(?=[:/?#\s\"'<>),]|$)(?!:(?:PORT|\{|\$|<))", _is_host_label),
    Pattern(PRIVATE_HOST, ".local .internal .corp .lan .intranet .home.arpa",
             rf"(?:(?://|@)(?P<it>{_LABELS}{_PRIVATE_ENDS}))(?![\w.-]*\w)", _is_host_name, re.IGNORECASE),
    Pattern(PRIVATE_HOST, ".local .internal .corp .lan .intranet .home.arpa",
             rf"(?<![A-Za-z0-9./@_-])(?:(?=[\w.]{{0,99}}[\d-]){_LABELS}{_PRIVATE_ENDS}(?![\w(\[=-]|\.\w)"
             rf"|{_LABELS}{_PRIVATE_ENDS}(?=:\d)"
             rf"|(?<=[\"']){_LABELS}{_PRIVATE_ENDS}(?=\\?[\"']))", _is_host_name, re.IGNORECASE),
)  # fmt: skip
"""In order of precedence: text that matches a pattern is not matched by a later one."""
