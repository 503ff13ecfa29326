"""The state of a stream and of its transaction has one writer: `Transaction`, and `StreamState` below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import pipemagic
from pipemagic.client import transaction as owner
from pipemagic.client.transaction import Loss, Reason, Transaction
from pipemagic.hrana import stream as tables

ROOT = Path(pipemagic.__file__).parent
OF_A_TRANSACTION = {"transaction", "_transaction"}
STATES = {"Phase", "Tx"}


def facts() -> list[str]:
    """Return the public names of a transaction that are no methods."""
    transaction = Transaction()
    return [name for name in dir(transaction) if name[0] != "_" and not callable(getattr(transaction, name))]


def test_a_transaction_has_no_public_variables():
    assert {"state", "loss", "statements"} <= set(facts())
    assert [name for name in vars(Transaction()) if not name.startswith("_")] == []


@pytest.mark.parametrize("name", facts())
def test_its_facts_can_be_read_only(name):
    transaction = Transaction()
    with pytest.raises(AttributeError):
        setattr(transaction, name, getattr(transaction, name))
    assert not isinstance(getattr(transaction, name), list | dict | set), "a caller could change it"


def test_a_loss_cannot_be_changed():
    loss = Loss(Reason.IDLE_LIMIT)
    for name in ("reason", "statements", "certain"):
        with pytest.raises(AttributeError):
            setattr(loss, name, getattr(loss, name))


def modules_with(text: str, *, beside: ModuleType) -> Iterator[tuple[str, ast.Module]]:
    """Yield the name and the tree of each module that contains a text, except one."""
    for file in sorted(ROOT.rglob("*.py")):
        if file != Path(beside.__file__ or "") and text in file.read_text("utf-8"):
            yield str(file.relative_to(ROOT)), parsed(file)


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def assigned(tree: ast.AST) -> Iterator[tuple[ast.Attribute, ast.AST | None]]:
    """Yield the attributes that a module assigns or deletes, each with the value if there is one."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets, value):
                pairs = [(target, value) for target in targets]
            case ast.AnnAssign(target, _, value) | ast.AugAssign(target, _, value) | ast.NamedExpr(target, value):
                pairs = [(target, value)]
            case ast.For(target, value) | ast.comprehension(target, value):
                pairs = [(target, value)]
            case ast.withitem(value, ast.expr() as target):
                pairs = [(target, value)]
            case ast.Delete(targets):
                pairs = [(target, None) for target in targets]
            case ast.Call(ast.Name("setattr" | "delattr"), [target, ast.Constant(name), *values]):
                pairs = [(ast.Attribute(target, name, lineno=node.lineno), values[0] if values else None)]
            case _:
                continue
        for target, value in pairs:
            yield from ((attribute, value) for attribute in ast.walk(target) if is_stored(attribute, target))


def is_stored(node: ast.AST, target: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and (node is target or isinstance(node.ctx, ast.Store | ast.Del))


def name_of(node: ast.AST) -> str:
    match node:
        case ast.Name(name) | ast.Attribute(_, name):
            return name
    return ""


@pytest.mark.parametrize(
    "code",
    [
        "stream.transaction.lost = None",
        "self._transaction.incomplete |= True",
        "transaction.held: list = []",
        "a, (transaction.begun, b) = x",
        "del transaction.lost",
        "setattr(stream.transaction, 'lost', None)",
        "for transaction.begun in x: pass",
        "with x as self._transaction.held: pass",
    ],
)
def test_an_assignment_is_found(code):
    assert [name_of(attribute.value) in OF_A_TRANSACTION for attribute, _ in assigned(ast.parse(code))] == [True]


def test_nothing_else_writes_a_transaction():
    writes = [
        f"{name}:{attribute.lineno} {ast.unparse(attribute)}"
        for name, tree in modules_with("transaction.", beside=owner)
        for attribute, _ in assigned(tree)
        if name_of(attribute.value) in OF_A_TRANSACTION
    ]
    assert writes == []


def test_nothing_else_assigns_a_state_of_the_tables():
    writes = [
        f"{name}:{attribute.lineno} {ast.unparse(attribute)}"
        for name, tree in modules_with(tables.__name__, beside=tables)
        if imports_states(tree)
        for attribute, value in assigned(tree)
        if value is not None and mentions_state(value)
    ]
    assert writes == []


def imports_states(tree: ast.Module) -> bool:
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == tables.__name__)
    return any(STATES & {alias.name for alias in node.names} for node in imports)


def mentions_state(value: ast.AST) -> bool:
    """Return True if a state is the value, or may be: ``Tx.OPEN``, ``Tx.NONE if done else Tx.OPEN``."""
    match value:
        case ast.Attribute(ast.Name(name)):
            return name in STATES
        case ast.IfExp(_, first, second):
            return mentions_state(first) or mentions_state(second)
        case ast.Tuple(values):
            return any(map(mentions_state, values))
    return False
