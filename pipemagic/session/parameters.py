"""Bind values (``:name``, ``@name``, ``$name``) and insert names (``{name}``) from the notebook in a statement.

Values are bound by the server and never become SQL text. A list is allowed after IN: each element is bound as a
separate parameter. SQLite takes 32766 parameters, and servers search the list of all of them for each name; so a long
list of integers and texts is sent as one JSON text, which is exact.

``{name}`` inserts the name of a table or column from a variable, checked and quoted. No SQLite statement has a brace
outside of strings, comments and quoted names. The quotes are backticks: in double quotes SQLite takes a name that does
not exist for a string, and a misspelt column would return its own name in each row.

With ``--jinja`` a cell is a Jinja template, which is rendered in a sandbox; an undefined name is an error. Its output
is SQL text that is not escaped. ``{{ value | bind }}`` makes a value a parameter instead, and ``{{ table | name }}``
inserts a quoted name.
"""

from __future__ import annotations

import datetime
import enum
import json
import re
import sys
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from pipemagic.client import arguments
from pipemagic.errors import ParameterError, PipemagicError, ProtocolError, TemplateError, UnsupportedError
from pipemagic.frames.scalars import to_sql
from pipemagic.hrana.messages import NamedArg, Stmt
from pipemagic.hrana.values import SqlValue, Text, Value
from pipemagic.session.source_map import Edit, SourceMap
from pipemagic.sql import HIGHEST_PARAMETER, Token, parse, quote
from pipemagic.suggestions import close_names
from pipemagic.text import plural

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

Variables = Mapping[str, object]

Dates = Mapping[str, Value]
"""The arguments that are moments at midnight, by their names in the sent text, each as a date."""

HAS_PARAMETERS = re.compile(r"[:@$?#{]")
"""A character that every text with a parameter or a name contains."""

JSON_FROM = 1000
"""A list of more values is sent as JSON, if possible."""

_MIDNIGHT = " 00:00:00"

_NOWHERE = Token("space", "", -1)
_GLUE = ("word", "number", "string", "blob", "quoted", "param")
_LISTS = "use a list after IN: x IN {0}; to pass it as one value, convert it to text, for example with json.dumps"
_BRACES = "write {table}, with the name in a variable table; put text with braces in quotes: '...'"
_ALONE = "put the whole name into the variable, or a space between them"


@dataclass(frozen=True)
class ParameterRef:
    """A reference in SQL to a value by its ``name``: ``text`` as it is written, ``where`` its line."""

    name: str
    text: str
    where: str

    def error(self, what: str, hint: str) -> ParameterError:
        """Return the error for this reference."""
        return ParameterError(": ".join(filter(None, [self.where, f"{self.text} {what}"])), hint=hint)

    def look_up(self, values: Variables | None) -> Any:
        """Return its value; raise ParameterError with similar names if it has none."""
        if values is None:
            raise self.error("has no value", "pass params={...}")
        if self.name in values:
            return values[self.name]
        hint = f"assign it first: {self.name} = ..., or add the key to --params"
        if not self.name.isidentifier():
            hint = "no variable can have that name: write a name such as :x, or add the key to --params"
        if self.text[0] == "#":
            hint = _comment_hint()
        elif near := _close_names(self.name, values):
            hint = f"did you mean {' or '.join(self.text.replace(self.name, name) for name in near)}?"
        raise self.error(f"has no value: name {self.name!r} is not defined", hint)


def _close_names(name: str, values: Variables) -> list[str]:
    """Return the public names of values that are similar to an unknown one."""
    names = [key for key in values if isinstance(key, str) and not key.startswith("_")]
    return close_names(name, names)


class BoundStatement(NamedTuple):
    """A statement to send, with its arguments; some of them can also be sent as dates."""

    source_map: SourceMap
    stmt: Stmt
    dates: Dates


def bind(source_map: SourceMap, values: Variables | None) -> BoundStatement:
    """Return the statement to send, with its arguments.

    Raise ParameterError for a ``?``, a name without a value, a list that is not after IN, a value that SQL cannot
    store, and a brace that does not contain the name of a table or column.
    """
    binder = _Binder(source_map, parse(source_map.text).tokens, values)
    source_map = source_map.edited(binder.edits) if binder.edits else source_map
    return BoundStatement(source_map, Stmt(source_map.text, named_args=binder.named_args or None), binder.dates)


