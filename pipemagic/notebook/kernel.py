"""Shift+Tab in a kernel: help on what is at the cursor of the magics' own text.

A front end sends an inspect request with the whole cell. IPython's kernel takes it for Python: it cuts out the name at
the cursor and looks that up among the variables. There is no hook for other languages, so `do_inspect` of the kernel is
replaced while the extension is loaded; a cell without one of the magics at the cursor goes to the kernel as before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipemagic.notebook.magics import PipeMagics

_log = logging.getLogger(__name__)

_NAME = "do_inspect"

Inspect = Callable[..., Any]


class KernelInspection:
    """The replacement for one kernel; it stands in the attributes of the object, which hide those of the class."""

    def __init__(self, kernel: object, magics: PipeMagics) -> None:
        self._kernel = kernel
        self._magics = magics
        self._installed = True
        self._before: Inspect | None = vars(kernel).get(_NAME)  # of another extension
        self._inspect: Inspect = getattr(kernel, _NAME)
        setattr(kernel, _NAME, self)

    def __call__(self, code: str, cursor_pos: int, detail_level: int = 0, *args: Any, **options: Any) -> Any:
        """Answer an inspect request, as `ipykernel.kernelbase.Kernel.do_inspect` does."""
        data = self._data(code, cursor_pos, detail_level) if self._installed else None
        if data is None:
            return self._inspect(code, cursor_pos, detail_level, *args, **options)
        return {"status": "ok", "found": bool(data), "data": data, "metadata": {}}

    def _data(self, code: str, cursor_pos: int, detail_level: int) -> dict[str, str] | None:
        from pipemagic.notebook.completion.inspection import inspect_cell

        try:
            return inspect_cell(self._magics, code, cursor_pos, full=detail_level > 0)
        except Exception:  # noqa: BLE001
            # Not to the user, who only asked for help; the kernel would not answer at all.
            _log.warning("inspection failed", exc_info=True)
            return None

    def remove(self) -> None:
        """Leave the kernel as it was; only pass requests on where another extension has replaced this in turn."""
        self._installed = False
        if vars(self._kernel).get(_NAME) is not self:
            return
        if self._before is None:
            delattr(self._kernel, _NAME)
        else:
            setattr(self._kernel, _NAME, self._before)
