"""How tokens, passwords and private host names look in a text.

No pattern matches inside of base64: each needs a character that base64 has not, or an edge on both sides. So
pictures need no exception, and a token is found wherever it stands.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import socket
from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

_EDGE = r"(?<![A-Za-z0-9])"  # before a token
_OUTSIDE = r"(?<![A-Za-z0-9+/_-])"  # before one that could stand in base64
_END = r"(?![A-Za-z0-9+/=_-])"  # after it


@dataclass(frozen=True)
class Found:
    """A secret or a private name in a text: what kind of thing, the text itself, and where it stands."""

    kind: str
    text: str
    start: int


@dataclass(frozen=True)
class Pattern:
    """``hints`` are in lower case: without one of them in the text, ``regex`` is not tried.

    The group ``it`` of the expression is what is found, the whole match if it has no such group; ``real`` tells
    whether that is one, or only looks like it.
    """

    kind: str
    hints: tuple[str, ...]
    regex: re.Pattern[str]
    real: Callable[[str], bool] = lambda _: True


def find(text: str) -> Iterator[Found]:
    """Find everything in a text that is not for others, each place once."""
    lowered, taken = text.lower(), _Spans()
    for pattern in PATTERNS:
        if not any(hint in lowered for hint in pattern.hints):
            continue
        for match in pattern.regex.finditer(text):
            start, end = match.span("it" if "it" in pattern.regex.groupindex else 0)
            if pattern.real(text[start:end]) and taken.add(start, end):
                yield Found(pattern.kind, text[start:end], start)
    for start in _own_host(lowered):
        if taken.add(start, start + len(_own_name())):
            yield Found(PRIVATE_HOST, text[start : start + len(_own_name())], start)


class _Spans:
    """Stretches of a text that do not overlap."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> bool:
        """Take a stretch in; False if a part of it is taken already."""
        place = bisect(self._spans, (start, end))
        before, after = self._spans[max(place - 1, 0) : place], self._spans[place : place + 1]
        if any(other > start for _, other in before) or any(begin < end for begin, _ in after):
            return False
        self._spans.insert(place, (start, end))
        return True


def holds_secret(text: str) -> bool:
    """Tell whether a text holds a token or a password; a private host name is none."""
    return any(one.kind != PRIVATE_HOST for one in find(text))


def named_like_a_secret(key: str, value: str) -> bool:
    """Tell whether a key and its value, as JSON and TOML have them, are the name of a secret and the secret."""
    if _TOKEN_NAME.search(key):
        return _random(value)
    return bool(_SECRET_NAME.search(key)) and len(value) >= _SHORTEST and _literal(value)


def masked(text: str) -> str:
    """Show enough of a secret to find it, and too little to use it."""
    first = text.split("\n")[0]
    return f"{first[: min(4, len(first) // 4)]}***"


# -- what only looks like a secret

_SHORTEST = 4  # characters of a password: shorter ones are words of an example
_PLACEHOLDER = re.compile(
    r"[*x.\u2022_-]+\Z|[<{$%\[(].*|your?[-_ ].*|my[-_ ]?(password|token|secret|key).*|.*\.\.\.\Z|.*\*\*\*.*"
    r"|(pass(word|wd|phrase)?|pwd?|secret|token|user(name)?|none|null|true|false|undefined|optional|required|string|str|bytes|redacted|hidden|example|placeholder)\Z",
    re.IGNORECASE | re.DOTALL,
)


def _literal(text: str) -> bool:
    return not _PLACEHOLDER.match(text)


def _random(text: str) -> bool:
    """Tell whether a text has letters and digits, as tokens have, and is no word of a language."""
    return len(text) >= 8 and _literal(text) and bool(re.search(r"\d", text) and re.search(r"[A-Za-z]", text))