class _Binder:
    """The arguments of one statement, and the edits that expand its lists and insert its names, in order."""

    def __init__(self, source_map: SourceMap, tokens: Sequence[Token], values: Variables | None) -> None:
        self.edits: list[Edit] = []
        self.dates: dict[str, Value] = {}
        self._source_map, self._tokens, self._values = source_map, tokens, values
        self._args: dict[str, NamedArg] = {}
        self._lists: dict[str, str] = {}  # the replacement of a list's parameter, without the parentheses
        self._longest = (0, "")
        comment = -1  # the offset of a # that begins no parameter
        for at, token in enumerate(tokens):
            if token.text == "#":
                comment = token.start
            elif token.kind == "param" or token.text == "{":
                self._check_comment(comment, token)
                self._add(at)

    @property
    def named_args(self) -> list[NamedArg]:
        """The arguments; raise ParameterError if there are more than SQLite takes."""
        if len(self._args) > HIGHEST_PARAMETER:
            count, name = self._longest
            raise ParameterError(
                f"{name} has {count} values, and a statement can have {HIGHEST_PARAMETER} parameters",
                hint="load them into a table (%pipedb load) and write IN (SELECT ...), or pass integers or texts",
            )
        return list(self._args.values())

    def _token(self, at: int) -> Token:
        return self._tokens[at] if 0 <= at < len(self._tokens) else _NOWHERE

    def _where(self, token: Token) -> str:
        return self._source_map.position(token.start).where

    def _check_comment(self, comment: int, token: Token) -> None:
        """Raise ParameterError for what looks like a parameter in a comment of Python."""
        if comment >= 0 and "\n" not in self._source_map.text[comment : token.start]:
            raise ParameterError(f"{self._where(token)}: # is not SQL", hint=_comment_hint())

    def _add(self, at: int) -> None:
        if self._token(at).kind == "param":
            self._add_value(at)
        else:
            self._add_name(at)

    # -- values

    def _add_value(self, at: int) -> None:
        token, before = self._token(at), self._token(at - 1)
        where = self._where(token)
        if before.text == ":" and before.end == token.start:  # a cast of PostgreSQL, not a parameter
            from pipemagic.explore.hints.functions import of_cast

            hint = of_cast(self._source_map.text, before.start, token.text[1:])
            raise ParameterError(f"{where}: SQLite has no :{token.text}", hint=hint)
        if token.text[0] == "@" and self._is_in_address(at):  # not shown: it may be the end of a password
            raise ParameterError(f"{where}: text with @ must be in quotes", hint="write it as 'name@example.org'")
        if at in (1, 2) and self._token(0).word in ("DECLARE", "SET", "DELIMITER"):
            from pipemagic.explore.hints.commands import of_program

            raise ParameterError(
                f"{where}: SQLite has no {self._token(0).word}", hint=of_program(self._source_map.text)
            )
        if token.text.startswith("?"):
            raise ParameterError(
                f"{where}: the parameter {token.text} has no name",
                hint="write :name, which takes the value of the variable name",
            )
        ref = ParameterRef(token.text[1:], token.text, where)
        value = ref.look_up(self._values)
        elements, after_in = _as_list(value), before.word == "IN"
        if elements is None:
            if after_in:
                what = f"is one value ({type(value).__name__}), and IN requires a list"
                raise ref.error(what, _one_value_hint(value, token.text))
            self._bind(token.text, value, ref)
            return
        alone = before.text == "(" and self._token(at - 2).word == "IN" and self._token(at + 1).text == ")"
        if not after_in and not alone:
            many = f"{plural(len(elements), 'value')} ({type(value).__name__})"
            raise ref.error(f"contains {many}", _LISTS.format(token.text))
        if token.text not in self._lists:
            self._lists[token.text] = self._bind_list(token.text, elements, ref)
        expanded = self._lists[token.text]
        self.edits.append(Edit(token.start, token.end, f"({expanded})" if after_in else expanded))

    def _is_in_address(self, at: int) -> bool:
        """Return True if a parameter is a part of text without quotes, such as ``ada@example.org``."""
        token, before = self._token(at), self._token(at - 1)
        if before.end != token.start or before.kind not in ("word", "number"):
            return False
        from pipemagic.explore.sqlite_reference import KEYWORDS  # not needed by cells that run

        return before.word not in KEYWORDS

    def _bind_list(self, name: str, elements: list[Any], ref: ParameterRef) -> str:
        """Bind the elements of a list; return the SQL text that replaces the parameter."""
        plain = _exact_in_json(elements) if len(elements) > JSON_FROM else None
        if plain is not None:
            self._bind(name, _json(plain), ref)
            dates = [_date(*pair) or pair[1] for pair in zip(elements, plain, strict=True)]
            if dates != plain:
                self.dates[name] = Text(_json(dates))
            return f"SELECT +value FROM temp.json_each({name})"
        prefix = f"{name}_"
        while any(token.kind == "param" and token.text.startswith(prefix) for token in self._tokens):
            prefix += "_"
        self._longest = max(self._longest, (len(elements), f"{ref.where}: {name}"))
        for number, element in enumerate(elements):
            self._bind(f"{prefix}{number + 1}", element, ref, f"{name}[{number}]")
        return ", ".join(f"{prefix}{number}" for number in range(1, len(elements) + 1))

    def _bind(self, name: str, value: Any, ref: ParameterRef, shown: str = "") -> None:
        if name not in self._args:
            try:
                sent = arguments.wire(value, shown or name)
            except ParameterError as error:
                raise ParameterError(f"{ref.where}: {error.message}", hint=error.hint) from None
            self._args[name] = NamedArg(name, sent)
            if isinstance(sent, Text) and (date := _date(value, sent.value)) is not None:
                self.dates[name] = Text(date)

    # -- names

    def _add_name(self, at: int) -> None:
        start, end = self._token(at), self._token(at + 2)
        where = self._where(start)
        name = self._source_map.text[start.end : end.start].strip()
        if end.text != "}" or not name.isidentifier():
            doubled = " (templates require %%sql --jinja)" if self._token(at + 1).text in ("{", "%") else ""
            hint = self._hint_on_template(at) or _BRACES
            raise ParameterError(f"{where}: expected a name in braces{doubled}", hint=hint)
        ref = ParameterRef(name, f"{{{name}}}", where)
        before, after = self._token(at - 1), self._token(at + 3)
        joined = before.end == start.start and (before.kind in _GLUE or before.text == "}")
        if joined or (end.end == after.start and (after.kind in _GLUE or after.text == "{")):
            raise ref.error("must be separated by spaces", _ALONE)
        value = ref.look_up(self._values)
        text = _quote_names(value, ref)
        if "." in (before.text, after.text) and len(_as_list(value) or ()) > 1:
            raise ref.error("contains several names, and a dot requires one", "write the names with their tables")
        self.edits.append(Edit(start.start, end.end, text))

    def _hint_on_template(self, at: int) -> str:
        """Return what to write instead of ``{{name}}``; '' for other braces."""
        name = self._token(at + 2).text
        if [self._token(at + number).text for number in (1, 3, 4)] != ["{", "}", "}"] or not name.isidentifier():
            return ""
        if at == 0 and self._token(5) is _NOWHERE:
            return f"to run the SQL in the variable {name}, write {{{name}}}"
        return f"write :{name} for a value, {{{name}}} for the name of a table or column"


