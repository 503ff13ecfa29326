"""The errors of management APIs, by section of the documentation, and broken responses.

Statuses are those of the public service's documentation and tool; the last ones are of proxies, or of
servers that end in the middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle

from scripted_server import Answer, as_json, as_text


@dataclass(frozen=True)
class Refusal:
    """A response, and the error for it: the code, a part of the message, and the hint."""

    answer: Answer
    code: str
    says: str
    hint: str = ""
    hint_of_get: str = ""
    """The hint for a request that changes nothing, if it differs."""


LOOK = "parts of the request may have been applied; %pipedb groups and %pipedb databases list the existing ones"
LATER = "nothing was changed; try again later"
NAME = "choose another name"
PLAN = "the organization's plan does not include this; %pipedb usage shows the usage"

REFUSALS = {
    "400 bad field": Refusal(
        as_json({"error": "invalid location: xyz"}, 400), "SERVER", "invalid location: xyz",
        "%pipedb locations lists the existing ones",
    ),
    "400 taken": Refusal(as_json({"error": "it already exists"}, 400), "ALREADY_EXISTS", "it already exists", NAME),
    "401": Refusal(
        as_json({"error": "could not parse jwt id"}, 401), "AUTH", "the token was not accepted: could not parse jwt id",
        "put a valid platform token into the variable PIPEMAGIC_API_TOKEN, then %pipedb organization ",
    ),
    "402": Refusal(as_json({"error": "a paid plan is needed"}, 402), "SERVER", "a paid plan is needed", PLAN),
    "402 with a code": Refusal(
        as_json({"error": "not on starter plans", "code": "feature_not_available_for_starter_plan"}, 402),
        "feature_not_available_for_starter_plan", "not on starter plans", PLAN,
    ),
    "403": Refusal(
        as_json({"error": "out of scope"}, 403), "AUTH", "the token does not allow this: out of scope",
        "this requires another role in the organization, or a token with more permissions",
    ),
    "404": Refusal(
        as_json({"error": "database not found"}, 404), "NOT_FOUND", "not found: database not found",
        "%pipedb databases lists the existing ones",
    ),
    "409": Refusal(as_json({"error": "name is taken"}, 409), "ALREADY_EXISTS", "name is taken", NAME),
    "422": Refusal(as_json({"error": "name not available"}, 422), "ALREADY_EXISTS", "name not available", NAME),
    "429": Refusal(
        as_json({"error": "slow down"}, 429), "BUSY", "the server is busy: slow down", "nothing was run"
    ),
    "429 with a time": Refusal(
        Answer(429, b'{"error": "too many"}', headers={"Retry-After": "7"}), "BUSY", "the server is busy: too many",
        "try again in 7 s",
    ),
    "500": Refusal(as_json({"error": "oh no"}, 500), "SERVER", "(HTTP 500): oh no", LOOK, LATER),
    "502 without JSON": Refusal(
        Answer(502, b"<html>Bad <b>gateway</b></html>", "text/html"), "SERVER", "(HTTP 502)", LOOK, LATER
    ),
    "503 without a body": Refusal(Answer(503), "SERVER", "(HTTP 503)", LOOK, LATER),
    "503 with a time": Refusal(
        Answer(503, b'{"error": "later"}', headers={"Retry-After": "9"}), "SERVER", "(HTTP 503): later",
        "try again in 9 s",
    ),
    "an object as error": Refusal(as_json({"error": {"reason": "odd"}}, 400), "SERVER", "odd"),
    "no error member": Refusal(as_json({"detail": "else"}, 400), "SERVER", "(HTTP 400)"),
    "200 that is no JSON": Refusal(
        as_text("hello", 200), "PROTOCOL", "is not JSON", "check that this is the address of a management API"
    ),
    "a redirect": Refusal(
        Answer(307, headers={"Location": "https://login.example.com/x"}), "ADDRESS", "redirects to login.example.com",
        "connect to the final address itself",
    ),
    "no answer": Refusal(
        Answer(vanish=True),
        "UNKNOWN_OUTCOME",
        "before the response was complete",
        "check the data before you run it again",
    ),
    "cut in the middle": Refusal(
        Answer(body=b'{"groups": []}', cut=5), "UNKNOWN_OUTCOME", "before the response was complete",
        "check the data before you run it again",
    ),
}  # fmt: skip


def in_turn() -> Iterator[str]:
    """Yield the names of refusals endlessly: two with an error in JSON, then one of another kind."""
    errors = [
        name for name, refusal in REFUSALS.items() if refusal.answer.status >= 400 and refusal.answer.body[:1] == b"{"
    ]
    # In steps of 4, so that similar ones, such as both of 402, are used for different names.
    spread = cycle([errors[4 * number % len(errors)] for number in range(len(errors))])
    for other in cycle([name for name in REFUSALS if name not in errors]):
        yield next(spread)
        yield next(spread)
        yield other


def pairs(names: Iterable[str], refusals: Iterator[str], count: int = 2) -> list[tuple[str, str]]:
    """Return pairs of a name and one of the next refusals, ``count`` for each name."""
    return [(name, next(refusals)) for name in names for _ in range(count)]
