"""Find the error codes of the package, and the messages and hints of its exceptions, in the source code."""

from __future__ import annotations

import ast
import importlib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import apsw
from source_texts import Found, Frame, Package, name_of

import pipemagic
from pipemagic.errors import PipemagicError

PACKAGE = Path(pipemagic.__file__).parent
_CODE = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_NOT_ERRORS = {"SQLITE_OK", "SQLITE_ROW", "SQLITE_DONE", "SQLITE_NOTICE", "SQLITE_WARNING"}

SEVERAL = ""
"""The code of hints that errors with several codes have."""


@dataclass(frozen=True)
class Hint:
    """A message and a hint, with the placeholders of the source."""

    message: str
    hint: str


@dataclass
class Source:
    """What the source code has on an error code."""

    classes: set[str] = field(default_factory=set)
    statuses: set[int] = field(default_factory=set)
    hints: dict[Hint, None] = field(default_factory=dict)


def sqlite_codes() -> set[str]:
    """Return the codes of SQLite's primary result codes that are errors; the service sends these."""
    names = {str(name) for number, name in apsw.mapping_result_codes.items() if isinstance(number, int)}
    return names - _NOT_ERRORS


@cache
def exception_classes() -> dict[str, type[PipemagicError]]:
    """Return the exceptions of the package by name."""
    for module in ("secret_scan", "service.sqld.binary"):  # have a class of their own
        importlib.import_module(f"pipemagic.{module}")
    found, classes = {}, [PipemagicError]
    while classes:
        one = classes.pop()
        found[one.__name__] = one
        classes += one.__subclasses__()
    return found


@dataclass
class Hints:
    """The codes, messages and hints of a package, the calls that lead to them, and the hints without a known text."""

    found: dict[tuple[str, Hint], None] = field(default_factory=dict)
    followed: set[ast.Call] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)


@cache
def package() -> Package:
    """Return the parsed source code of the package."""
    paths = {path: path.relative_to(PACKAGE.parent).with_suffix("") for path in sorted(PACKAGE.rglob("*.py"))}
    return Package({
        ".".join(name.parts).removesuffix(".__init__"): ast.parse(path.read_text("utf-8"))
        for path, name in paths.items()
    })  # fmt: skip


@cache
def error_codes() -> dict[str, Source]:
    """Return the codes that the package raises, sends or handles, and SQLite's."""
    found = {name: Source() for name in sqlite_codes()}
    for tree in package().modules.values():
        for node in ast.walk(tree):
            for code in codes_at(node, package()):
                _add_origin(found.setdefault(code, Source()), node)
    for code, hint in package_hints().found:
        if code != SEVERAL:
            found.setdefault(code, Source()).hints[hint] = None
    return found


def hints_of_several() -> list[Hint]:
    """Return the hints of errors that have no code of their own."""
    return [hint for code, hint in package_hints().found if code == SEVERAL]


@cache
def package_hints() -> Hints:
    """Return the hints of the exceptions that the package creates."""
    return hints(package())


def _class_codes(node: ast.ClassDef) -> Iterator[ast.Constant]:
    """Yield the values of ``code = "X"`` and ``unchanged = "X"`` in the body of a class of exceptions."""
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="code" | "unchanged")], value=ast.Constant() as value):
                yield value


def codes_at(node: ast.AST, source: Package) -> Iterator[str]:
    """Yield the error codes that a node names."""
    for expression in _code_expressions(node, source):
        yield from _codes(source.texts(expression, source.frame((), node)))


def _codes(found: Found) -> list[str]:
    return [text for text in found.texts if _CODE.fullmatch(text)]


def _code_expressions(node: ast.AST, source: Package) -> Iterator[ast.expr | None]:
    """Yield the expressions of a node that are error codes."""
    match node:
        case ast.ClassDef():
            yield from _class_codes(node)
        case ast.Assign(targets=[ast.Name(id="code")], value=value):
            yield value
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            yield from (
                value for target, value in zip(targets, values, strict=False)
                if isinstance(target, ast.Name) and target.id == "code"
            )  # fmt: skip
        case ast.arguments(args=args, defaults=defaults) if defaults:
            yield from (value for one, value in zip(args[-len(defaults) :], defaults, strict=True) if one.arg == "code")
        case ast.Call(func=ast.Attribute(value=ast.Name(id="_CODES"), attr="get"), args=[_, default]):
            yield default
        case ast.Call():
            yield source.argument(node, "code")
        case ast.Compare(left=left, comparators=[right]) if name_of(left) == "code":
            yield right
        case ast.Tuple(elts=[ast.Constant(value=int()), ast.Constant(value=str()) as code, *_]):
            yield code
        case ast.Tuple(elts=[ast.Constant(value=str()) as code, ast.Constant(value=str()) as text]) if " " in str(
            text.value
        ):
            yield code
        case ast.Dict(keys=[ast.Constant(value=int()) as key, *_], values=values):
            yield from (values if key.value in range(400, 600) else ())


