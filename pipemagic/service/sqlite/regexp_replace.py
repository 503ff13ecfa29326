r"""``regexp_replace(TEXT, PATTERN, REPLACEMENT [, FLAGS])``, as in DuckDB, with its engine: RE2.

RE2 has no lookaround and no references in a pattern. So a search takes at most the time of the product of the sizes of
the text and of the compiled pattern, which is limited. The statement can be stopped between two searches.

Source: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import apsw

from pipemagic.hrana.values import SqlValue
from pipemagic.service.sqlite.native import most_bytes, native, too_big

MOST_STEPS = 1_000_000
"""The product of the sizes of a text and of a compiled pattern: a search takes at most some 20 ms."""
_MEMORY = 256 * 1024
"""Bytes of a compiled pattern: RE2 compiles one, or refuses it, in some 2 ms."""
_LONGEST_PATTERN = 4096
_MOST_GROUPS = 30
_REFERENCE = re.compile(r"\\(.?)", re.DOTALL)


def regexp_replace(largest: Callable[[], int], stopped: Callable[[], bool], *arguments: SqlValue) -> str | None:
    """Return the text with its first match replaced, or with the flag ``g`` all of them.

    ``largest`` returns the limit of a value in bytes.
    """
    if stopped():
        raise apsw.InterruptError("interrupted")
    if None in arguments:
        return None
    text, pattern, replacement, flags = [*map(_text, arguments), ""][:4]
    compiled = _compile(pattern, flags.replace("g", ""))
    _check_time(compiled, text)
    parts = _parts_of(replacement, compiled.groups)
    limit = largest()
    pieces: list[str] = []
    size, end = 0, -1
    for match in compiled.finditer(text):
        if stopped():
            raise apsw.InterruptError("interrupted")
        if match.start() == end and not match[0]:
            continue  # an empty match does not follow another match directly
        pieces.append(text[max(0, end) : match.start()])
        pieces += (part if isinstance(part, str) else match[part] or "" for part in parts)
        size += len(pieces[-1 - len(parts)]) + sum(map(len, pieces[len(pieces) - len(parts) :]))
        if size > limit:
            raise too_big()
        end = match.end()
        if "g" not in flags:
            break
    return "".join(pieces) + text[max(0, end) :]


def _text(value: SqlValue) -> str:
    if isinstance(value, bytes):
        raise apsw.SQLError("regexp_replace() takes texts, not a BLOB")
    return value if isinstance(value, str) else str(native.value("CAST(? AS TEXT)", value))


@lru_cache(maxsize=100)
def _compile(pattern: str, flags: str) -> Any:
    """Compile a pattern; the flags are those of DuckDB that concern it."""
    if set(flags) - set("is"):
        raise apsw.SQLError(
            "regexp_replace() has the flags g (replace all), i (ignore case) and s (. matches a line break), "
            f"not {flags!r}"
        )
    if len(pattern) > _LONGEST_PATTERN:
        raise apsw.SQLError(f"the pattern of regexp_replace() is limited to {_LONGEST_PATTERN:,} characters")
    try:
        import re2  # only here: few statements need it
    except ImportError:
        raise apsw.SQLError(
            "regexp_replace() needs google-re2: pip install 'pipemagic[regexp]', and start the service again"
        ) from None
    options = re2.Options()
    options.max_mem, options.log_errors = _MEMORY, False
    options.case_sensitive, options.dot_nl = "i" not in flags, "s" in flags
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise apsw.SQLError(f"regexp_replace() cannot read the pattern {pattern[:100]!r}: {reason}") from None
    if compiled.groups > _MOST_GROUPS:
        raise apsw.SQLError(f"the pattern of regexp_replace() is limited to {_MOST_GROUPS} groups: write (?:...)")
    return compiled


def _check_time(pattern: Any, text: str) -> None:
    if pattern.programsize * most_bytes(text) > MOST_STEPS:
        raise apsw.SQLError(
            f"regexp_replace() takes {MOST_STEPS // pattern.programsize:,} bytes for the pattern "
            f"{pattern.pattern[:100]!r}, not {most_bytes(text):,}: shorten the text or the pattern"
        )


@lru_cache(maxsize=100)
def _parts_of(replacement: str, groups: int) -> tuple[str | int, ...]:
    r"""Return the literal parts of the replacement and the numbers of groups: ``\0`` (the whole match) to ``\9``."""
    parts: list[str | int] = []
    end = 0
    for reference in _REFERENCE.finditer(replacement):
        parts.append(replacement[end : reference.start()])
        sign, end = reference[1], reference.end()
        if sign == "\\":
            parts.append(sign)
        elif sign in tuple("0123456789") and int(sign) <= groups:
            parts.append(int(sign))
        else:
            raise apsw.SQLError(f"the replacement of regexp_replace() has {reference[0]}, which is no group")
    parts.append(replacement[end:])
    return tuple(parts)
