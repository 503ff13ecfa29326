"""Compute the texts that expressions in the source code of the package may have, with placeholders in braces."""

from __future__ import annotations

import ast
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef
_DEEPEST = 8
_MOST = 6  # alternatives of a part of a text; a placeholder replaces more
_ADDING = {"append", "insert"}
_OF_TEXT = {"format", "strip", "rstrip", "lstrip", "removeprefix", "removesuffix", "capitalize"}


@dataclass(frozen=True, eq=False)
class Frame:
    """A function, and the arguments of one call of it with the frame of that call.

    The parameters of a function without ``arguments`` are unknown.
    """

    function: Function | None = None
    arguments: Mapping[str, tuple[ast.expr, Frame]] | None = None
    depth: int = 0


Value = tuple[ast.expr, Frame]
"""An expression, and the frame in which it has its value."""


@dataclass
class Found:
    """The texts of an expression, and the parts of it that have no known text."""

    texts: list[str] = field(default_factory=list)
    parameters: set[str] = field(default_factory=set)
    unknown: list[ast.expr] = field(default_factory=list)
    passed_on: bool = False
    """Whether the expression may be the hint of another error."""
    separator: str = ""
    """What separates the texts if they are parts of one text."""

    def add(self, other: Found) -> None:
        """Add what was found for a part."""
        self.texts += [text for text in other.texts if text not in self.texts]
        self.parameters |= other.parameters
        self.unknown += other.unknown
        self.passed_on |= other.passed_on
        self.separator = self.separator or other.separator


