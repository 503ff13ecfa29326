"""Putting the magics into a shell, and taking them out again so that nothing of them is left.

Loading must be quick and write nothing: whatever is slow to import waits until the first command needs it.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

from pipemagic.errors import SessionError
from pipemagic.notebook.completion.matcher import Matcher, matcher_of
from pipemagic.notebook.display import warn
from pipemagic.notebook.kernel import KernelInspection
from pipemagic.notebook.limits import restore
from pipemagic.notebook.magics import PipeMagics

Magic = Callable[..., Any]


@dataclass
class _Loaded:
    """What was put into a shell, and the magics of others that had their places before."""

    magics: PipeMagics
    matcher: Matcher
    replaced: dict[tuple[str, str], Magic]  # (kind, name) -> the other extension's function
    hints: dict[str, Magic]  # line magics of JupySQL, which say what to type
    inspection: KernelInspection | None  # None in a terminal, where there is no kernel


_loaded: WeakKeyDictionary[InteractiveShell, _Loaded] = WeakKeyDictionary()


def load(shell: InteractiveShell) -> None:
    """Register %pipedb, %sql and %%sql; what is there of the same name is given back by unload().

    %sqlcmd and %sqlplot are registered where no other extension has them.
    """
    if shell in _loaded:
        return
    magics = PipeMagics(shell)
    table = shell.magics_manager.magics
    replaced = {
        (kind, name): table[kind][name]
        for kind, functions in magics.magics.items()
        for name in functions
        if name in table[kind]
    }
    shell.register_magics(magics)
    hints = _hints(magics, table["line"])
    for name, function in hints.items():
        shell.magics_manager.register_function(function, "line", name)
    _configurables(shell).append(magics.preferences)  # for %config
    matcher = matcher_of(magics)
    shell.Completer.custom_matchers.append(matcher)
    kernel = getattr(shell, "kernel", None)
    inspection = KernelInspection(kernel, magics) if hasattr(kernel, "do_inspect") else None
    _loaded[shell] = _Loaded(magics, matcher, replaced, hints, inspection)
    atexit.register(magics.shut_down)
    if replaced:
        names = " and ".join(sorted({f"{'%%' if kind == 'cell' else '%'}{name}" for kind, name in replaced}))
        owners = ", ".join(sorted({_owner(function) for function in replaced.values()}))
        warn(f"pipemagic now answers to {names}, which {owners} did; %unload_ext pipemagic gives them back.")


def loaded_magics() -> PipeMagics:
    """Give the magics of the shell that runs; SessionError if there are none."""
    shell = get_ipython()
    loaded = None if shell is None else _loaded.get(shell)
    if loaded is None:
        raise SessionError("pipemagic is not loaded here, so there is no session", hint="%load_ext pipemagic")
    return loaded.magics


def unload(shell: InteractiveShell) -> None:
    """Close the connections and leave the shell as load() found it."""
    loaded = _loaded.pop(shell, None)
    if loaded is None:
        return
    atexit.unregister(loaded.magics.shut_down)
    if loaded.matcher in shell.Completer.custom_matchers:
        shell.Completer.custom_matchers.remove(loaded.matcher)
    if loaded.inspection is not None:
        loaded.inspection.remove()
    table = shell.magics_manager.magics
    for kind, functions in loaded.magics.magics.items():
        for name, function in functions.items():
            if table[kind].get(name) != function:
                continue  # yet another extension has taken the name since
            if (kind, name) in loaded.replaced:
                table[kind][name] = loaded.replaced[kind, name]
            else:
                del table[kind][name]
    for name, function in loaded.hints.items():
        if table["line"].get(name) == function:
            del table["line"][name]
    shell.magics_manager.registry.pop(type(loaded.magics).__name__, None)
    for ours in (loaded.magics, loaded.magics.preferences):  # IPython itself adds the magics
        kept = [one for one in _configurables(shell) if one is not ours]
        _configurables(shell)[:] = kept
    restore()
    loaded.magics.shut_down()


def _hints(magics: PipeMagics, taken: Mapping[str, Magic]) -> dict[str, Magic]:
    """Return the magics of JupySQL that only say what to type here, but for those that another extension has."""
    hints: dict[str, Magic] = {"sqlcmd": magics.sqlcmd, "sqlplot": magics.sqlplot}
    return {name: function for name, function in hints.items() if name not in taken}


def _configurables(shell: InteractiveShell) -> list[Any]:
    """Give what %config sets: a list of whatever is configurable, which IPython declares too narrowly."""
    found: list[Any] = shell.configurables
    return found


def _owner(function: Magic) -> str:
    return str(getattr(function, "__module__", "") or "another extension").split(".")[0]
