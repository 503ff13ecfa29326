"""What to type next when the management API refuses something."""

from __future__ import annotations

import re

from pipemagic.errors import AlreadyExists, AuthError, BusyError, NotFound, ServerError

_UNKNOWN = re.compile(
    r"\b(group|database|organization)\b.*(?:not found|n[o']t exist)|could not find (database)|invalid (location)|"
    r"(location) not found",
    re.IGNORECASE,
)
_EXPIRATION = re.compile(r"expiration", re.IGNORECASE)


def add_hint(error: ServerError, *, renewal: str) -> None:
    """Put in the hint what a notebook can do about a refusal; ``renewal`` says how to give another platform token."""
    match error:
        case AuthError(status=401):
            error.hint = renewal
        case AuthError():
            error.hint = "it takes another role in the organization, or a token that may do more"
        case AlreadyExists() | BusyError():
            pass  # what there is to say does not depend on a notebook
        case NotFound() | ServerError(status=400):
            error.hint = _of_words(error.message) or error.hint
        case ServerError(status=402):
            error.hint += "; %pipedb usage shows what it does"
        case ServerError(status=status) if status >= 500 and error.hint.startswith("parts of"):
            error.hint += "; %pipedb groups and %pipedb databases show what there is"


def unknown_kind(error: ServerError) -> str:
    """Return the kind of name that a refusal says is unknown: group, database, organization or location; else ''."""
    unknown = _UNKNOWN.search(error.message) if error.status in (400, 404) else None
    return next(filter(None, unknown.groups())).lower() if unknown else ""


def _of_words(message: str) -> str:
    """Say where the right names are listed if one was wrong, or how something is written."""
    if unknown := _UNKNOWN.search(message):
        return f"%pipedb {next(filter(None, unknown.groups())).lower()}s lists what there is"
    return "write it as 7d, 1w2d6h or never" if _EXPIRATION.search(message) else ""


def renewal(slug: str, address: str | None, variable: str) -> str:
    """Say how an organization's service gets another platform token; ``address`` is None for the embedded one."""
    if address is None:
        return "%pipedb stop, then %pipedb connect, starts the service anew"
    line = " ".join(filter(None, ["%pipedb organization", slug, f"--at {address} --token-env {variable}"]))
    return f"put a valid platform token into the variable {variable}, then {line}"
