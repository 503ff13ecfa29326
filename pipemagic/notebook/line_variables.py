"""Put the value of a variable into the line of a magic: the word ``{name}`` becomes the text of the variable.

The value is one word of one argument: it is not split, and it is not an option. In SQL and JSON braces have another
meaning (`Option.own_braces`); in SQL ``{name}`` is a quoted name (`pipemagic.session.parameters`).
"""

from __future__ import annotations

import keyword
import numbers
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pipemagic.errors import NotFound, PipemagicError, SessionError, UnknownName, UsageError
from pipemagic.notebook.arguments import Assigned, Option, Positional, Word, has_password, kind_of
from pipemagic.suggestions import close_names
from pipemagic.text import has_secret

_IDENTIFIER = r"[^\W\d]\w*"
_MARK = re.compile("[{$:@]")
_WHOLE = re.compile(rf"(?P<quote>['\"]?)\{{(?P<name>{_IDENTIFIER})\}}(?P=quote)")
_PART = re.compile(rf"(?<!\{{)\{{ *(?:{_IDENTIFIER} *(?:\}}|[.\[(!:]|\Z)|\Z)")
"""A variable in a longer word, an expression in braces, or an unclosed brace; does not match ``{{name}}``."""
_EXPRESSION = re.compile(r"\{([^{}!:]+)\}(?!\S)")
_F_STRING = re.compile(r"f(['\"]).*\1")
_SIGN = re.compile(rf"(['\"]?)(?:[$:@]({_IDENTIFIER})|\$\{{({_IDENTIFIER})\}})\1")
"""The value of a variable as SQL, shells and IPython write it."""
_AT_START = re.compile(rf"['\"]?\$(?:({_IDENTIFIER})|\{{({_IDENTIFIER})\}})")

_MOST_BITS = 10_000
"""Python refuses to write longer integers."""

_NAMES_VARIABLE = {"frame", "frame|data file", "dict"}
"""The kinds of arguments that name a variable."""


def text_of(value: object) -> str | None:
    """Return the text of a str, an int or a path; None for a value of another type."""
    if isinstance(value, str):
        return str.__str__(value)  # also of a subclass of str with another __str__
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        number = int(value)
        return str(number) if number.bit_length() < _MOST_BITS else None
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        return path if isinstance(path, str) else None
    return None


