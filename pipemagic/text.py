"""Text that people read: amounts with their units, tables, text from other sources made safe to display."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import combining, east_asian_width

# C0 and C1 controls, line separators, marks that change the direction of text, and lone surrogates.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_ADDRESS = re.compile(r"(?<=://)[^\s'\"<>]+")
"""The part of an address after the scheme."""
_USER = re.compile(r"\A(?:[^:]*:.*|[^/?#]*)@(?=[\w\[/])")
"""User and password; the password may hold any character but blanks and quotes."""
_PORT = re.compile(r"(?:\[[^]]*\]|[^:/?#@]*):\d{1,5}/(?:[^@]*/)?@[^@]*\Z")
"""A host with a port, and a path with a segment that begins with @: it contains no password."""

# Columns may be named jwt or auth_token: these are secrets only in an address, or before a value as long as a token.
_SECRET = re.compile(
    r"pm[pl]_[\w-]{8}|eyJ[\w-]{8,}\.|bearer\s+\S{16}"
    r"|[?&;](?:auth_?token|jwt)=|(?:auth_?token|jwt)\s*=\s*['\"]*[\w.~+/-]{16}",
    re.IGNORECASE,
)

_SECONDS = {
    "w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9,
}  # fmt: skip
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|us|µs|ns|w|d|h|m|s)")
MOST_NAMES = 8
"""The maximum number of names in a message; the others are counted."""

_DURATION = re.compile(rf"(?:{_PART.pattern})+")


def plural(count: int, noun: str) -> str:
    """Return ``1 row`` or ``336,776 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def join_words(words: Sequence[str]) -> str:
    """Return ``a``, ``a and b``, or ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def list_names(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def format_size(count: int) -> str:
    """Return a number of bytes with a decimal unit: ``512 B`` or ``1.2 MB``."""
    amount, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 999.95 and len(units) > 1:  # would be rounded to 1000.0 of the smaller unit
        amount, units = amount / 1000, units[1:]
    return f"{count} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def parse_duration(text: str) -> float | None:
    """Parse a duration such as ``2h``, ``7d`` or ``1w2d6h3m`` to seconds; None if it is not valid."""
    if len(text) > 100 or not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def format_duration(seconds: float) -> str:
    """Return a duration in whole seconds: ``45 s``, ``9 min 30 s``, ``2 h 5 min``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min" if whole % 3600 // 60 else f"{whole // 3600} h"


def format_limit(seconds: float) -> str:
    """Return a time limit, which may be a fraction of a second if it is short: ``2.5 s``, ``10 s``, ``1 h``."""
    return format_duration(seconds) if seconds > 60 else f"{seconds:g} s"


def escape_controls(text: str, *, keep: str = "") -> str:
    r"""Replace control characters and marks of text direction by escapes (``\n``, ``\u001b``), except for ``keep``.

    The result is one line, unless ``keep`` contains a line break, and cannot change the state of a terminal.
    """
    return _CONTROL.sub(
        lambda match: match[0] if match[0] in keep else _NAMED.get(match[0]) or f"\\u{ord(match[0]):04x}", text
    )


def literal_html(page: str) -> str:
    """Return HTML in which JupyterLab and Notebook do not set ``$...$`` as formulas: it shows names and values."""
    return f'<div class="tex2jax_ignore mathjax_ignore">{page}</div>'


def has_secret(text: str) -> bool:
    """Return True if the text contains what looks like a token."""
    return _SECRET.search(text) is not None


def mask_passwords(text: str) -> str:
    """Return the text with ``***`` in place of the user and password of each address in it."""
    return _ADDRESS.sub(_mask_user, text) if "@" in text else text


def _mask_user(address: re.Match[str]) -> str:
    return address[0] if _PORT.match(address[0]) else _USER.sub("***@", address[0], count=1)


def shorten(text: str, width: int) -> str:
    """Return text of at most ``width`` characters; a longer one ends with ``…``."""
    return text if len(text) <= width else text[: width - 1] + "…"


def display_width(text: str) -> int:
    """Return the width of text in a terminal: two columns for East Asian letters and emoji, none for accents."""
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def text_table(rows: Iterable[Sequence[str]], right: Sequence[bool] = ()) -> Iterator[str]:
    """Yield the lines of a table, with control characters escaped and empty columns left out.

    Columns are separated by two spaces; those with True in ``right`` are aligned to the right.
    """
    lines = [[escape_controls(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        columns = zip(line, widths, right or [False] * len(widths), strict=True)
        yield "  ".join(_pad(cell, width, right=to_right) for cell, width, to_right in columns if width).rstrip()


def _pad(cell: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - display_width(cell))
    return blanks + cell if right else cell + blanks


# -- arguments of magic lines

_PLAIN = re.compile(r"[\w./~][\w./~-]*")
_LIKE_VARIABLE = re.compile(r"\{[^\W\d]|\A[$:@][^\W\d{]|\A\$\{")
_PLAIN_COLUMN = re.compile(r"\w[\w -]*")


def word(name: str) -> str:
    """Return a word as an argument of a magic line, in quotes if necessary."""
    if _PLAIN.fullmatch(name):
        return name
    if _LIKE_VARIABLE.search(name):  # the quotes end behind the sign: {name} is the value of a variable
        parts = [part for part in re.split(r"(?<=\{)|(?<=\A[$:@])", name) if part]
        marks = ["'\""[number % 2] for number in range(len(parts))]
        return "".join(mark + part.replace(mark, mark * 2) + mark for mark, part in zip(marks, parts, strict=True))
    mark = "'" if '"' in name else '"'
    return mark + name.replace(mark, mark * 2) + mark


def column_list(names: Iterable[str]) -> str:
    """Return column names as one argument of a magic line, separated by commas."""
    return word(
        ",".join(
            column if _PLAIN_COLUMN.fullmatch(column) else '"' + column.replace('"', '""') + '"' for column in names
        )
    )
