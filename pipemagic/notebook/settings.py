"""Settings of the magics, as traits: ``%config PipeMagic.quiet = True``.

A trait that is set neither by ``%config`` nor in IPython's configuration has the value of the same key in the
``[tool.pipemagic]`` table of the nearest pyproject.toml, searched from the folder of the notebook upward. That file is
read when the first trait is used, not when the magics are loaded.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import traitlets
from traitlets import TraitError, TraitType
from traitlets.config import Config, Configurable

from pipemagic import plugins
from pipemagic.errors import PipemagicError
from pipemagic.notebook.display import warn
from pipemagic.suggestions import did_you_mean
from pipemagic.text import has_secret

S = TypeVar("S", bound="PipeMagic")

_OTHER_KEYS = frozenset({"connections"})  # in the table of a project, beside settings


class _ProjectDefault(TraitType):  # type: ignore[type-arg]
    """A trait with a default that the project can set."""

    def default(self, obj: Any = None) -> Any:
        """Return the value of the project, or the default of the trait."""
        default = super().default(obj)
        return obj.project.get(str(self.name), default) if isinstance(obj, PipeMagic) else default

    def set(self, obj: Any, value: Any) -> None:
        """Set the value, and record that the user set it."""
        super().set(obj, value)
        if isinstance(obj, PipeMagic):
            obj.set_by_user.add(str(self.name))


class Bool(_ProjectDefault, traitlets.Bool):  # type: ignore[type-arg]
    """A boolean setting."""


class Int(_ProjectDefault, traitlets.Int):  # type: ignore[type-arg]
    """An integer setting; 0 means no limit."""


class Unicode(_ProjectDefault, traitlets.Unicode):  # type: ignore[type-arg]
    """A text setting."""


class Enum(_ProjectDefault, traitlets.Enum):  # type: ignore[type-arg]
    """A setting with a fixed set of values."""


class PipeMagic(Configurable):
    """The settings of the magics in one shell."""

    quiet = Bool(False, help="print no lines and show only the returned frame").tag(config=True)
    progress = Bool(True, help="show progress of work that takes longer than a second").tag(config=True)
    read_ahead = Bool(
        True, help="read the names of tables and columns in the background after connecting, for completion"
    ).tag(config=True)
    display_limit = Int(
        0, min=0, help="maximum number of rows to display of a frame; 0 uses the limit of pandas or Polars"
    ).tag(config=True)
    notes = Bool(
        True, help="show a note below a cell on SQL that runs but is probably wrong, such as x = NULL or 1 / 2"
    ).tag(config=True)
    display = Enum(
        ("frame", "grid"), "frame", help="how %%sql shows the last SELECT: as a frame, or as the grid of --grid"
    ).tag(config=True)
    type = Enum(("pandas", "polars", "arrow"), "pandas", help="type of the table that a cell returns").tag(config=True)
    frames = Enum(
        ("auto", "explicit", "off"), "auto", help="send DataFrames that a cell reads as tables: to databases on this "
        "machine, and anywhere with --frames (auto); only with --frames (explicit); never (off)",
    ).tag(config=True)  # fmt: skip
    connection = Unicode(
        "",
        help="the profile, database or address to connect to if none is named; by default the address in PIPEMAGIC_URL",
    ).tag(config=True)
    confirm = Bool(False, help="run an UPDATE or DELETE without WHERE even without --confirm").tag(config=True)

    @classmethod
    def of_shell(cls, shell: Configurable) -> Self:
        """Return the settings of a shell; an invalid configuration is reported in one line and ignored."""
        kind = with_plugins(cls)
        try:
            return kind(parent=shell)
        except TraitError as error:
            warn(f"c.PipeMagic in IPython's configuration is ignored: {_one_line(error)}")
            return kind(parent=shell, config=Config())

    @cached_property
    def set_by_user(self) -> set[str]:
        """The names of the traits that were set by ``%config`` or in IPython's configuration."""
        return set()

    @property
    def connection_of_project(self) -> bool:
        """True if the project sets the default connection."""
        return "connection" not in self.set_by_user and bool(self.connection)

    @cached_property
    def project(self) -> dict[str, Any]:
        """The valid settings of the project; invalid ones are reported once, in one line."""
        from pipemagic.config import project_settings

        try:
            path, table = project_settings(Path.cwd())
        except PipemagicError as error:
            hint = f"\nHint: {_one_line(error.hint)}" if error.hint else ""
            warn(f"The settings of the project are ignored: {_one_line(error.message)}{hint}")
            return {}
        problems = {key: self._problem(key, value) for key, value in table.items() if key not in _OTHER_KEYS}
        if any(problems.values()):
            warn("\n".join(f"[tool.pipemagic] in {path.name}: {text}" for text in problems.values() if text))
        return {key.replace("-", "_"): table[key] for key, problem in problems.items() if not problem}

    def _problem(self, key: str, value: Any) -> str:
        """Return why the project cannot set a key to this value, "" if it can."""
        from pipemagic.session.profiles import is_secret  # which imports the client

        name, settings = key.replace("-", "_"), self.trait_names(config=True)
        if has_secret(key) or is_secret(key, str(value)):
            return f"{_printable(key)} contains a token or a password, which must not be in a shared file"
        if name not in settings:
            hint = did_you_mean(name, settings)
            return f"unknown setting {_printable(key)}" + (f"\nHint: {hint}" if hint else "")
        try:
            type(self)(**{name: value})
        except TraitError as error:
            return f"{key} is ignored: {_one_line(error)}"
        return ""


def with_plugins(settings: type[S]) -> type[S]:
    """Return a class of settings with the traits of plugins."""
    traits = plugins.for_each(lambda plugin: plugins.load(plugin.settings) if plugin.settings else None, warn)
    about = {"__doc__": settings.__doc__, "__module__": settings.__module__}
    return type(settings.__name__, (settings, *filter(None, traits)), about)


def _one_line(error: Exception | str) -> str:
    return " ".join(str(error).split())


def _printable(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and len(key) < 40 else ascii(f"{key[:4]}***")
