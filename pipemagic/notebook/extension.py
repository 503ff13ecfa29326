"""Load the magics into a shell, and unload them completely.

Loading must be quick and write nothing: slow imports wait for the first command that needs them.
"""

from __future__ import annotations

import atexit
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, cast
from weakref import WeakKeyDictionary

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.extensions import ExtensionManager
from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

from pipemagic import plugins
from pipemagic.errors import SessionError
from pipemagic.notebook.display import warn
from pipemagic.notebook.magics import PipeMagics
from pipemagic.notebook.plugin_magics import magics_of_plugins
from pipemagic.notebook.progress import count_messages, stop_counting

Magic = Callable[..., Any]
Matcher = Callable[[CompletionContext], SimpleMatcherResult]

_IDENTIFIER = "pipemagic"

_UNBROKEN = {ord(" "): "\u00a0", ord("-"): "\u2011"}
"""Characters that prevent line breaks: JupyterLab makes a description as wide as its longest word."""

_log = logging.getLogger(__name__)


# -- Tab and Shift+Tab; the first of each imports the rest


class _Nothing(list[SimpleCompletion]):
    """An empty list that is true, so that IPython does not add Python's names."""

    def __len__(self) -> int:
        return 1


def _matcher_of(magics: PipeMagics) -> Matcher:
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

    marked = context_matcher(identifier=_IDENTIFIER, priority=1000)  # first: jedi is then not run for our cells
    return cast("Matcher", marked(matcher))


class KernelInspection:
    """Shift+Tab in the text of the magics: a replacement of `do_inspect` of one kernel.

    A front end sends an inspect request with the whole cell. IPython's kernel reads it as Python and looks up the name
    at the cursor among the variables. It has no hook for other languages, so the attribute of the kernel object hides
    the method of its class. Cells without a magic at the cursor go to the kernel as before.
    """

    def __init__(self, kernel: object, magics: PipeMagics) -> None:
        self._kernel = kernel
        self._magics = magics
        self._installed = True
        self._replaced: Magic | None = vars(kernel).get("do_inspect")  # of another extension
        self._inspect: Magic = kernel.do_inspect  # type: ignore[attr-defined]
        kernel.do_inspect = self  # type: ignore[attr-defined]

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
        except Exception:  # noqa: BLE001 - an error would leave the request without a reply
            _log.warning("inspection failed", exc_info=True)
            return None

    def remove(self) -> None:
        """Restore the kernel's method; if another extension has replaced it since, only forward requests."""
        self._installed = False
        if vars(self._kernel).get("do_inspect") is not self:
            return
        if self._replaced is None:
            del self._kernel.do_inspect
        else:
            self._kernel.do_inspect = self._replaced


# -- loading


@dataclass
class _Loaded:
    """The additions to a shell, and the magics of other extensions that they replace."""

    magics: PipeMagics
    functions: dict[tuple[str, str], Magic]  # by kind and name
    replaced: dict[tuple[str, str], Magic]
    matcher: Matcher
    inspection: KernelInspection | None  # None in a terminal, which has no kernel


# Kept when %autoreload executes this module again, so that there is one session for each shell.
_loaded: WeakKeyDictionary[InteractiveShell, _Loaded] = globals().get("_loaded", WeakKeyDictionary())


