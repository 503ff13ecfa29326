"""What the user prefers, as traits: ``%config PipeMagic.quiet = True``.

A trait that was set neither by ``%config`` nor in IPython's own configuration has the value that the project gives
it: the key of the same name in the ``[tool.pipemagic]`` of the nearest pyproject.toml, from the folder of the
notebook upward. That file is read when the first trait is asked for, not when the magics are loaded.
"""

from __future__ import annotations

import difflib
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import traitlets
from traitlets import HasTraits, TraitError, TraitType
from traitlets.config import Config, Configurable

from pipemagic.errors import PipemagicError
from pipemagic.notebook.display import warn
from pipemagic.notebook.limits import restore

OTHER_KEYS = frozenset({"connections"})
"""What the table of a project may hold besides settings."""


class _OfProject(TraitType):  # type: ignore[type-arg]
    """A trait whose default is the project's."""

    def default(self, obj: Any = None) -> Any:
        """Give the project's value, else the usual one."""
        usual = super().default(obj)
        return obj.project.get(str(self.name), usual) if isinstance(obj, PipeMagic) else usual

    def set(self, obj: Any, value: Any) -> None:
        """Set what the user says."""
        super().set(obj, value)
        if isinstance(obj, PipeMagic):
            obj.said.add(str(self.name))


class Bool(_OfProject, traitlets.Bool):  # type: ignore[type-arg]
    """True or False."""


class Int(_OfProject, traitlets.Int):  # type: ignore[type-arg]
    """A number of things; 0 stands for no limit."""


class Unicode(_OfProject, traitlets.Unicode):  # type: ignore[type-arg]
    """A text."""


class Enum(_OfProject, traitlets.Enum):  # type: ignore[type-arg]
    """One of a few words."""


class PipeMagic(Configurable):
    """The settings of the magics in one shell."""

    quiet = Bool(False, help="print no lines and show no frame but the returned one").tag(config=True)
    progress = Bool(True, help="show progress of work that takes longer than a second").tag(config=True)
    read_ahead = Bool(
        True, help="read the names of tables and columns in the background after connecting, for completion"
    ).tag(config=True)
    display_limit = Int(
        0, min=0, help="how many rows of a frame a cell shows at most; 0 leaves that to pandas or polars"
    ).tag(config=True)
    notes = Bool(
        True, help="a note below a cell for SQL that SQLite runs silently, such as x = NULL or the division 1 / 2"
    ).tag(config=True)
    type = Enum(
        ("pandas", "polars", "arrow"),
        "pandas",
        help="what a cell gives back: a frame of pandas or polars, or an arrow table",
    ).tag(config=True)
    connection = Unicode(
        "", help="the profile, database or address to connect to when nothing else is named and nothing is connected"
    ).tag(config=True)
    confirm = Bool(False, help="run an UPDATE or DELETE without WHERE also where --confirm is not given").tag(
        config=True
    )

    @traitlets.observe("display_limit")
    def _give_back(self, change: Any) -> None:
        if not change.new:
            restore()

    @classmethod
    def of_shell(cls, shell: Configurable) -> Self:
        """Make the settings of a shell; a configuration that does not fit is said in one line, and not used."""
        try:
            return cls(parent=shell)
        except TraitError as error:
            warn(f"c.PipeMagic in IPython's configuration is not used: {_one_line(error)}")
            return cls(parent=shell, config=Config())

    @cached_property
    def said(self) -> set[str]:
        """The names of what the user settled, by ``%config`` or in IPython's configuration."""
        return set()

    @property
    def connection_of_project(self) -> bool:
        """Whether the default connection is what the project says."""
        return "connection" not in self.said and bool(self.connection)

    @cached_property
    def project(self) -> dict[str, Any]:
        """What the project settles, checked; what does not fit is said once, in one line, and left out."""
        from pipemagic.config import project_settings

        try:
            path, table = project_settings(Path.cwd())
        except PipemagicError as error:
            warn(f"The settings of the project are not used: {_one_line(error)}")
            return {}
        fitting, wrong = self._checked(table)
        if wrong:
            warn(f"[tool.pipemagic] in {path.name}: {'; '.join(wrong)}")
        return fitting

    def _checked(self, table: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        from pipemagic.secret_scan import holds_secret

        fitting, wrong = {}, []
        for key, value in table.items():
            name = key.replace("-", "_")
            if key in OTHER_KEYS:
                continue
            if holds_secret(f"{key} = {value!r}"):
                wrong.append(f"{_shown(key)} holds a token or a password, which does not go into a file that is shared")
            elif name not in self.trait_names(config=True):
                near = difflib.get_close_matches(name, self.trait_names(config=True), n=1)
                hint = f", did you mean {near[0]}?" if near else ""
                wrong.append(f"there is no setting {_shown(key)}{hint}")
            elif problem := _problem(type(self), name, value):
                wrong.append(f"{key} is not used, {problem}")
            else:
                fitting[name] = value
        return fitting, wrong


def _problem(settings: type[HasTraits], name: str, value: Any) -> str:
    """Say why a trait cannot have this value, '' if it can."""
    try:
        settings(**{name: value})
    except TraitError as error:
        return _one_line(error)
    return ""


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _shown(key: str) -> str:
    from pipemagic.secret_scan import mask

    return key if key.replace("-", "").replace("_", "").isalnum() and len(key) < 40 else ascii(mask(key))