class Package:
    """The parsed modules of a package, by dotted name, and the functions, constants and calls in them."""

    def __init__(self, modules: Mapping[str, ast.Module]) -> None:
        self.modules = modules
        self.parents: dict[ast.AST, ast.AST] = {}
        self.names: dict[str, dict[str, list[ast.AST]]] = {}
        self.imports: dict[str, dict[str, tuple[str, str]]] = {}
        self.calls: dict[str, list[ast.Call]] = defaultdict(list)
        self.attributes: dict[str, list[ast.expr]] = defaultdict(list)
        self._module_of: dict[ast.AST, str] = {}
        self._functions_held: dict[str, list[ast.AST]] = {}
        for name, tree in modules.items():
            self._index(name, tree)

    def _index(self, module: str, tree: ast.Module) -> None:
        names: dict[str, list[ast.AST]] = defaultdict(list)
        self.names[module], self.imports[module], self._module_of[tree] = names, {}, module
        for node in ast.walk(tree):
            self.parents.update((child, node) for child in ast.iter_child_nodes(node))
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    names[name].append(node)
                case ast.ImportFrom(module=str(origin), names=aliases):
                    self.imports[module] |= {one.asname or one.name: (origin, one.name) for one in aliases}
                case ast.Call(func=function, keywords=keywords):
                    self.calls[name_of(function)].append(node)
                    for keyword in keywords:
                        self.attributes[keyword.arg or ""].append(keyword.value)
                case ast.Assign(targets=[ast.Attribute(attr=name)], value=value):
                    self.attributes[name].append(value)
                case ast.AugAssign(target=ast.Name(id=name)):
                    self._add_sum(node, name)
        for statement in tree.body:
            for target, value in _assignments(statement):
                names[target].append(value)

    def _add_sum(self, node: ast.AugAssign, name: str) -> None:
        """Replace the value of ``x += y`` by ``x + y``, whose ``x`` is the one before."""
        before = ast.copy_location(ast.Name(name, ast.Load()), node)
        node.value = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
        self.parents |= {node.value: node, before: node.value}

    # -- places and names

    def module(self, node: ast.AST) -> str:
        """Return the module of a node."""
        while node not in self._module_of:
            node = self.parents[node]
        return self._module_of[node]

    def function(self, node: ast.AST) -> Function | None:
        """Return the function that contains a node."""
        while (above := self.parents.get(node)) is not None:
            node = above
            if isinstance(node, Function):
                return node
        return None

    def class_of_method(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the class that contains a node."""
        while (above := self.parents.get(node)) is not None:
            node = above
            if isinstance(node, ast.ClassDef):
                return node
        return None

    def lookup(self, module: str, name: str) -> list[ast.AST]:
        """Return what a name means in a module: functions, classes, or the values of a constant."""
        if name in self.names.get(module, {}):
            return self.names[module][name]
        if name in self.imports.get(module, {}):
            origin, real = self.imports[module][name]
            return self.lookup(origin, real) if origin != module and origin in self.modules else []
        return []

    def defined(self, node: ast.expr) -> list[ast.AST]:
        """Return the functions, classes or values that a name or an attribute outside of functions means."""
        module = self.module(node)
        match node:
            case ast.Name(id=name):
                return self.lookup(module, name)
            case ast.Attribute(value=ast.Name(id=base), attr=name) if base in self.imports[module]:
                return self.lookup(".".join(self.imports[module][base]), name)
            case ast.Attribute(attr=name):
                return [*self.lookup(module, name), *self._held(name)]
        return []

    def _held(self, name: str) -> list[ast.AST]:
        """Return the functions that an attribute of this name may have as its value."""
        if name not in self._functions_held:
            values = [value for value in self.attributes.get(name, ()) if isinstance(value, ast.Name | ast.Attribute)]
            found = [one for value in values for one in self.lookup(self.module(value), name_of(value))]
            self._functions_held[name] = [one for one in found if isinstance(one, Function)]
        return self._functions_held[name]

    def called(self, call: ast.Call) -> list[Function]:
        """Return the functions of the package that a call may run; for a class its ``__init__``."""
        found = []
        for one in self.defined(call.func):
            if isinstance(one, ast.ClassDef):
                found += self._init(one)
            elif isinstance(one, Function):
                found.append(one)
        return list(dict.fromkeys(found))

    def _init(self, kind: ast.ClassDef) -> list[Function]:
        """Return the ``__init__`` of a class or of its first base that has one; none if there is none."""
        own = [node for node in kind.body if isinstance(node, Function) and node.name == "__init__"]
        bases = [base for node in kind.bases for base in self.defined(node) if base is not kind]
        return own or next(
            (found for base in bases if isinstance(base, ast.ClassDef) and (found := self._init(base))), []
        )

    def argument(self, call: ast.Call, name: str) -> ast.expr | None:
        """Return the expression that a call gives for a parameter, or for a field of a class without ``__init__``."""
        if (given := next((one.value for one in call.keywords if one.arg == name), None)) is not None or not call.args:
            return given
        signatures = [self.parameters(one) for one in self.called(call)]
        signatures += [_fields(one) for one in self.defined(call.func) if isinstance(one, ast.ClassDef)]
        positions = [names.index(name) for names in signatures if name in names[: len(call.args)]]
        return call.args[positions[0]] if positions else None

    def calls_of(self, function: Function) -> list[ast.Call]:
        """Return the calls of a function."""
        above = self.parents[function]
        name = above.name if function.name == "__init__" and isinstance(above, ast.ClassDef) else function.name
        return [call for call in self.calls.get(name, ()) if function in self.called(call)]

    def parameters(self, function: Function) -> list[str]:
        """Return the names of the positional parameters of a function, without ``self``."""
        names = [one.arg for one in function.args.args]
        return names[1:] if isinstance(self.parents[function], ast.ClassDef) else names

    # -- frames

    def frame(self, calls: Sequence[ast.Call], node: ast.AST) -> Frame:
        """Return the frame of a node, in the function that the first of ``calls`` runs, and so on."""
        function = self.function(node)
        if not calls or function is None:
            return Frame(function)
        return self.bound(calls[0], function, self.frame(calls[1:], calls[0]))

    def bound(self, call: ast.Call, function: Function, caller: Frame) -> Frame:
        """Return the frame of a function in a call."""
        signature, own = function.args, Frame(function, {}, caller.depth + 1)
        names = [one.arg for one in (*signature.args, *signature.kwonlyargs)]
        defaults = [*signature.defaults, *signature.kw_defaults]
        arguments = {
            name: (value, own) for name, value in zip(names[-len(defaults) :], defaults, strict=False) if value
        }
        arguments |= {name: (value, caller) for name, value in zip(self.parameters(function), call.args, strict=False)}
        arguments |= {one.arg: (one.value, caller) for one in call.keywords if one.arg}
        return Frame(function, arguments, caller.depth + 1)

    # -- texts

    def texts(self, node: ast.expr | None, frame: Frame) -> Found:
        """Return the possible texts of an expression."""
        match node:
            case None | ast.Constant(value=None):
                return Found()
            case ast.Constant(value=str(text)):
                return Found([text])
            case ast.Constant(value=float(number) | int(number)) if not isinstance(number, bool):
                return Found([f"{number:g}"])
            case ast.JoinedStr(values=values):
                parts = [self._part(part, frame) for part in values]
                return Found(
                    _joined([part.texts for part in parts]), {name for part in parts for name in part.parameters}
                )
            case ast.IfExp(test=ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=1)]), orelse=plural):
                return self.texts(plural, frame)
            case ast.IfExp(body=body, orelse=other):
                return self._union([body, other], frame)
            case ast.BoolOp(op=ast.And(), values=[*_, last]):
                return self._union([last], frame, "")
            case ast.BoolOp(values=[*first, last]):
                found = self._union(first, frame)
                found.texts = [text for text in found.texts if text]
                found.add(self.texts(last, frame))
                return found
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._sum(left, right, frame)
            case ast.NamedExpr(value=value):
                return self.texts(value, frame)
            case ast.Name() | ast.Attribute():
                return self._of_name(node, frame)
            case ast.Subscript(value=value, slice=ast.Constant(value=int(index))):
                return self._union_of(self._elements(value, index, frame), [node])
            case ast.Subscript(value=value):
                return self._union_of(self._values(value, frame), [node])
            case ast.Call():
                return self._of_call(node, frame)
        return Found(unknown=[node])

    def _union(self, nodes: Sequence[ast.expr], frame: Frame, *also: str) -> Found:
        return self._union_of([(node, frame) for node in nodes], nodes, *also)

    def _union_of(self, nodes: Sequence[Value], unknown: Sequence[ast.expr], *also: str) -> Found:
        """Return the texts of alternatives; without any, that the texts of ``unknown`` are not known."""
        found = Found([], set(), [] if nodes else list(unknown))
        for node, frame in nodes:
            found.add(self.texts(node, frame))
        found.texts += also
        return found

    def _sum(self, left: ast.expr, right: ast.expr, frame: Frame) -> Found:
        """Return the texts of ``left + right``, with a placeholder for one of them if it is not known."""
        sides = {node: self.texts(node, frame) for node in (left, right)}
        if not any(found.texts for found in sides.values()):
            return self._union([left, right], frame)
        found = Found(_joined([one.texts or [_placeholder(node)] for node, one in sides.items()]))
        found.separator = "".join(one.separator for one in sides.values())[:1]
        return found

    def _part(self, part: ast.expr, frame: Frame) -> Found:
        """Return the texts of a part of an f-string; a placeholder if these are not known, or not several words."""
        if isinstance(part, ast.Constant):
            return Found([str(part.value)])
        value = part.value if isinstance(part, ast.FormattedValue) else part
        found = self.texts(value, frame)
        if found.parameters == {"hint"}:
            return Found([_placeholder(value)], found.parameters)
        known = found.texts and not (found.unknown or found.parameters or found.passed_on)
        argument, _ = (frame.arguments or {}).get(name_of(value), (None, None))
        inserted = isinstance(argument, ast.Constant) or _is_inserted(value, found.texts)
        if known and len(found.texts) <= _MOST and inserted:
            return Found(found.texts)
        return Found([_placeholder(value)])

    def _of_name(self, node: ast.Name | ast.Attribute, frame: Frame) -> Found:
        if frame.depth > _DEEPEST:
            return Found(unknown=[node])
        if isinstance(node, ast.Name):
            if values := self.assigned(node, frame):
                return self._union_of(values, [node])
            if frame.function is not None and node.id in _parameters(frame.function):
                return Found(parameters={node.id})
        elif node.attr == "code":
            return Found(passed_on=True)
        elif (fields := self._of_field(node, frame)) is not None:
            return self._union_of(fields, [])
        elif node.attr == "hint":
            return Found(passed_on=True)
        constants = [one for one in self.defined(node) if isinstance(one, ast.expr)]
        return self._union_of([(one, Frame()) for one in constants], [node])

    def _of_field(self, node: ast.Attribute, frame: Frame) -> list[Value] | None:
        """Return the values that a field has in the calls of its class; None if the class is not known."""
        if (kind := self._class_of(node.value, frame)) is None:
            return None
        defaults = [value for statement in kind.body for name, value in _assignments(statement) if name == node.attr]
        values = []
        for call in (one for one in self.calls.get(kind.name, ()) if kind in self.defined(one.func)):
            given = self.argument(call, node.attr)
            own = Frame(self.function(call), None, frame.depth + 1)
            values += [(value, own) for value in ([given] if given is not None else defaults)]
        return values

    def _class_of(self, node: ast.expr, frame: Frame) -> ast.ClassDef | None:
        """Return the class with fields that the annotation of a function names, for a value that it returned."""
        if not isinstance(node, ast.Name):
            return None
        for value, _ in self.assigned(node, frame):
            for function in self.called(value) if isinstance(value, ast.Call) else ():
                for name in [one for one in ast.walk(function.returns or node) if isinstance(one, ast.Name)]:
                    for kind in self.lookup(self.module(function), name.id):
                        if isinstance(kind, ast.ClassDef) and any(isinstance(one, ast.AnnAssign) for one in kind.body):
                            return kind
        return None

    def _of_call(self, call: ast.Call, frame: Frame) -> Found:
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=separator), attr="join"), args=[items]):
                found = self._union_of(self._items(items, frame), [items])
                found.separator = str(separator)
                return found
            case ast.Call(func=ast.Attribute(value=base, attr="split"), args=[ast.Constant(value=str(separator))]):
                found = self.texts(base, frame)
                found.texts = [part for text in found.texts for part in text.split(separator)]
                return found
            case ast.Call(func=ast.Attribute(value=base, attr=name)) if name in _OF_TEXT:
                found, args = self.texts(base, frame), [one.value for one in call.args if isinstance(one, ast.Constant)]
                found.texts = [getattr(text, name)(*args) if name != "format" else text for text in found.texts]
                return found
            case ast.Call(func=ast.Attribute(value=base, attr="get"), args=[_, *default]):
                return self._union_of([*self._values(base, frame), *((one, frame) for one in default)], [call])
            case ast.Call(func=ast.Name(id="next"), args=[ast.GeneratorExp(elt=element), *default]):
                return self._union([element, *default], frame)
        functions = self.called(call) if frame.depth <= _DEEPEST else []
        results = [result for one in functions for result in self._results(one, call, frame)]
        return self._union_of(results, [call])

    def _results(self, function: Function, call: ast.Call, frame: Frame) -> Iterator[Value]:
        """Yield the expressions that a function returns, with the frame of the call."""
        own = self.bound(call, function, frame)
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and node.value is not None and self.function(node) is function:
                yield node.value, own

    # -- lists, tuples and dicts

    def _items(self, node: ast.expr, frame: Frame) -> list[Value]:
        """Return the items of a list, or of all lists that an expression may be."""
        match node:
            case ast.List(elts=items) | ast.Tuple(elts=items):
                several = [(item, isinstance(item, ast.Starred)) for item in items]
                return [one for item, is_list in several for one in self._items_of(item, frame, is_list)]
            case ast.Starred(value=items) | ast.Call(func=ast.Name(id="filter"), args=[_, items]):
                return self._items(items, frame)
            case ast.IfExp(body=left, orelse=right) | ast.BinOp(left=left, right=right):
                return [*self._items(left, frame), *self._items(right, frame)]
            case ast.Attribute() if (values := self._of_field(node, frame)) is not None:
                return [one for value, own in values for one in self._items(value, own)]
            case ast.Name() if values := self.assigned(node, frame):
                return [one for value, own in values for one in self._items_of(value, own, not self._is_added(value))]
        return [(node, frame)]

    def _items_of(self, node: ast.expr, frame: Frame, is_list: bool) -> list[Value]:
        return self._items(node, frame) if is_list else [(node, frame)]

    def _is_added(self, node: ast.expr) -> bool:
        """Return True for an argument of ``append`` or ``insert``, which is one item."""
        above = self.parents[node]
        return isinstance(above, ast.Call) and name_of(above.func) in _ADDING

    def _elements(self, node: ast.expr, index: int, frame: Frame) -> list[Value]:
        """Return the possible values of an item of a tuple."""
        match node:
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return [(items[index], frame)]
            case ast.Call():
                results = [one for function in self.called(node) for one in self._results(function, node, frame)]
                return [one for value, own in results for one in self._elements(value, index, own)]
            case ast.Name():
                values = self.assigned(node, frame)
                return [one for value, own in values for one in self._elements(value, index, own)]
        return []

    def _values(self, node: ast.expr, frame: Frame) -> list[Value]:
        """Return the values of a dict."""
        if isinstance(node, ast.Name | ast.Attribute):
            return [one for value in self.defined(node) for one in self._values(value, Frame())]  # type: ignore[arg-type]
        return [(value, frame) for value in node.values] if isinstance(node, ast.Dict) else []

    # -- assignments

    def assigned(self, name: ast.Name, frame: Frame) -> list[Value]:
        """Return the expressions that a local name may have been assigned before it is used."""
        found: list[Value] = []
        node: ast.AST = name
        while not isinstance(above := self.parents.get(node), ast.Module | None):
            if isinstance(above, ast.comprehension | ast.GeneratorExp | ast.ListComp):
                found += self._of_loop(above, name.id, frame)
            if isinstance(above, ast.If | ast.IfExp) and node is not above.test:
                found += [(value, frame) for value in _walruses(above.test, name.id)]
            block = next((one for _, one in ast.iter_fields(above) if isinstance(one, list) and node in one), [])
            for statement in reversed(block[: block.index(node)] if block else []):
                values, certain = self._in_statement(statement, name.id, frame)
                found = [*values, *found]
                if certain:
                    return found
            if isinstance(above, Function) and name.id in _parameters(above):
                argument = (frame.arguments or {}).get(name.id) if above is frame.function else None
                return [*([argument] if argument else []), *found]
            node = above
        return found

    def _of_loop(self, node: ast.AST, name: str, frame: Frame) -> list[Value]:
        """Return the values of a dict over which a comprehension runs with this name."""
        for loop in getattr(node, "generators", ()):
            match loop.target, loop.iter:
                case (
                    ast.Name(id=target) | ast.Tuple(elts=[_, ast.Name(id=target)]),
                    ast.Call(func=ast.Attribute(value=base, attr="items" | "values")),
                ) if target == name:
                    return self._values(base, frame)
        return []

    def _in_statement(self, statement: ast.stmt, name: str, frame: Frame) -> tuple[list[Value], bool]:
        """Return what a statement assigns to a name, and whether it always does."""
        values: list[Value] = [(value, frame) for value in _walruses(statement, name)]
        for node in ast.walk(statement):
            match node:
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value) if not isinstance(value, ast.Tuple):
                    positions = [at for at, one in enumerate(targets) if name_of(one) == name]
                    values += [one for at in positions for one in self._elements(value, at, frame)]
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(value=ast.Name(id=base), attr=method), args=[*_, item])
                ) if base == name and method in _ADDING:
                    values.append((item, frame))
                case ast.stmt():
                    values += [(value, frame) for target, value in _assignments(node) if target == name]
        return values, _is_certain(statement, name)


def _is_certain(statement: ast.stmt, name: str) -> bool:
    """Return True if a statement always assigns a new value to a name."""
    match statement:
        case ast.If(body=body, orelse=[_, *_] as other):
            return all(any(_is_certain(one, name) for one in block) for block in (body, other))
        case ast.Assign(targets=targets):
            return any(_is_target(one, name) for target in targets for one in ast.walk(target))
    return any(target == name for target, _ in _assignments(statement))


def _is_target(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _walruses(node: ast.AST, name: str) -> list[ast.expr]:
    """Return the values that ``name := ...`` assigns in a node."""
    return [one.value for one in ast.walk(node) if isinstance(one, ast.NamedExpr) and one.target.id == name]


def _assignments(statement: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a statement assigns, with the values."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            yield from ((name_of(one), value) for one, value in zip(targets, values, strict=False))
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            yield name, value  # see Package._add_sum


def _fields(kind: ast.ClassDef) -> list[str]:
    return [name_of(one.target) for one in kind.body if isinstance(one, ast.AnnAssign)]


def _parameters(function: Function) -> set[str]:
    return {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}


def _joined(parts: Sequence[Sequence[str]]) -> list[str]:
    """Return the combinations of alternatives; if these are many, with one part at a time that is not its first."""
    if math.prod(map(len, parts)) <= _MOST:
        return list(dict.fromkeys(map("".join, itertools.product(*parts))))
    first = [part[0] for part in parts]
    varied = ((at, text) for at, part in enumerate(parts) for text in part)
    return list(dict.fromkeys("".join([*first[:at], text, *first[at + 1 :]]) for at, text in varied))


def _is_inserted(node: ast.expr, texts: Sequence[str]) -> bool:
    """Return True if the texts of a part of an f-string say more than its name."""
    name = name_of(node)
    return name.isupper() if isinstance(node, ast.Attribute) or name.isupper() else (
        isinstance(node, ast.IfExp | ast.BoolOp) or any(" " in text for text in texts)
    )  # fmt: skip


def _placeholder(node: ast.expr) -> str:
    """Return the name of an expression in braces: of a call, that of its argument."""
    while True:
        match node:
            case ast.Call(func=ast.Name(id="len")):
                return "{count}"
            case ast.Subscript(slice=ast.Constant(value=str(key))):
                return f"{{{key}}}"
            case ast.Call(func=ast.Attribute(value=ast.Constant()), args=[below]):  # join
                node = below
            case ast.Call(func=ast.Attribute(attr="quote"), args=[below]):
                node = below
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self")) as method):
                node = method
            case ast.Call(func=ast.Attribute(value=below) as method, args=args):
                node = below if all(isinstance(one, ast.Constant) for one in args) else method
            case ast.Call(args=[below, *_]) | ast.Subscript(value=below):
                node = below
            case ast.IfExp(body=below, orelse=other):
                node = other if isinstance(below, ast.Constant) else below
            case ast.Attribute(value=ast.Call() as below, attr="__name__"):
                node = ast.Name("type")
            case ast.Name() | ast.Attribute():
                return f"{{{name_of(node).strip('_')}}}"
            case _:
                names = [one for one in ast.walk(node) if isinstance(one, ast.Name)]
                return f"{{{names[0].id.strip('_') if names else '...'}}}"


def name_of(node: ast.AST) -> str:
    """Return the last name of a name or an attribute; '' for other expressions."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