class LineVariables:
    """The variables that the line of one magic can use; ``usage`` begins with the magic and its command."""

    def __init__(self, line: str, usage: str, variables: Mapping[str, Any]) -> None:
        self._line, self._variables = line, variables
        head = re.match(r"%+\w+(?: [a-z][a-z-]*(?![\w|-]))?", usage)  # without arguments: they are in capitals
        self._head = head[0] if head else ""

    def value(self, place: Assigned) -> str:
        """Return the value of an argument; for ``{name}``, the value of the variable.

        Raise UsageError for a variable that is missing, empty, secret or of another type, and for a word that looks
        like the value of a variable: ``{name}`` inside it, an expression in braces, ``$name``, ``:name``.
        """
        argument, written, text = place.argument, _written(place), place.value or ""
        if argument is None or not _MARK.search(written):
            return text
        if match := _WHOLE.fullmatch(written):
            return self._value(match["name"], place, argument)
        if not argument.own_braces:
            if match := _SIGN.fullmatch(written):
                raise self._sign(text, match[2] or match[3], place, argument)
            if match := _AT_START.match(written):
                raise self._start(text, match[1] or match[2], place, argument)
            if _PART.search(written):
                raise self._part(text, place, argument)
        return text

    def literal(self, text: str, argument: Option) -> str:
        """Return an option of a reader, ``name=value``, with the value of a variable as a literal of Python."""
        flag, _, written = text.partition("=")
        match = _WHOLE.fullmatch(written)
        if match is None or match["quote"]:
            return text
        start = self._line.rfind(text)
        place = Assigned(Word(text, text, start, start + len(text)), argument, flag, written)
        value = self._value(match["name"], place, argument)
        is_number = isinstance(self._variables[match["name"]], numbers.Integral)
        return f"{flag}={value if is_number else repr(value)}"

    def hint(self, error: PipemagicError, assigned: Iterable[Assigned]) -> PipemagicError:
        """Return the error; if the rejected value is the name of a variable, with the line that uses its value."""
        if not isinstance(error, UsageError | SessionError | UnknownName | NotFound):
            return error
        message = error.message.split("\n", 1)[0]
        for place in assigned:
            name = _written(place)
            if not name.isidentifier() or place.argument is None or place.value is None:
                continue
            text = text_of(self._variables.get(name)) or ""
            is_address = place.argument.name == "TARGET" and "://" in text
            is_meant = is_address or (text and re.search(rf"(?<!\w){name}(?!\w)", message))
            if is_meant and not (_names_variable(place.argument) or _names_environment(place.argument)):
                line = self._line_with(place, f"{{{name}}}")
                hint = f"{name} is a variable; to use its value, write\n{line}"
                return error.replace(hint="\n".join(filter(None, [hint, error.hint])))
        return error

    def _value(self, name: str, place: Assigned, argument: Option | Positional) -> str:
        written = f"{{{name}}}"
        if name not in self._variables:
            raise UsageError(f"{written}: name {name!r} is not defined", hint=self._instead_of(name, place, argument))
        value = self._variables[name]
        text = text_of(value)
        if text is None:
            from pipemagic.frames.any_frame import kind_of

            what = f"{written} must be a str, an int or a path, not {kind_of(value)}"
            raise UsageError(what, hint=self._conversion(name, value, place, argument))
        if not (text if argument.name == "--" else text.strip()):
            raise UsageError(f"{written} is empty: {name} is {text!r}")
        may_be_address = not argument.own_braces or "://" in text  # in SQL, me:x@y may be an expression
        if has_secret(text) or (may_be_address and has_password(text)):
            raise UsageError(
                f"{written} contains a token or a password, which would be shown and saved with the notebook",
                hint="put it into an environment variable, and name the variable with --token-env",
            )
        if _names_environment(argument) and text not in os.environ:
            raise self._no_environment(written, name, place, argument)
        return text

    def _instead_of(self, name: str, place: Assigned, argument: Option | Positional) -> str:
        """Return the hint for a variable that does not exist."""
        if _names_environment(argument):
            return f"write the name alone:\n{self._line_with(place, name)}"
        if name in os.environ:
            new = self._free_name(name.lower())
            line = self._line_with(place, f"{{{new}}}")
            return f"{name} is an environment variable:\nimport os; {new} = os.environ[{name!r}]\n{line}"
        names = [key for key, value in self._variables.items() if key[:1] != "_" and text_of(value) is not None]
        if close := close_names(name, names):
            return f"did you mean {' or '.join(f'{{{other}}}' for other in close)}?"
        if name.isupper():
            value = "libsql://..." if argument.name == "TARGET" else "..."
            return f"to set an environment variable of that name:\nimport os; os.environ[{name!r}] = {value!r}"
        return f"assign it first: {name} = ..."

    def _conversion(self, name: str, value: object, place: Assigned, argument: Option | Positional) -> str:
        """Return the hint for a variable of another type, or ''."""
        if argument.name == "--":
            return ""
        if _names_variable(argument):
            return f"write the name without braces:\n{self._line_with(place, name)}"
        if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
            new = self._new_name(argument)
            return f"{new} = ','.join({name})\n{self._line_with(place, f'{{{new}}}')}"
        if isinstance(value, float):
            new = self._new_name(argument)
            return f"{new} = str({name})\n{self._line_with(place, f'{{{new}}}')}"
        return ""

    def _sign(self, text: str, name: str, place: Assigned, argument: Option | Positional) -> UsageError:
        """Return the error for ``$name``, ``:name`` and ``@name``."""
        if _names_environment(argument):
            return self._no_environment(text, name, place, argument)
        message = f"a variable on a magic line is written in braces, not as {text}"
        if name not in self._variables:
            hint = f"write a variable in braces, {{{name}}}\n{self._instead_of(name, place, argument)}"
            return UsageError(f"{text}: name {name!r} is not defined", hint=hint)
        is_name = _names_variable(argument) and text_of(self._variables[name]) is None
        return UsageError(message, hint=self._line_with(place, name if is_name else f"{{{name}}}"))

    def _no_environment(
        self, written: str, name: str, place: Assigned, argument: Option | Positional
    ) -> UsageError:  # fmt: skip
        """Return the error for a value that is not an environment variable; it may be the token, so it is not shown."""
        message = f"{written}: {argument.name} takes the name of an environment variable, not the token"
        return UsageError(message, hint=f"write the name alone:\n{self._line_with(place, name)}")

    def _start(self, text: str, name: str, place: Assigned, argument: Option | Positional) -> UsageError:
        """Return the error for ``$name/file.csv``."""
        if _names_environment(argument) and text.startswith("$env:"):  # of PowerShell
            return self._no_environment(text, text.removeprefix("$env:"), place, argument)
        new = self._new_name(argument)
        value = f"import os; {new} = os.path.expandvars({text!r})"
        if name in self._variables:
            rest = text.removeprefix(f"${{{name}}}").removeprefix(f"${name}")
            value = f"{new} = f{f'{{{name}}}{rest}'!r}"
        message = f"{text}: a magic line does not expand ${name}"
        return UsageError(message, hint=f"{value}\n{self._line_with(place, f'{{{new}}}')}")

    def _part(self, text: str, place: Assigned, argument: Option | Positional) -> UsageError:
        """Return the error for a word that contains braces, and for an expression in braces."""
        written, expression = _written(place), ""
        if written[0] == "{" and (braces := _EXPRESSION.match(self._line, place.word.end - len(written))):
            text, expression = braces[0], braces[1].strip()
            place = replace(place, word=replace(place.word, end=braces.end()))
        elif text.count("{") != text.count("}"):
            hint = "put the text into a variable, and write the name of the variable in braces"
            return UsageError(f"{text}: unclosed brace", hint=hint)
        message = f"{text}: a variable in braces must be a word of its own"
        if expression.isidentifier():
            return UsageError(message, hint=self._line_with(place, f"{{{expression}}}"))
        if expression and _names_variable(argument):
            new = self._free_name("frame")
            return UsageError(message, hint=f"{new} = {expression}\n{self._line_with(place, new)}")
        new = self._new_name(argument)
        value = expression or (written if _F_STRING.fullmatch(written) else f"f{text!r}")
        return UsageError(message, hint=f"{new} = {value}\n{self._line_with(place, f'{{{new}}}')}")

    def _line_with(self, place: Assigned, text: str) -> str:
        """Return the line with another value; only the value, if the line may contain a secret."""
        if "@" in self._line or has_secret(self._line) or place.word.start < 0:
            return text
        word, flag = place.word, f"{place.flag}=" if place.flag else ""
        after = self._line[word.end :].partition("\n")[0]
        return f"{self._head} {self._line[: word.start].lstrip()}{flag}{text}{after}".rstrip()

    def _new_name(self, argument: Option | Positional) -> str:
        """Return the name of a new variable for the value of an argument."""
        names = (argument.value, argument.flag.strip("-")) if isinstance(argument, Option) else (argument.name,)
        lowered = (name.lower().replace("-", "_") for name in names)
        base = next((name for name in lowered if name.isidentifier() and not keyword.iskeyword(name)), "value")
        return self._free_name("path" if base in ("file", "frame") else base)

    def _free_name(self, base: str) -> str:
        from pipemagic.notebook.load_source import new_name

        return new_name(base, self._variables) if base in self._variables else base


def name_in_braces(text: str) -> str:
    """Return the name in a word that is only ``{name}``, or ''."""
    match = _WHOLE.fullmatch(text)
    return match["name"] if match else ""


def _written(place: Assigned) -> str:
    """Return the value of an argument as it is written, with its quotes."""
    return place.word.raw.partition("=")[2] if place.flag else place.word.raw


def _names_variable(argument: Option | Positional) -> bool:
    return kind_of(argument) in _NAMES_VARIABLE


def _names_environment(argument: Option | Positional) -> bool:
    return kind_of(argument) == "environment variable"