def _encoded(text: str) -> str:
    """Give what is written in base64, '' if it is no text."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
    except ValueError:
        return ""


def _encoded_token(text: str) -> bool:
    return bool(re.match(r"(eyJ[\w-]{8,}\.|pm[pl]_)[\w-]{8,}", _encoded(text)))


def _encoded_password(text: str) -> bool:
    user, colon, password = _encoded(text).partition(":")
    return bool(colon) and len(password) >= _SHORTEST and (user + password).isprintable() and _literal(password)


# -- hosts

_EXAMPLES = re.compile(
    r"(localhost|host|hostname|server|domain|name|url|uri|address|example|site|www|unused|ignored|(my|your)-?(host|server)"
    r"|.)\Z",
    re.IGNORECASE,
)


def _private_address(text: str) -> bool:
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


def _real_label(text: str) -> bool:
    return not _EXAMPLES.match(text) and not text.isdigit() and not text.isupper()


def _real_name(text: str) -> bool:
    return text.split(".")[-2].lower() not in ("threading", "env", "asyncio") and text.lower() != "host.docker.internal"


@cache
def _own_name() -> str:
    """Give the name of this machine, '' if it is a plain word, which would be found in every text."""
    name = socket.gethostname().lower()
    return name if len(name) >= 5 and re.search(r"[\d.-]", name) and name not in ("localhost.localdomain",) else ""


def _own_host(lowered: str) -> Iterator[int]:
    name = _own_name()
    if name and name in lowered:
        for match in re.finditer(rf"(?<![\w-]){re.escape(name)}(?![\w-])", lowered):
            yield match.start()


# -- the list

PRIVATE_HOST = "private host"

_SECRET_WORDS = r"(?:password|passwd|passphrase|pwd|secret|secret_?key|access_?key|private_?key|account_?key)"
_TOKEN_WORDS = r"(?:token|api_?key|auth_?key|jwt|credential)"
_SECRET_NAME = re.compile(rf"{_SECRET_WORDS}\Z", re.IGNORECASE)
_TOKEN_NAME = re.compile(rf"{_TOKEN_WORDS}\Z", re.IGNORECASE)
_NETWORK_SCHEMES = r"(?:https?|wss?|libsql|ssh|s?ftp|postgres(?:ql)?|mysql|mariadb|redis|mongodb|amqps?|ldaps?)"
_LABELS = r"(?:[A-Za-z0-9-]{1,63}\.){1,9}"
_PRIVATE_ENDS = r"(?:local|internal|corp|lan|intranet|home\.arpa)"


def _assignment(words: str) -> re.Pattern[str]:
    """``password="..."`` and ``"password": "..."``, also where the quotes are escaped."""
    quote = r"""(?P<quote>\\?["'])"""
    return re.compile(
        rf"""{words}(?:\\?["'])?\]?\s{{0,9}}(?:=>?|:)\s{{0,9}}[rbuf]?{quote}(?P<it>[^"'\s\\),;]{{{_SHORTEST},}})(?P=quote)""",
        re.IGNORECASE,
    )


def _pattern(
    kind: str, hints: str, regex: str, real: Callable[[str], bool] = lambda _: True, flags: int = 0
) -> Pattern:
    return Pattern(kind, tuple(hints.split()), re.compile(regex, flags), real)


PATTERNS: tuple[Pattern, ...] = (
    _pattern("private key", "private", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    _pattern("token (JWT)", "eyj", r"(?<![\w.-])eyJ[\w-]{8,}={0,2}\.[\w-]{8,}={0,2}(?:\.[\w-]{8,})?"),
    _pattern("platform token", "pmp_ pml_", r"(?<![A-Za-z0-9])pm[pl]_[\w-]{12,}"),
    _pattern("AWS access key", "akia asia", rf"{_OUTSIDE}(?:AKIA|ASIA)[0-9A-Z]{{16}}{_END}"),
    _pattern("Google API key", "aiza", rf"{_OUTSIDE}AIza[\w-]{{35}}{_END}"),
    _pattern("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
             rf"{_EDGE}(?:gh[pousr]_[A-Za-z0-9]{{36,}}|github_pat_\w{{22,}})"),
    _pattern("GitLab token", "glpat-", rf"{_EDGE}glpat-[\w-]{{20,}}"),
    _pattern("Slack token", "xox", rf"{_EDGE}xox[abeoprs]-[\w-]{{10,}}"),
    _pattern("Stripe key", "_live_", rf"{_EDGE}[sr]k_live_\w{{16,}}"),
    _pattern("AI provider key", "sk-", rf"{_EDGE}sk-(?:proj-|ant-|or-|svcacct-)?(?=[\w-]*\d)[\w-]{{24,}}", _random),
    _pattern("Hugging Face token", "hf_", rf"{_EDGE}hf_[A-Za-z]{{30,}}{_END}"),
    _pattern("package index token", "pypi- npm_", rf"{_EDGE}(?:pypi-AgE[\w-]{{50,}}|npm_[A-Za-z0-9]{{36}}{_END})"),
    _pattern("SendGrid key", "sg.", rf"{_EDGE}SG\.[\w-]{{20,24}}\.[\w-]{{39,50}}"),
    _pattern("Databricks token", "dapi", rf"{_OUTSIDE}dapi[0-9a-f]{{32}}(?:-\d)?{_END}"),
    _pattern("Docker token", "dckr_pat_", rf"{_EDGE}dckr_pat_[\w-]{{20,}}"),
    _pattern("Azure key", "accountkey= sharedaccesskey= sig=",
             r"(?i:AccountKey|SharedAccessKey|[?&]sig)=(?P<it>[A-Za-z0-9+/%]{40,}={0,2})"),
    _pattern("bearer token", "bearer", r"(?i:bearer)\s{1,9}(?P<it>[\w.~+/-]{16,}=*)", _random),
    _pattern("password in base64", "basic", r"(?i:basic)\s{1,9}(?P<it>[A-Za-z0-9+/]{8,}={0,2})", _encoded_password),
    _pattern("token in base64", "zxlk cg1wx", rf"{_OUTSIDE}(?:ZXlK|cG1wX)[A-Za-z0-9+/]{{20,}}={{0,2}}",
             _encoded_token),
    _pattern("token in an address", "token= jwt= key= password= secret=",
             r"[?&;](?i:auth_?token|access_?token|token|jwt|api_?key|key|password|secret)="
             r"(?P<it>[^&\s\"'<>#\\`)]{6,})", _literal),
    _pattern("password in an address", "://",
             r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"'<>]{0,99}:(?P<it>[^\s/@\"'<>]{2,200})"
             r"@(?=[\w\[])", _literal),
    Pattern("password", ("passw", "passphrase", "pwd", "secret", "key"), _assignment(_SECRET_WORDS), _literal),
    Pattern("token", ("token", "key", "jwt", "credential"), _assignment(_TOKEN_WORDS), _random),
    _pattern("password", "password passwd pwd secret access_key",
             rf"^[ \t]*(?:(?:%env|%set_env|!?export|set)[ \t]+)?[A-Z0-9_]*(?i:{_SECRET_WORDS})[ ]?=[ ]?"
             r"(?P<it>[^\s\"'()\[\]{},;]{6,})[ \t]*$", _random, re.MULTILINE),
    _pattern("token", "token key jwt",
             r"^[ \t]*(?:(?:%env|%set_env|!?export|set)[ \t]+)?[A-Z0-9_]*(?:TOKEN|API_?KEY|JWT)[ ]?=[ ]?"
             r"(?P<it>[^\s\"'()\[\]{},;]{12,})[ \t]*$", _random, re.MULTILINE),
    _pattern(PRIVATE_HOST, "10. 172. 192.168. 100. 169.254.",
             r"(?<![\w.=-])(?:10|172|192|100|169)(?:\.\d{1,3}){3}(?![\w.-]*\d)", _private_address),
    _pattern(PRIVATE_HOST, "fc fd fe80:", r"(?<![\w:])(?i:f[cd][0-9a-f]{2}|fe80):[0-9A-Fa-f:]{2,}(?![\w:])",
             _private_address),
    _pattern(PRIVATE_HOST, "://", rf"\b{_NETWORK_SCHEMES}://(?:[^\s/@\"'<>]{{0,200}}@)?(?P<it>[A-Za-z][A-Za-z0-9-]{{0,62}})"
             r"(?![^\s/@\"'<>]{0,200}@)(?=[:/?#\s\"'<>),]|$)(?!:(?:PORT|\{|\$|<))", _real_label),
    _pattern(PRIVATE_HOST, ".local .internal .corp .lan .intranet .home.arpa",
             rf"(?:(?://|@)(?P<it>{_LABELS}{_PRIVATE_ENDS}))(?![\w.-]*\w)", _real_name, re.IGNORECASE),
    _pattern(PRIVATE_HOST, ".local .internal .corp .lan .intranet .home.arpa",
             rf"(?<![A-Za-z0-9./@_-])(?:(?=[\w.]{{0,99}}[\d-]){_LABELS}{_PRIVATE_ENDS}(?![\w(\[=-]|\.\w)"
             rf"|{_LABELS}{_PRIVATE_ENDS}(?=:\d)"
             rf"|(?<=[\"']){_LABELS}{_PRIVATE_ENDS}(?=\\?[\"']))", _real_name, re.IGNORECASE),
)  # fmt: skip
"""In the order of their claim: what one has found, a later one does not find again."""