def load(shell: InteractiveShell) -> None:
    """Register %pipedb, %sql and %%sql; unload() restores the magics that they replace.

    %sqlcmd and %sqlplot are registered unless another extension has them. If they are loaded already, as for
    %reload_ext, they are registered again with the same session and settings.
    """
    earlier = _loaded.get(shell)
    if earlier is None:
        magics = PipeMagics(shell)
        magics.of_plugins = magics_of_plugins(magics, warn)
        for line in plugins.problems():
            warn(line)
        atexit.register(magics.shut_down)
    else:
        magics = earlier.magics
        _restore(shell, earlier)
    table = shell.magics_manager.magics
    before = {(kind, name): function for kind, of_kind in table.items() for name, function in of_kind.items()}
    functions = {
        (kind, name): function
        for group in (magics, *magics.of_plugins)
        for kind, of_kind in group.magics.items()
        for name, function in of_kind.items()
    }
    replaced = {key: before[key] for key in functions if key in before}
    shell.register_magics(magics, *magics.of_plugins)
    for name, function in (("sqlcmd", magics.sqlcmd), ("sqlplot", magics.sqlplot)):  # which only show what to type
        if ("line", name) not in before:
            shell.magics_manager.register_function(function, "line", name)
            functions["line", name] = function
    _configurables(shell)[:] = [*_other_configurables(shell, magics), magics, magics.settings]  # for %config
    matcher = _matcher_of(magics)
    shell.Completer.custom_matchers.append(matcher)
    count_messages(shell)
    kernel = getattr(shell, "kernel", None)
    inspection = KernelInspection(kernel, magics) if hasattr(kernel, "do_inspect") else None
    _loaded[shell] = _Loaded(magics, functions, replaced, matcher, inspection)
    if replaced:
        names = " and ".join(sorted({f"{'%%' if kind == 'cell' else '%'}{name}" for kind, name in replaced}))
        owners = ", ".join(sorted({_owner(function) for function in replaced.values()}))
        warn(f"pipemagic replaces {names} from {owners}; %unload_ext pipemagic restores them.")


def loaded_magics(in_programs: str) -> PipeMagics:
    """Return the magics of the running shell; raise SessionError if they are not loaded.

    ``in_programs`` is the hint for programs, in which no shell is running.
    """
    shell = get_ipython()
    if shell is None:
        raise SessionError("no notebook is running", hint=in_programs)
    loaded = _loaded.get(shell)
    if loaded is None:
        raise SessionError("pipemagic is not loaded", hint="run %load_ext pipemagic")
    return loaded.magics


def unload(shell: InteractiveShell) -> None:
    """Close the connections and restore the shell, unless IPython is about to load the extension again."""
    if _is_reload():
        return  # load() follows; if the import before it fails, the magics still work
    loaded = _loaded.pop(shell, None)
    if loaded is None:
        return
    atexit.unregister(loaded.magics.shut_down)
    _restore(shell, loaded)
    loaded.magics.shut_down()


def _is_reload() -> bool:
    """Return True if IPython unloads the extension for %reload_ext, which calls the function of %unload_ext.

    Only the caller of that function shows which of the two it is.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not ExtensionManager.unload_extension.__code__:
        frame = frame.f_back
    caller = None if frame is None else frame.f_back
    return caller is not None and caller.f_code is ExtensionManager.reload_extension.__code__


def _restore(shell: InteractiveShell, loaded: _Loaded) -> None:
    """Remove the additions to a shell, and register the magics that they replaced."""
    stop_counting(shell)
    if loaded.matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(loaded.matcher)
    if loaded.inspection is not None:
        loaded.inspection.remove()
    table = shell.magics_manager.magics
    for (kind, name), function in loaded.functions.items():
        if table[kind].get(name) != function:
            continue  # another extension has registered the name since
        if (kind, name) in loaded.replaced:
            table[kind][name] = loaded.replaced[kind, name]
        else:
            del table[kind][name]
    for group in (loaded.magics, *loaded.magics.of_plugins):
        shell.magics_manager.registry.pop(type(group).__name__, None)
    _configurables(shell)[:] = _other_configurables(shell, loaded.magics)


def _configurables(shell: InteractiveShell) -> list[Any]:
    """Return the objects that %config sets; IPython declares the list too narrowly."""
    configurables: list[Any] = shell.configurables
    return configurables


def _other_configurables(shell: InteractiveShell, magics: PipeMagics) -> list[Any]:
    ours = (magics, magics.settings, *magics.of_plugins)  # IPython itself adds the magics
    return [item for item in _configurables(shell) if not any(item is mine for mine in ours)]


def _owner(function: Magic) -> str:
    return str(getattr(function, "__module__", "") or "another extension").split(".")[0]