def _comment_hint() -> str:
    from pipemagic.explore.hints.characters import COMMENT  # not needed by cells that run

    return COMMENT


def _as_list(value: Any) -> list[Any] | None:
    """Return the elements of a list, tuple, set, range, array, Series, Index or the like; None for anything else."""
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping):
        return None
    if getattr(value, "ndim", 1) != 1:  # a frame or matrix is not a list of values, and a numpy scalar is one value
        return None
    if isinstance(value, Collection):
        elements = list(value)  # not tolist(): it converts dates to integers
        return _with_nanoseconds(value, elements) if type(value).__module__.startswith("polars.") else elements
    return list(value.to_pylist()) if hasattr(value, "to_pylist") else None


def _with_nanoseconds(series: Any, elements: list[Any]) -> list[Any]:
    """Return the elements of a Polars Series; its own ``to_list`` drops the nanoseconds of dates and times."""
    dtype = str(series.dtype)
    if not dtype.startswith(("Datetime(time_unit='ns'", "Time")):
        return elements
    import pandas as pd
    import polars as pl

    numbers = series.cast(pl.Int64).to_list()  # nanoseconds
    if dtype == "Time":
        pairs = zip(elements, numbers, strict=True)
        return [
            f"{time.isoformat('microseconds')}{number % 1000:03}" if number is not None and number % 1000 else time
            for time, number in pairs
        ]
    zone = "UTC" if series.dtype.time_zone else None
    return [None if number is None else pd.Timestamp(number, tz=zone) for number in numbers]


def _quote_names(value: Any, ref: ParameterRef) -> str:
    """Return a quoted name, or a list of names separated by commas; raise ParameterError for anything else."""
    names = [value] if isinstance(value, str) else _as_list(value)
    if names is None:
        what = f"must be a name, not {type(value).__name__}"
        raise ref.error(what, "use a str, or a list of them for several columns")
    if not names:
        raise ref.error("is an empty list", "name at least one column")
    return ", ".join(_quote_name(name, ref) for name in names)


def _quote_name(name: Any, ref: ParameterRef) -> str:
    if not isinstance(name, str):
        raise ref.error(f"must contain names, not {type(name).__name__}", "use a list of str")
    text = str.__str__(name)  # also of a subclass of str with another __str__
    if not text or "\0" in text:
        raise ref.error(f"is {text!r}, which cannot be a name in SQL", "a name must not be empty or contain NUL")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ref.error(f"is {text!r}, which is not valid Unicode", "a name must be encodable as UTF-8")
    return quote(text, "`")


