"""What is public: functions and classes that pages and notebooks use or get, commands, and operations of the APIs."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
from IPython.core.inputtransformer2 import TransformerManager

from pipemagic.cli import pipemagic
from pipemagic.service.api.openapi import description

_HIDDEN = re.compile(r"^<!-- cell\n.*?^-->$", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(
    r"^ *```(?:python|ipython|\{code-cell\}[^\n]*)\n(?: *:[^\n]*\n)*(.*?)^ *```$", re.DOTALL | re.MULTILINE
)
_IN_PROSE = re.compile(r"`(pipemagic(?:\.\w+)+)\b")


INTERNAL = {
    "pipemagic.client.address.Endpoint": "what an address means for connections; programs read `url`",
    "pipemagic.client.secrets.EncryptionKey": "hides a key; programs pass text",
    "pipemagic.client.secrets.Secret": "hides a token",
    "pipemagic.client.stream.ClientStream": "the requests of the protocol",
    "pipemagic.client.stream.Dialect": "a form of the protocol",
    "pipemagic.explore.plans.DryRun": "the output of a magic",
    "pipemagic.explore.plans.QueryPlan": "the output of a magic",
    "pipemagic.notebook.panels.base.Panel": "an ipywidgets.VBox",
    "pipemagic.notebook.panels.opening.Tabs": "an ipywidgets.Tab",
    "pipemagic.session.cell.Cell": "the parsed text of a cell",
    "pipemagic.session.connection.Connection": "the state of a connection of a session, for the magics",
    "pipemagic.session.organization.Organization": "the organization of a session, for the magics",
    "pipemagic.session.profiles.Profile": "the entry of a file that commands write",
    "pipemagic.session.profiles.Profiles": "the file that commands write",
}
"""Classes that public functions return and that programs need not know, and the reason."""

CONVERTERS = ("read", "read_all", "read_from")
"""Methods of the objects of the management API that convert responses."""


def public_objects(root: Path) -> dict[str, object]:
    """Return the public functions and classes by full name.

    These are the names in ``__all__`` of pipemagic and of the packages from which visible examples import, the names
    that examples and texts use, and the classes that public functions and methods return, without those in INTERNAL.
    """
    used = set(names_used(root))
    packages = {module for name in used if hasattr(resolve(module := name.rpartition(".")[0]), "__all__")}
    names = used | {f"{package}.{name}" for package in packages | {"pipemagic"} for name in resolve(package).__all__}
    found: dict[str, object] = {}
    waiting = [part for name in sorted(names) for part in _expanded(resolve(name))]
    while waiting:
        value = waiting.pop()
        if (name := full_name(value)) not in found and name not in INTERNAL:
            found[name] = value
            waiting += returned(value)
    return found


def _expanded(value: object) -> list[object]:
    """Return a function or class of the package itself; of a module, those of its names."""
    if inspect.ismodule(value):
        names = getattr(value, "__all__", None) or [name for name in vars(value) if not name.startswith("_")]
        own = [member for name in names if _is_own(member := getattr(value, name))]
        return [member for member in own if hasattr(value, "__all__") or member.__module__ == value.__name__]
    return [value] if _is_own(value) else []


def _is_own(value: object) -> bool:
    """Return True for a function or class of the package; those of plugins' panels are made when they are used."""
    is_own = (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__.startswith("pipemagic")
    return is_own and "<locals>" not in value.__qualname__


def full_name(value: object) -> str:
    """Return the module and the name of a function or class."""
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


def resolve(name: str) -> object:
    """Return the module, function, class or member of a full name; None if there is none."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            value = inspect.getattr_static(value, part, None) if inspect.isclass(value) else getattr(value, part, None)
        return value
    return None


def cli_commands(command: click.Command = pipemagic, path: str = "pipemagic") -> dict[str, click.Command]:
    """Return a command and those below it, by path."""
    found = {path: command}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found |= cli_commands(command.get_command(context, name), f"{path} {name}")
    return found


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    """Return method, path and description of each operation of both APIs."""
    return [
        (method.upper(), path, operation)
        for path, methods in description()["paths"].items()
        for method, operation in methods.items()
    ]


# -- the names in examples


def names_used(root: Path) -> Iterator[str]:
    """Yield the names of the package that pages and notebooks use in visible examples, or name in their text."""
    for path in (root / "README.md", *sorted((root / "docs").rglob("*.md"))):
        text = _HIDDEN.sub("", path.read_text("utf-8"))
        yield from names_in_code(map(textwrap.dedent, _FENCE.findall(text)))
        yield from _IN_PROSE.findall(text)
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        yield from names_in_code("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        yield from _IN_PROSE.findall("".join("".join(cell["source"]) for cell in cells))


def names_in_code(cells: Iterable[str]) -> Iterator[str]:
    """Yield the full names of the package that cells use."""
    transform = TransformerManager().transform_cell
    tree = ast.parse("\n".join(map(transform, cells)))
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=aliases):
                known |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in aliases}
            case ast.Import(names=aliases):
                known |= {alias.asname or (root := alias.name.partition(".")[0]): alias.name if alias.asname else root
                          for alias in aliases}  # fmt: skip
    yield from (
        name for name in known.values() if name.startswith("pipemagic.") and not inspect.ismodule(resolve(name))
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"\w+(\.\w+)+", dotted := ast.unparse(node)):
            base, _, rest = dotted.partition(".")
            if known.get(base, "").partition(".")[0] == "pipemagic":
                yield f"{known[base]}.{rest}"


# -- what functions return


def members(kind: type) -> dict[str, object]:
    """Return the public methods and properties of a class, with those of its bases in pipemagic."""
    hidden = CONVERTERS if kind.__module__ == "pipemagic.management_api.models" else ()
    own = [vars(base) for base in reversed(kind.__mro__) if _is_own(base)]
    found = {name: value for names in own for name, value in names.items() if name[0] != "_" and name not in hidden}
    return {name: value for name, value in found.items() if _is_method(value)}


def _is_method(value: object) -> bool:
    return inspect.isroutine(value) or isinstance(value, property) or hasattr(value, "func")


def returned(value: object) -> list[object]:
    """Return the classes of the package that a function, or a method or property of a class, returns."""
    functions = members(value).values() if inspect.isclass(value) else [value]
    found = []
    for member in functions:
        function = next(filter(None, (getattr(member, name, None) for name in ("fget", "func", "__func__"))), member)
        annotation = getattr(function, "__annotations__", {}).get("return", "")
        for name in re.findall(r"\b[A-Z]\w+", str(annotation)):
            result = _meaning(function.__module__, name)
            found += [result] if inspect.isclass(result) and _is_own(result) else []
    return found


@cache
def _imports(module: str) -> dict[str, str]:
    """Return the full names that a module imports, also for type checkers only."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }  # fmt: skip


def _meaning(module: str, name: str) -> object:
    own = getattr(importlib.import_module(module), name, None)
    imported = _imports(module).get(name)
    return resolve(imported) if own is None and imported is not None else own
