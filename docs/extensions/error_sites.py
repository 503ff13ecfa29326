"""Find the error codes of the package, and the messages and hints of its exceptions, in the source code."""

from __future__ import annotations

import ast
import importlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import apsw

import pipemagic
from pipemagic.errors import PipemagicError

PACKAGE = Path(pipemagic.__file__).parent
_CODE = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_NOT_ERRORS = {"SQLITE_OK", "SQLITE_ROW", "SQLITE_DONE", "SQLITE_NOTICE", "SQLITE_WARNING"}

_POSITIONS = {"Error": 1, "Rejected": 1, "UsageExceeded": 1, "StatementRefused": 1, "Refused": 2, "_refused": 2}
"""The position of the code in the arguments of functions and classes."""


Texts = Mapping[str, Sequence[ast.expr]]
"""The expressions of text that a name may have."""


@dataclass(frozen=True)
class Hint:
    """A message and a hint, with the placeholders of the source."""

    message: str
    hint: str


@dataclass
class Source:
    """What the source code has on an error code."""

    modules: set[str] = field(default_factory=set)
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


@cache
def error_codes() -> dict[str, Source]:
    """Return the codes that the package raises, sends or handles, and SQLite's."""
    found = {name: Source() for name in sqlite_codes()}
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    constants = {name: [text] for tree in trees.values() for name, text in _constants(tree)}
    default = {name: one.code for name, one in exception_classes().items()}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            for code in _codes_at(node, constants):
                source = found.setdefault(code, Source())
                source.modules.add(path.relative_to(PACKAGE).as_posix())
                _add_origin(source, node)
    for tree in trees.values():
        helpers = dict(_helpers(tree))
        for function in _functions(tree):
            local = {**constants, **_local_texts(function)}
            for node in ast.walk(function):
                if isinstance(node, ast.Call):
                    _add_hint(found, node, local, {**default, **helpers})
    return found


def _class_codes(node: ast.ClassDef) -> Iterator[ast.Constant]:
    """Yield the values of ``code = "X"`` and ``unchanged = "X"`` in the body of a class of exceptions."""
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="code" | "unchanged")], value=ast.Constant() as value):
                yield value


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the constants of a module: text, also in parentheses or with placeholders."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str()) | ast.JoinedStr() as value):
                yield name, value


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions and methods of a module, without those inside other functions."""
    for node in tree.body:
        for one in [node, *(node.body if isinstance(node, ast.ClassDef) else [])]:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                yield one


def _helpers(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the functions that return an exception with a message, a hint and a code, and their default codes."""
    for function in _functions(tree):
        match function.args:
            case ast.arguments(
                args=[ast.arg("message"), ast.arg("hint"), ast.arg("code")], defaults=[ast.Constant(value=str(code))]
            ):
                yield function.name, code


def _local_texts(function: ast.AST) -> dict[str, list[ast.expr]]:
    """Return the expressions that a function assigns to names."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = zip(targets, values, strict=False)
            case ast.Assign(targets=[target], value=value):
                pairs = zip([target], [value], strict=True)
            case _:
                continue
        for target, value in pairs:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(value)
    return found


def _texts(node: ast.expr | None, constants: Texts, depth: int = 0) -> list[str]:
    """Return the possible texts of an expression, with placeholders in braces; [] if it is not text."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return ["".join(_part(part, constants) for part in values)]
        case ast.IfExp(body=body, orelse=other):
            return [*_texts(body, constants, depth), *_texts(other, constants, depth)]
        case ast.BoolOp(values=values):
            return [text for value in values for text in _texts(value, constants, depth)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            right_texts = _texts(right, constants, depth)
            return [f"{one}{other}" for one in _texts(left, constants, depth) for other in right_texts or [""]]
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in constants and depth < 3:
            values = [value for value in constants[name] if 0 <= node.lineno - (value.end_lineno or 0) <= 3]
            return [text for value in values or constants[name] for text in _texts(value, constants, depth + 1)]
    return []


def _part(part: ast.expr, constants: Texts) -> str:
    """Return a part of an f-string: its text, a constant, or a placeholder, which is a name in braces."""
    match part:
        case ast.Constant(value=value):
            return str(value)
        case ast.FormattedValue(value=ast.Name() as name) if name.id.isupper() and _texts(name, constants):
            return _texts(name, constants)[0]
    names = [node for node in ast.walk(part) if isinstance(node, ast.Name | ast.Attribute)]
    last = names[0] if names else None
    name = last.attr if isinstance(last, ast.Attribute) else last.id if last else "..."
    return f"{{{name.strip('_')}}}"


def _codes_at(node: ast.AST, constants: Texts) -> Iterator[str]:
    for expression in _code_expressions(node):
        yield from (text for text in _texts(expression, constants) if _CODE.fullmatch(text))


def _code_expressions(node: ast.AST) -> Iterator[ast.expr | None]:
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
        case ast.Call(func=function, args=args, keywords=keywords):
            yield from (one.value for one in keywords if one.arg == "code")
            position = _POSITIONS.get(_name(function), len(args))
            yield from args[position : position + 1]
            if ast.unparse(function) == "_CODES.get":
                yield args[1]
        case ast.Compare(left=left, comparators=[right]) if _name(left) == "code":
            yield right
        case ast.Tuple(elts=[ast.Constant(value=int()), ast.Constant(value=str()) as code, *_]):
            yield code
        case ast.Tuple(elts=[ast.Constant(value=str()) as code, ast.Constant(value=str()) as text]) if " " in str(
            text.value
        ):
            yield code
        case ast.Dict(keys=[ast.Constant(value=int()) as key, *_], values=values):
            yield from (values if key.value in range(400, 600) else ())


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _add_origin(source: Source, node: ast.AST) -> None:
    """Add the class or the HTTP status with which a node sends its code."""
    match node:
        case ast.ClassDef(name=name):
            source.classes.add(name)
        case ast.Call(func=function) if _name(function) in exception_classes():
            source.classes.add(_name(function))
        case ast.Call(func=function, args=[ast.Constant(value=int(status)), *_]) if _name(function) == "Refused":
            source.statuses.add(status)
        case ast.Tuple(elts=[ast.Constant(value=int(status)), *_]):
            source.statuses.add(status)


def _add_hint(found: dict[str, Source], node: ast.Call, constants: Texts, default: Mapping[str, str]) -> None:
    """Add the messages and hints of a call that creates an exception."""
    given = {one.arg: one.value for one in node.keywords}
    given |= dict(zip(("message", "hint", "code"), node.args, strict=False))
    if _name(node.func) not in default or not {"message", "hint"} <= given.keys():
        return
    message = next(iter(_texts(given["message"], constants)), "")
    match given:
        case {"code": ast.Name(id=code), "hint": ast.Name(id=hint)} if (
            len(constants.get(code, ())) == len(constants.get(hint, ())) > 1
        ):
            both = zip(constants[code], constants[hint], strict=True)  # assigned together
            pairs = [pair for one, other in both for pair in _product(one, other, constants)]
        case _:
            codes = [text for text in _texts(given.get("code"), constants) if _CODE.fullmatch(text)]
            hints = _texts(given["hint"], constants)
            pairs = list(itertools.product(codes or [default[_name(node.func)]], hints))
    for code, hint in pairs:
        if message.strip("{}") != "message" and hint:
            found[code].hints[Hint(message, hint)] = None


def _product(one: ast.expr, other: ast.expr, constants: Texts) -> Iterator[tuple[str, str]]:
    return itertools.product(_texts(one, constants), _texts(other, constants))
