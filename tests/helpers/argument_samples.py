"""Values that the arguments of magics take."""

from __future__ import annotations

from pipemagic.errors import UsageError
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Option, Positional
from pipemagic.text import word

SAMPLES = (
    "--replace my 'own' \"name\"",
    "--x y",
    "5",
    "10m",
    "latin-1",
    "a=DECIMAL(10, 2)",
    "my col=1..2",
    "a b=t.c",
    "name",
)


def sample(argument: Option | Positional) -> str:
    """Return a value that the argument takes, with blanks and dashes if it takes them."""
    alone = Positional("A", "", type=argument.type, choices=argument.choices)
    for text in (*argument.choices, *SAMPLES):
        try:
            arguments.parse(word(text), (alone,), (), "")
        except UsageError:
            continue
        return text
    raise AssertionError(f"no sample for {argument.name}")


def with_sample(option: Option) -> str:
    """Return the option as it is written on a line, with a value if it takes one."""
    return f"{option.flag} {word(sample(option))}" if option.value else option.flag
