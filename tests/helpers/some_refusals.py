"""A few refusals for each action, so that all refusals occur; tests/client tries all of them everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle

from refused_answers import REFUSALS

COUNT = 3


def _endless() -> Iterator[str]:
    """Yield names of refusals endlessly: two with an error in JSON, then one of another kind."""
    errors = [name for name, one in REFUSALS.items() if one.answer.status >= 400 and one.answer.body[:1] == b"{"]
    # In steps of 4, so that similar ones, such as both of 402, are used for different names.
    spread = cycle([errors[4 * number % len(errors)] for number in range(len(errors))])
    for other in cycle([name for name in REFUSALS if name not in errors]):
        yield next(spread)
        yield next(spread)
        yield other


def some_refusals(
    names: Iterable[str], count: int = COUNT, more: Iterable[tuple[str, str]] = ()
) -> list[tuple[str, str]]:
    """Return pairs of a name and a refusal: ``count`` for each name, and ``more``; each refusal occurs."""
    endless = _endless()
    pairs = [(name, next(endless)) for name in names for _ in range(count)]
    pairs += [pair for pair in more if pair not in pairs]
    assert {refusal for _, refusal in pairs} == set(REFUSALS)
    order = list(dict(pairs))
    return sorted(pairs, key=lambda pair: order.index(pair[0]))  # each name is set up once
