"""Register completion with IPython; the first Tab imports the rest."""

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
"""Characters without line breaks: JupyterLab makes a description as wide as its longest word."""

Matcher = Callable[[CompletionContext], SimpleMatcherResult]


class _Nothing(list[SimpleCompletion]):
    """An empty list that is true, so that IPython does not add Python's names."""

    def __len__(self) -> int:
        return 1


def matcher_of(magics: PipeMagics) -> Matcher:
    """Return the matcher for one shell's magics."""

    def matcher(context: CompletionContext) -> SimpleMatcherResult:
        try:
            from pipemagic.notebook.completion.magic_line import complete_cell

            completions = complete_cell(magics, context)
        except Exception:  # noqa: BLE001
            # Log it only: IPython would print a traceback for a press of Tab.
            _log.warning("completion failed", exc_info=True)
            completions = None
        if completions is None:
            return SimpleMatcherResult(completions=[])
        shown = [
            SimpleCompletion(completion.text, type=completion.description.translate(_UNBROKEN))
            for completion in completions.items
        ]
        return SimpleMatcherResult(
            completions=shown or _Nothing(), matched_fragment=completions.fragment, suppress=True, ordered=True
        )

    marked = context_matcher(identifier=IDENTIFIER, priority=1000)  # first: jedi is then not run for our cells
    return cast("Matcher", marked(matcher))
