"""Messages and help texts have one form and plain words; `python tests/helpers/messages.py` prints them all."""

from __future__ import annotations

import re
from functools import cache

import pytest
from messages import Message, messages

every_message = cache(messages)

OF_LIBSQL = re.compile(r"service/|hrana/batches\.py")
"""Files with messages in the words of libSQL's server and of Turso's API, which clients compare."""

NAMES = r"Python|SQLite|Jupyter\w*|IPython|DataFrame|Excel|Parquet|PowerShell|Binder|Unicode|Windows|Linux|Docker|GNU"
CAPITAL = re.compile(rf"(?!(?:{NAMES})\b)[A-Z][a-z]+\b")
"""A capital at the beginning that is not part of a name; SQL and acronyms have more than one."""
SENTENCE = re.compile(r"[^a-z\s]|\w+[:.]\S|pipemagic\b|[a-z_]+ ?[=(]")
"""The beginning of a sentence: a capital, or the name of something."""

BANNED = re.compile(
    r"there is an? \w+ .{1,40} already|has no SQL form|stays? object|another column is named|lengths? of time"
    r"|without (?:a )?partner|\bbeside what\b|host name in .* is unknown|does not enclose|what came back|names .* twice"
    r"|is not a DataFrame, a DataFrame|no variable '|[\d}] %(?! ?[\w{(%])"
    r"|there is no (?:profile|table or view|folder|connection|variable)\b|ask for fewer"
)
"""Phrases that a native speaker would not write, and a blank before a percent sign."""


def of(kind: str) -> list[Message]:
    return [message for message in every_message() if message.kind == kind]


def test_the_list_has_messages_of_each_kind_and_folder():
    print(*every_message(), sep="\n")
    texts = {message.text for message in every_message()}
    assert {
        "the address has no scheme", "write libsql://..., https://... or http://...",  # an error and its hint
        "Stop the running service.",  # a docstring that is the help of a command
        "The open transaction was rolled back.",
    } - texts == set()  # fmt: skip
    for folder in ("cli", "client", "explore", "frames", "notebook", "service", "session", "teaching"):
        kinds = {message.kind for message in every_message() if message.path.startswith(folder)}
        assert {"error", "hint", "docstring", "text"} <= kinds, folder


@pytest.mark.parametrize("kind", ["error", "hint"])
def test_errors_and_hints_have_no_capital_and_no_period(kind):
    wrong = []
    for message in of(kind):
        first = message.text.split("\n")[0]
        if not OF_LIBSQL.match(message.path) and (CAPITAL.match(first) or re.search(r"(?<!\.)\.\Z", first)):
            wrong.append(str(message))
    assert wrong == []


@pytest.mark.parametrize("kind", ["note", "usage"])
def test_notes_and_errors_of_click_are_sentences(kind):
    assert [
        str(message)
        for message in of(kind)
        if re.search(r"\w \w", message.text)
        and not message.text.lstrip().startswith(("Error: ", "Hint: "))
        and not (SENTENCE.match(message.text) and re.search(r"[.:?}]\Z", message.text.strip().split("\n")[0]))
    ] == []


def test_no_message_has_a_phrase_that_was_replaced():
    assert [str(message) for message in every_message() if BANNED.search(message.text)] == []