def _add_origin(source: Source, node: ast.AST) -> None:
    """Add the class or the HTTP status with which a node sends its code."""
    match node:
        case ast.ClassDef(name=name):
            source.classes.add(name)
        case ast.Call(func=function) if name_of(function) in exception_classes():
            source.classes.add(name_of(function))
        case ast.Call(func=function, args=[ast.Constant(value=int(status)), *_]) if name_of(function) == "Refused":
            source.statuses.add(status)
        case ast.Tuple(elts=[ast.Constant(value=int(status)), *_]):
            source.statuses.add(status)


# -- hints


def hints(source: Package) -> Hints:
    """Return the hints of all exceptions that a package creates."""
    result = Hints()
    for call in calls_with_hints(source):
        if _classes_of(call, source):
            _add_hints(result, source, call, ())
    return result


def calls_with_hints(source: Package) -> Iterator[ast.Call]:
    """Yield the calls that have a hint: as ``hint=...``, or for the parameter ``hint`` of a function."""
    for call in (one for called in source.calls.values() for one in called):
        if source.argument(call, "hint") is not None and source.module(call) != PipemagicError.__module__:
            yield call


def _add_hints(result: Hints, source: Package, call: ast.Call, callers: tuple[ast.Call, ...]) -> None:
    """Add the hints of a call that creates an exception, in the calls of its function that give it the hint."""
    frame = source.frame(callers, call)
    found = source.texts(source.argument(call, "hint"), frame)
    result.followed |= {call, *callers}
    codes = _codes_of(call, source, frame)
    outermost = source.function(callers[-1] if callers else call)
    above = source.calls_of(outermost) if outermost is not None and (found.parameters or not codes) else []
    for caller in above:
        _add_hints(result, source, call, (*callers, caller))
    if above:
        return
    unknown = [*map(ast.unparse, found.unknown), *found.parameters]
    result.unknown |= {f"{source.module(call)}: {text}" for text in unknown}
    message = call.args[0] if call.args else source.argument(call, "message")
    named = source.texts(message, frame) if message is not None else Found()
    is_part = named.separator == "\n" or (not named.separator and (named.unknown or named.parameters))
    known = [] if is_part else named.texts
    shown = ["" if _ONLY_NAMES.fullmatch(text) else text for text in known] or [""]
    texts = [text.strip() for text in found.texts if text and text[-1] not in " :"]  # parts before another one
    pairs = itertools.product(codes or [SEVERAL], shown, texts)
    result.found |= {(code, Hint(name, text)): None for code, name, text in pairs}


def _codes_of(call: ast.Call, source: Package, frame: Frame) -> list[str]:
    """Return the codes of the exception that a call creates; none if they depend on a parameter."""
    given = source.argument(call, "code")
    found = source.texts(given, frame)
    if given is not None and (found.parameters or _codes(found)):
        return _codes(found)
    if given is not None and "" not in found.texts:
        return [SEVERAL]
    return [SEVERAL if one in _OF_SEVERAL_CODES else exception_classes()[one].code for one in _classes_of(call, source)]


_OF_SEVERAL_CODES = {"PipemagicError", "StatementError"}
_ONLY_NAMES = re.compile(r"(\{\w+\}\s*)+")


def _classes_of(call: ast.Call, source: Package) -> list[str]:
    """Return the names of the classes of exceptions that a call may create."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in exception_classes():
            return [name]
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
            kind = source.class_of_method(call)
            return [kind.name] if kind is not None and kind.name in exception_classes() else []
        case ast.Attribute(value=base, attr="replace"):
            return _classes_caught(base, call, source)
    return []


def _classes_caught(error: ast.expr, call: ast.Call, source: Package) -> list[str]:
    """Return the classes of the handler that caught an error."""
    node: ast.AST = call
    while (above := source.parents.get(node)) is not None:
        node = above
        if isinstance(node, ast.ExceptHandler) and node.name == name_of(error) and node.type is not None:
            names = {one.id for one in ast.walk(node.type) if isinstance(one, ast.Name)}
            return sorted(names & exception_classes().keys()) or ["PipemagicError"]
    return ["PipemagicError"]
