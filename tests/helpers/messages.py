"""Every message and help text of the package as a list: ``python tests/helpers/messages.py [FOLDER...]`` prints it.

The texts are read from the source code. ``{...}`` stands for a value. Texts of one kind have one form, which
`tests/test_messages.py` checks:

- error and hint: no capital, no period, as in Python and SQLite; a hint may be a question or a line of code.
- usage: a whole sentence, as in click, which prints it.
- note: a whole sentence.
- help: the help of a command, an option, a setting or a tooltip.
- docstring: its first paragraph; also that of a command, which is its help, and of a constant.
- text: every other text of several words, such as a part of a message.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pipemagic

PACKAGE = Path(pipemagic.__file__).parent

NOTES = {"say", "warn", "print_note", "print_line", "secho", "_notify", "notify", "add_note"}
"""Functions that show a line."""
HINTS = {"hint", "hints", "advice"}
HELPS = {"help", "short_help", "epilog", "description", "tooltip", "placeholder", "title", "aria_label", "about"}
"""Keywords of helps and labels."""
HELP_CALLS = {"Option", "Positional", "Command", "CommandGroup", "Field", "Button", "Action", "Form"}
"""Classes and functions that take helps and labels as positional arguments."""
RAISED = re.compile(r"_?[A-Z]\w*(?:Error|Lost|Outcome|Timeout|Exists|NotFound|Name|Request)|BadParameter|NodeDown")
"""Classes of errors; their first argument is the message."""
PROSE = re.compile(r"[A-Za-z{][\w'}]*[,:;]? [a-z{]")
CODE = re.compile(
    r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|PRAGMA|BEGIN|WITH|ROLLBACK|SAVEPOINT|RELEASE|EXPLAIN|VALUES"
    r"|FROM|AND|WHERE|ORDER|LIMIT|JOIN|CASE|ATTACH|REPLACE)\b.*"
    r"|\s*[<.#@].*|.*[{};]\s*(?:\w[\w-]*: [^;{}]+;?\s*)+\}?.*|.*\(\?[:P=!<].*",
    re.DOTALL,
)
"""Texts for programs: SQL, HTML, styles, regular expressions."""


@dataclass(frozen=True, order=True)
class Message:
    """A text of the package; ``path`` is relative to the package."""

    path: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} [{self.kind}] {self.text!r}"


def messages() -> list[Message]:
    """Return all texts, in the order of their files and lines."""
    found = {message for path in PACKAGE.rglob("*.py") for message in _Module(path).messages()}
    for path in (*PACKAGE.rglob("*.md"), *PACKAGE.rglob("*.js")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("pages/"):  # the documentation, which only an installed package contains
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            texts = [line] if path.suffix == ".md" else [text for text in re.findall(r'"([^"]+)"', line) if " " in text]
            found |= {Message(name, number, "text", text) for text in texts if text.strip() and PROSE.search(text)}
    return sorted(found)


class _Module:
    def __init__(self, path: Path) -> None:
        self.name = path.relative_to(PACKAGE).as_posix()
        self.tree = ast.parse(path.read_text("utf-8"))
        self.seen: set[int] = set()
        self.constants: Mapping[str, ast.expr] = {
            target.id: node.value
            for node in self.tree.body
            if isinstance(node, ast.Assign) and _is_text(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def messages(self) -> Iterator[Message]:
        """Yield the texts of the module; each is yielded once, as the first kind that fits."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Expr(value=ast.Constant(value=str(text)) as constant):
                    self.seen.add(id(constant))
                    first = inspect.cleandoc(text).split("\n\n")[0]
                    yield Message(self.name, node.lineno, "docstring", " ".join(first.split()))
        for node in ast.walk(self.tree):
            for kind, value in _labelled(node):
                yield from self._texts(kind, value)
        parts = {id(part) for node in ast.walk(self.tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(self.tree):
            if _is_text(node) and id(node) not in self.seen | parts:
                text = rendered(node)
                if PROSE.search(text) and not CODE.fullmatch(text):
                    yield Message(self.name, node.lineno, "text", text)

    def _texts(self, kind: str, node: ast.expr) -> Iterator[Message]:
        if isinstance(node, ast.Name) and node.id in self.constants:
            node = self.constants[node.id]
        match node:
            case ast.IfExp(body=first, orelse=second):
                yield from self._texts(kind, first)
                yield from self._texts(kind, second)
            case ast.BoolOp(values=values):
                for value in values:
                    yield from self._texts(kind, value)
            case ast.List(elts=values) | ast.Tuple(elts=values):
                for value in values:
                    yield from self._texts(kind, value)
            case _ if _is_text(node) and id(node) not in self.seen and rendered(node):
                self.seen |= {id(part) for part in ast.walk(node) if isinstance(node, ast.BinOp)} | {id(node)}
                yield Message(self.name, node.lineno, kind, rendered(node))


def _labelled(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the expressions below a node that are texts of a certain kind."""
    if isinstance(node, ast.Assign) and any(isinstance(name, ast.Name) and name.id in HINTS for name in node.targets):
        yield "hint", node.value
    if isinstance(node, ast.keyword) and node.arg in HINTS:
        yield "hint", node.value
    if isinstance(node, ast.keyword) and node.arg in HELPS:
        yield "help", node.value
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "UsageError" and isinstance(node.func, ast.Attribute) and node.args:
            yield "usage", node.args[0]  # of click
        elif RAISED.fullmatch(name) and node.args:
            yield "error", node.args[0]
        elif name == "Refused" and len(node.args) > 1:  # the service's, whose first argument is the status
            yield "error", node.args[1]
        elif name in NOTES and node.args:
            yield "note", node.args[0]
        elif name in HELP_CALLS:
            yield from (("help", value) for value in node.args)


def _is_text(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add) and (_is_text(node.left) or _is_text(node.right))
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def rendered(node: ast.AST) -> str:
    """Return a text with ``{expression}`` for each value in it."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(map(rendered, values))
        case ast.BinOp(left=left, right=right):
            return rendered(left) + rendered(right)
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
    return f"{{{ast.unparse(node)}}}"


if __name__ == "__main__":
    folders = tuple(sys.argv[1:]) or ("",)
    for message in messages():
        if message.path.startswith(folders):
            sys.stdout.write(f"{message}\n")
