"""Plugins: magics, settings, panels, commands and help that other distributions add.

A distribution names its `Plugin` as an entry point of the group ``pipemagic.plugins``::

    [project.entry-points."pipemagic.plugins"]
    birds = "birds.plugin:plugin"

Only the plugin itself is imported when pipemagic starts; it names the rest as ``module:object``. A plugin with an error
is reported in one line and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

__all__ = ["Plugin"]

T = TypeVar("T")

GROUP = "pipemagic.plugins"
"""The group of the entry points."""


@dataclass(frozen=True)
class Plugin:
    """Name what a distribution adds to pipemagic.

    ``magics`` are classes of magics, subclasses of `pipemagic.notebook.plugin_magics.PluginMagics`; they are imported
    when the extension is loaded, so their modules import what takes long inside functions. ``settings`` is a class with
    traits that ``%config PipeMagic`` and ``[tool.pipemagic]`` have, too. ``panels`` are subclasses of
    `pipemagic.notebook.panels.base.Panel` by the name that ``%pipedb panel`` takes. ``commands`` are click commands by
    their name after ``pipemagic``. ``topics`` is a Markdown file of help topics, ``module:file``; each begins with a
    line ``# NAME, OTHER NAME: summary``. ``pages`` are pages of the documentation by the topics and words that lead to
    them. ``start`` is a function that is called with each new session of a shell; it connects to the session's
    signals.
    """

    magics: tuple[str, ...] = ()
    settings: str = ""
    panels: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    topics: str = ""
    pages: Mapping[str, str] = field(default_factory=dict)
    start: str = ""


@dataclass(frozen=True)
class _Installed:
    plugins: Mapping[str, Plugin]
    problems: tuple[str, ...]


@cache
def _installed() -> _Installed:
    from importlib.metadata import entry_points  # most commands need no plugin

    plugins, problems = dict[str, Plugin](), []
    for entry in sorted(entry_points(group=GROUP)):
        try:
            plugin = entry.load()
            if not isinstance(plugin, Plugin):
                raise TypeError(f"{entry.value} is not a Plugin")
        except Exception as error:  # noqa: BLE001 - the error of another distribution, which is shown
            problems.append(problem(entry.name, error))
        else:
            plugins[entry.name] = plugin
    return _Installed(plugins, tuple(problems))


def plugins() -> Mapping[str, Plugin]:
    """Return the installed plugins by the names of their entry points, without those that cannot be imported."""
    return _installed().plugins


def problems() -> tuple[str, ...]:
    """Return a line for each plugin that cannot be imported."""
    return _installed().problems


def problem(name: str, error: Exception) -> str:
    """Return the line that reports the error of a plugin."""
    return f"The plugin {name} is left out: {type(error).__name__}: {' '.join(str(error).split())}"


def load(target: str) -> Any:
    """Import an object that is named as ``module:object``."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def named(kind: str) -> dict[str, str]:
    """Return the ``panels``, ``commands`` or ``pages`` of all plugins by name; of two the first plugin's."""
    names: dict[str, str] = {}
    for plugin in plugins().values():
        names = {**getattr(plugin, kind), **names}
    return names


def for_each(use: Callable[[Plugin], T], report: Callable[[str], None]) -> list[T]:
    """Return what a function returns for each plugin; report the error of one in a line, and leave it out."""
    results = []
    for name, plugin in plugins().items():
        try:
            results.append(use(plugin))
        except Exception as error:  # noqa: BLE001 - the error of another distribution
            report(problem(name, error))
    return results
