"""Regular expressions as patterns of GLOB and LIKE."""

from __future__ import annotations

import re

from pipemagic.explore.sqlite_reference import quoted

_PARTS = re.compile(r"(\.\*|\.\+|\.|\\d|\\[.()\[\]{}+*?^$|\\/-]|\[\^?[^\]\\\[]+\]|[^\\.\[\](){}+*?^$|])(\{\d{1,2}\})?")


def matching(value: str, pattern: str, *, negated: bool = False, ignores_case: bool = False) -> str:
    """Return the condition that a value matches a regular expression; '' if GLOB cannot express it."""
    body = pattern.removeprefix("^")
    from_start = body is not pattern and body != pattern
    to_end = body.endswith("$") and not body.endswith("\\$")
    glob = _glob(body[:-1] if to_end else body)
    if glob is None:
        return ""
    glob = f"{'' if from_start else '*'}{glob}{'' if to_end else '*'}".replace("**", "*")
    not_ = "NOT " if negated else ""
    if not ignores_case:
        return f"{value} {not_}GLOB {quoted(glob, chr(39))}"
    if "[" in glob or "%" in glob or "_" in glob:
        return f"lower({value}) {not_}GLOB {quoted(glob.lower(), chr(39))}"
    return f"{value} {not_}LIKE {quoted(glob.replace('*', '%').replace('?', '_'), chr(39))}"


def _glob(body: str) -> str | None:
    parts, at = list[str](), 0
    while at < len(body):
        match = _PARTS.match(body, at)
        if match is None:
            return None
        part = _part(match[1])
        if match[2]:
            if match[1] in (".*", ".+"):
                return None
            part *= int(match[2][1:-1])
        parts.append(part)
        at = match.end()
    return "".join(parts)


def _part(part: str) -> str:
    wildcards = {".*": "*", ".+": "?*", ".": "?", "\\d": "[0-9]"}
    if part in wildcards:
        return wildcards[part]
    char = part[1:] if part.startswith("\\") else part
    return f"[{char}]" if char in ("*", "?", "[") else char
