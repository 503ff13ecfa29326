"""Render cells as Jinja templates (``--jinja``), in a sandbox; an undefined name is an error.

The output of a template is SQL text that is not escaped. ``{{ value | bind }}`` makes a value a parameter
instead, and ``{{ table | name }}`` inserts a quoted name.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pipemagic.errors import PipemagicError, TemplateError, UnsupportedError
from pipemagic.session.parameters import ParameterRef, Values, close_names, quote_names

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

RENDERED = "the rendered template"
"""The name of a template's output in messages."""

_FILE = "<template>"  # the name of a template without a file in Jinja's tracebacks
_UNDEFINED = re.compile(r"'(\w+)' is undefined\Z")


@dataclass
class Rendered:
    """The output of a template, and the values of the parameters that ``| bind`` created."""

    text: str
    bound: dict[str, object] = field(default_factory=dict)


def render(text: str, values: Values, *, source: str = "") -> Rendered:
    """Render a template; ``source`` names it in messages, if it is not the cell's own text.

    Raise TemplateError with the line for a syntax error, an undefined name, and any error of an expression;
    UnsupportedError without the package jinja2.
    """
    if find_spec("jinja2") is None:
        hint = "%pip install jinja2, then run the cell again"
        raise UnsupportedError("--jinja needs the package jinja2", hint=hint)
    from jinja2 import TemplateSyntaxError, UndefinedError

    rendered = Rendered("")
    environment = _environment(rendered, _free_prefix(text, values))
    try:
        rendered.text = environment.from_string(text).render(dict(values))
    except TemplateSyntaxError as error:
        raise TemplateError(f"{_where(source, error.lineno)}: {error.message}") from None
    except UndefinedError as error:
        hint = _near(str(error.message), values)
        raise TemplateError(f"{_where(source, _line(error))}: {error.message}", hint=hint) from None
    except PipemagicError as error:  # one of the filters below
        raise TemplateError(f"{_where(source, _line(error))}: {error.message}", hint=error.hint) from None
    except Exception as error:
        raise TemplateError(f"{_where(source, _line(error))}: {type(error).__name__}: {error}") from error
    return rendered


def _environment(rendered: Rendered, prefix: str) -> SandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def bind(value: object) -> str:
        if isinstance(value, StrictUndefined):
            str(value)  # raises
        name = f"{prefix}{len(rendered.bound) + 1}"
        rendered.bound[name] = value
        return f":{name}"

    def name(value: object) -> str:
        return quote_names(value, ParameterRef("name", "the value of | name", ""))

    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.filters.update(bind=bind, name=name)
    return environment


def _free_prefix(text: str, values: Values) -> str:
    """Return an unused prefix for the names of bound parameters."""
    prefix = "bound_"
    while prefix in text or any(isinstance(key, str) and key.startswith(prefix) for key in values):
        prefix = f"_{prefix}"
    return prefix


def _where(source: str, line: int) -> str:
    return f"{source}, line {line}" if source else f"line {line}"


def _line(error: BaseException) -> int:
    """Return the template line of an error, which Jinja adds to the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 1 for frame in reversed(frames) if frame.filename == _FILE), 1)


def _near(message: str, values: Values) -> str:
    match = _UNDEFINED.match(message)
    if match is None:
        return ""
    near = close_names(match[1], values)
    return f"did you mean {' or '.join(near)}?" if near else f"assign it first: {match[1]} = ..."