def _one_value_hint(value: Any, name: str) -> str:
    """Return the hint for a value after IN that is not a list."""
    try:
        arguments.wire(value, name)
    except ParameterError:
        return "use a list, tuple, set, array or Series; of a DataFrame, one column: ids = frame['id']"
    return f"write = {name}, or IN ({name})"


def _date(value: Any, sent: SqlValue) -> str | None:
    """Return the date of a moment without a zone that is at midnight and is sent as a text; None for any other value.

    A str is never a moment: what it contains was written on purpose.
    """
    if not isinstance(sent, str) or sent[10:] != _MIDNIGHT:
        return None
    while isinstance(value, enum.Enum):
        value = value.value
    if hasattr(value, "as_py"):  # a scalar of Arrow
        value = value.as_py()
    numpy = sys.modules.get("numpy")
    is_moment = isinstance(value, datetime.datetime) or (numpy is not None and isinstance(value, numpy.datetime64))
    return sent[:10] if is_moment else None


def _exact_in_json(elements: Sequence[Any]) -> list[SqlValue] | None:
    """Return the elements as SQL values; None if JSON could change one (floats and bytes), or SQL cannot store one."""
    try:
        plain = [to_sql(element) for element in elements]
    except ProtocolError:  # raised again when each is bound, with the number of the element
        return None
    return None if any(isinstance(value, float | bytes) for value in plain) else plain


def _json(plain: Sequence[SqlValue]) -> str:
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


# -- Jinja templates

RENDERED = "the rendered template"
"""The name of a template's output in messages."""

_TEMPLATE = "<template>"  # the name of a template without a file in Jinja's tracebacks
_UNDEFINED = re.compile(r"'(\w+)' is undefined\Z")


@dataclass
class RenderedTemplate:
    """The output of a template, and the values of the parameters that ``| bind`` created."""

    text: str
    bound: dict[str, object] = field(default_factory=dict)


def render(text: str, values: Variables, *, source: str = "") -> RenderedTemplate:
    """Render a template; ``source`` names it in messages, if it is not the cell's own text.

    Raise TemplateError with the line for a syntax error, an undefined name, and any error of an expression;
    UnsupportedError without the package jinja2.
    """
    if find_spec("jinja2") is None:
        hint = "%pip install jinja2, then run the cell again"
        raise UnsupportedError("--jinja requires the package jinja2", hint=hint)
    from jinja2 import TemplateSyntaxError, UndefinedError

    rendered = RenderedTemplate("")
    environment = _environment(rendered, _free_prefix(text, values))
    try:
        rendered.text = environment.from_string(text).render(dict(values))
    except TemplateSyntaxError as error:
        raise TemplateError(f"{_where(source, error.lineno)}: {error.message}") from None
    except UndefinedError as error:
        hint = _similar_names(str(error.message), values)
        raise TemplateError(f"{_where(source, _template_line(error))}: {error.message}", hint=hint) from None
    except PipemagicError as error:  # one of the filters below
        raise TemplateError(f"{_where(source, _template_line(error))}: {error.message}", hint=error.hint) from None
    except Exception as error:
        raise TemplateError(f"{_where(source, _template_line(error))}: {type(error).__name__}: {error}") from error
    return rendered


def _environment(rendered: RenderedTemplate, prefix: str) -> SandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def bind(value: object) -> str:
        if isinstance(value, StrictUndefined):
            str(value)  # raises
        name = f"{prefix}{len(rendered.bound) + 1}"
        rendered.bound[name] = value
        return f":{name}"

    def name(value: object) -> str:
        return _quote_names(value, ParameterRef("name", "the value of | name", ""))

    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.filters.update(bind=bind, name=name)
    return environment


def _free_prefix(text: str, values: Variables) -> str:
    """Return an unused prefix for the names of bound parameters."""
    prefix = "bound_"
    while prefix in text or any(isinstance(key, str) and key.startswith(prefix) for key in values):
        prefix = f"_{prefix}"
    return prefix


def _where(source: str, line: int) -> str:
    return f"{source}, line {line}" if source else f"line {line}"


def _template_line(error: BaseException) -> int:
    """Return the template line of an error, which Jinja adds to the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 1 for frame in reversed(frames) if frame.filename == _TEMPLATE), 1)


def _similar_names(message: str, values: Variables) -> str:
    match = _UNDEFINED.match(message)
    if match is None:
        return ""
    near = _close_names(match[1], values)
    return f"did you mean {' or '.join(near)}?" if near else f"assign it first: {match[1]} = ..."
