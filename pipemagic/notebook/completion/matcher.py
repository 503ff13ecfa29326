"""The matcher that IPython asks on Tab, whatever the cell. What it needs for an answer is imported by the first Tab."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

if TYPE_CHECKING:
    from pipemagic.notebook.magics import PipeMagics

_log = logging.getLogger(__name__)

IDENTIFIER = "pipemagic"

_UNBROKEN = {ord(" "): "\u00a0", ord("-"): "\u2011"}
"""JupyterLab gives a description the width of its longest word; these keep it in one line."""

Matcher = Callable[[CompletionContext], SimpleMatcherResult]


class _Nothing(list[SimpleCompletion]):
    """An empty answer that IPython takes for one, so that it does not put Python's names there."""

    def __len__(self) -> int:
        return 1


def matcher_of(magics: PipeMagics) -> Matcher:
    """Give the matcher of one shell's magics."""

    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        try:
            from pipemagic.notebook.completion.tab import Tab

            answer = Tab(magics).answer(context)
        except Exception:  # noqa: BLE001
            # Not to the user, who only pressed Tab; IPython would print a traceback.
            _log.warning("completion failed", exc_info=True)
            answer = None
        if answer is None:
            return SimpleMatcherResult(completions=[])
        offered = [SimpleCompletion(offer.text, type=offer.description.translate(_UNBROKEN)) for offer in answer.offers]
        return SimpleMatcherResult(
            completions=offered or _Nothing(), matched_fragment=answer.fragment, suppress=True, ordered=True
        )

    marked = context_matcher(identifier=IDENTIFIER, priority=1000)  # first: jedi is then not run for our cells
    return cast("Matcher", marked(matcher))
