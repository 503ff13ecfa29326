"""Values, names and messages are shown as text in HTML, in SVG and in a terminal."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from unicodedata import category
from xml.etree import ElementTree

import pytest
from argument_samples import with_sample

from pipemagic.errors import PipemagicError
from pipemagic.notebook.arguments import Option
from pipemagic.notebook.commands import COMMANDS
from pipemagic.notebook.sql_options import OPTIONS
from pipemagic.text import word

EVIL = (
    """<evil-tag evil=1>' evil='2' " evil="3" --></style></title></td></script><evil-tag>&lt;evil-tag&gt;"""
    " $\\nope{$ {nope} \x1bc\x07\x1b[31m\x9b\x9d8,evil\x07\u202e"
)
WORD = '"' + EVIL.replace('"', '""') + '"'  # as SQL writes it
LINE_WORD, LINE_WORD_2, LINE_WORD_X = word(EVIL), word(f"{EVIL}2"), word(f"x{EVIL}")  # as a line of a magic writes it
TEXT = "'" + EVIL.replace("'", "''") + "'"
SHOWN = '"SELECT ' + TEXT.replace('"', '""') + ' AS a"'
FILE = LINE_WORD.replace("/", "|")

CELLS = {
    "a value, a column, a comment": f"%%sql\n-- {EVIL}\nSELECT {TEXT} AS {WORD}, * FROM {WORD}",
    "several statements": f"%%sql\n-- name: first\nSELECT {TEXT};\nINSERT INTO {WORD} VALUES (2, {TEXT});\n"
                          f"SELECT {TEXT} AS a",
    "--time": f"%%sql --time\nSELECT {TEXT};\nSELECT * FROM {WORD}",
    "a syntax error": f"%%sql\nSELECT 1;\nSELECT nope({WORD})",
    "an unknown column": f"%%sql\nSELECT {WORD}.{WORD} FROM {WORD}",
    "an unknown table": f"%%sql\nSELECT * FROM [x{EVIL}]",
    "an error of a trigger": f"%%sql\nINSERT INTO refusing VALUES ({TEXT})",
    "a mixed column": f"%%sql\nSELECT 1 AS {WORD} UNION ALL SELECT {TEXT}",
    "--params": "%%sql --params evil\nSELECT :a",
    "--on": f"%%sql --on {LINE_WORD}\nSELECT 1",
    "--on, unknown": f"%%sql --on {LINE_WORD_X}\nSELECT 1",
    "--out": f"%%sql --out {LINE_WORD}\nSELECT 1",
    "--atomic": f"%%sql --atomic\nINSERT INTO {WORD} VALUES (3, 'x');\nSELECT {TEXT} FROM nope",
    "BEGIN": f"%%sql\nBEGIN; INSERT INTO {WORD} VALUES (4, {TEXT})",
    "status in a transaction": "%pipedb status",
    "ROLLBACK": "%%sql\nROLLBACK",
    "no WHERE": f"%%sql\nDELETE FROM {WORD}",
    "--file": f"%sql --file {LINE_WORD}",
    "--type": f"%%sql --type polars\nSELECT {TEXT} AS {WORD}",
    "--type arrow": f"%%sql --type arrow\nSELECT {TEXT} AS {WORD}",
    "--limit": f"%%sql --limit 1\nSELECT * FROM {WORD} UNION ALL SELECT {TEXT}, {TEXT}",
    "--timeout": f"%%sql --timeout 9\nSELECT {TEXT}",
    "--jinja": f"%%sql --jinja\nSELECT {{{{ evil['a'] }}}}, {TEXT} AS {WORD}",
    "--jinja, undefined": f"%%sql --jinja\nSELECT {{{{ nope }}}} {EVIL}",
    "--save": f"%%sql --save evil\nSELECT * FROM {WORD}",
    "--with": "%%sql --with evil\nSELECT * FROM evil",
    "--to-csv": f"%%sql --to-csv {FILE}\nSELECT {TEXT} AS {WORD}",
    "--excel": f"%%sql --to-csv {FILE} --excel\nSELECT {TEXT} AS {WORD}",
    "--encoding": f"%%sql --to-csv {FILE} --encoding utf-16\nSELECT {TEXT} AS {WORD}",
    "--to-parquet": f"%%sql --to-parquet {FILE}\nSELECT {TEXT} AS {WORD}",
    "--quiet": f"%%sql --quiet\nSELECT {TEXT} AS {WORD}",
    "--close": f"%%sql --close\nSELECT {TEXT} AS {WORD}",
    "--explain": f"%%sql --explain\nSELECT {WORD}, {TEXT} FROM {WORD} WHERE {WORD} = {TEXT}",
    "--dry-run": f"%%sql --dry-run --params evil\nSELECT {WORD}, :a FROM {WORD}",
    "copy": f"%pipedb copy {LINE_WORD} --to {LINE_WORD}",
    "diff": f"%pipedb diff {LINE_WORD} \"SELECT 9 AS {WORD.replace(chr(34), chr(34) * 2)}, 'x' AS b\" "
            f"--key {LINE_WORD}",
    "diff, unknown": f"%pipedb diff {LINE_WORD} {LINE_WORD_X}",
    "diagram": "%pipedb diagram",
    "diagram of a table": f"%pipedb diagram {LINE_WORD}",
    "rules": f"%pipedb rules {LINE_WORD} --not-null {LINE_WORD} --unique {LINE_WORD} --foreign-keys",
    "a rule that fails": f"%pipedb rules {LINE_WORD} --unique b",
    "rules for rows": f"%pipedb rules {LINE_WORD} --rows {SHOWN}",
    "plot histogram": f"%pipedb plot histogram {LINE_WORD} --x {LINE_WORD}",
    "plot bar": f"%pipedb plot bar {LINE_WORD} --x b --group b",
    "plot box": f"%pipedb plot box {LINE_WORD} --x {LINE_WORD} --group b",
    "plot of no column": f"%pipedb plot line {LINE_WORD} --x nope --y {LINE_WORD}",
    "tables": "%pipedb tables --rows",
    "tables, a pattern": f"%pipedb tables {LINE_WORD}",
    "columns": f"%pipedb columns {LINE_WORD}",
    "columns, unknown": f"%pipedb columns {LINE_WORD_X}",
    "schema": "%pipedb schema",
    "schema of a table": f"%pipedb schema {LINE_WORD}",
    "profile": f"%pipedb profile {LINE_WORD}",
    "profile of a column": f"%pipedb profile {LINE_WORD} --columns {LINE_WORD}",
    "profile of some rows": f"%pipedb profile {LINE_WORD} --where {WORD}",
    "load": f"%pipedb load frame --table {LINE_WORD} --append",
    "load, unknown": f"%pipedb load {LINE_WORD} --table x",
    "wire on": "%pipedb wire on",
    "a cell over the wire": f"%%sql\nSELECT {TEXT} AS {WORD};\nSELECT nope",
    "wire last": "%pipedb wire last",
    "wire off": "%pipedb wire off",
    "wire": "%pipedb wire",
    "snippets": "%pipedb snippets",
    "snippets of a name": "%pipedb snippets evil",
    "connections": "%pipedb connections",
    "use": f"%pipedb use {LINE_WORD}",
    "rollback": "%pipedb rollback",
    "retry": "%pipedb retry",
    "status": f"%pipedb status --on {LINE_WORD}",
    "status of all": "%pipedb status",
    "--keep-alive": f"%pipedb connect {LINE_WORD} --keep-alive 10m",
    "--keep-alive, no time": f"%pipedb connect {LINE_WORD} --keep-alive {LINE_WORD}",
    "profiles --save": f"%pipedb profiles --save {LINE_WORD} --on {LINE_WORD}",
    "profiles": "%pipedb profiles",
    "connect by a profile": f"%pipedb connect {LINE_WORD} --as {LINE_WORD_2}",
    "--confirm": f"%%sql --confirm\nDELETE FROM {WORD}",
    "close": f"%pipedb close {LINE_WORD_2}",
    "connect, unknown": f"%pipedb connect {LINE_WORD_X}",
    "profiles --delete": f"%pipedb profiles --delete {LINE_WORD}",
    "organization": f"%pipedb organization {LINE_WORD}",
    "locations": "%pipedb locations",
    "groups": "%pipedb groups",
    "databases": "%pipedb databases",
    "create-group": f"%pipedb create-group {LINE_WORD} --location {LINE_WORD}",
    "create-database": f"%pipedb create-database {LINE_WORD} --group {LINE_WORD}",
    "export-database": f"%pipedb export-database {LINE_WORD} exported.db --replace",
    "add-location": f"%pipedb add-location {LINE_WORD} {LINE_WORD}",
    "overages": f"%pipedb overages {LINE_WORD}",
    "remove-location": f"%pipedb remove-location {LINE_WORD} {LINE_WORD}",
    "pause-location": f"%pipedb pause-location {LINE_WORD} {LINE_WORD}",
    "resume-location": f"%pipedb resume-location {LINE_WORD} {LINE_WORD}",
    "suspend-database": f"%pipedb suspend-database {LINE_WORD} --confirm",
    "resume-database": f"%pipedb resume-database {LINE_WORD}",
    "protect-database": f"%pipedb protect-database {LINE_WORD}",
    "protected database": f"%pipedb delete-database {LINE_WORD} --confirm",
    "unprotect-database": f"%pipedb unprotect-database {LINE_WORD}",
    "protect-group": f"%pipedb protect-group {LINE_WORD}",
    "unprotect-group": f"%pipedb unprotect-group {LINE_WORD}",
    "unarchive-group": f"%pipedb unarchive-group {LINE_WORD}",
    "delete-database": f"%pipedb delete-database {LINE_WORD} --confirm",
    "delete-group": f"%pipedb delete-group {LINE_WORD} --confirm",
    "delete-group, unconfirmed": f"%pipedb delete-group {LINE_WORD}",
    "organizations": "%pipedb organizations",
    "audit-logs": "%pipedb audit-logs",
    "usage": "%pipedb usage --databases",
    "create-token": f"%pipedb create-token {LINE_WORD} --to-env A_TOKEN",
    "invalidate-tokens": f"%pipedb invalidate-tokens {LINE_WORD} --confirm",
    "create-api-token": f"%pipedb create-api-token {LINE_WORD} --group {LINE_WORD} --read-only --to-env B_TOKEN",
    "create-api-token, unknown scope": f"%pipedb create-api-token x --group y --scope {LINE_WORD} --to-env B_TOKEN",
    "api-tokens": "%pipedb api-tokens --members",
    "revoke-api-token": f"%pipedb revoke-api-token {LINE_WORD} --confirm",
    "help, all": "%pipedb help --all",
    "help": f"%pipedb help {LINE_WORD}",
    "no command": f"%pipedb {LINE_WORD}",
    "no option": f"%pipedb tables --{EVIL.split()[0]}",
}  # fmt: skip


ELSEWHERE = {"stop", "panel"}
"""Commands that show nothing of others, or have a test of their own."""


def cells_of_others():
    """Return a cell for each option and command that has none above, with hostile words for its arguments."""
    lines = "\n".join(CELLS.values())
    for option in OPTIONS:
        if not re.search(rf"{option.flag}\s", lines):
            yield option.flag, f"%%sql {with_sample(option)}\nSELECT {TEXT} AS {WORD}"
    for name, command in COMMANDS.items():
        if name not in ELSEWHERE and not re.search(rf"%pipedb {name}\b(?!-)", lines):
            required = [argument for argument in (*command.positionals, *command.options) if argument.required]
            words = [
                f"{argument.flag} {LINE_WORD}"
                if isinstance(argument, Option)
                else next(iter(argument.choices), LINE_WORD)
                for argument in required
            ]
            yield name, " ".join([f"%pipedb {name}", *words])


NO_FORMULAS = "mathjax_ignore"
"""A class of elements in which JupyterLab and Notebook do not set $...$ as formulas."""
VOID = {"br", "col", "hr", "img", "input", "meta", "link", "path", "rect", "line", "circle"}


class Elements(HTMLParser):
    """Collects elements and attributes as a browser would, and texts that are searched for formulas."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.names, self.attributes, self.scripts, self.open, self.formulas = set(), set(), [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append((tag, NO_FORMULAS in (dict(attrs).get("class") or "").split()))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        while self.open and tag in {name for name, _ in self.open}:
            if self.open.pop()[0] == tag:
                return

    def handle_data(self, data):
        if "$" in data and not any(ignored or tag in ("style", "script") for tag, ignored in self.open):
            self.formulas.append(data)


def is_harmless(page):
    found = Elements(page)
    attributes = {name for name in found.attributes if name.startswith(("on", "evil", "'", '"'))}
    harmful = found.names & {"evil-tag", "script", "iframe", "object", "img"}
    return not harmful and not attributes and not found.formulas


def controls(text):
    """Return the characters that a terminal executes, or that reorder text."""
    return {char for char in text if category(char) in ("Cc", "Cf") and char not in "\n\t"}


def check(bundle, name):
    """Check all forms of one displayed object."""
    assert not controls(bundle.get("text/plain", "")), (name, bundle["text/plain"])
    if page := bundle.get("text/html"):
        assert is_harmless(page), (name, page)
    if picture := bundle.get("image/svg+xml"):
        root = ElementTree.fromstring(picture)
        names = {element.tag.split("}")[-1] for element in root.iter()}
        assert not names & {"evil-tag", "script", "foreignObject", "image"}
        assert not [name for element in root.iter() for name in element.attrib if name.startswith(("on", "evil"))]
    return set(bundle)


@pytest.fixture
def evil(db, tmp_path, monkeypatch):
    """A shell in which all names and values are hostile."""
    monkeypatch.chdir(tmp_path)
    db(f"%%sql --confirm\nCREATE TABLE {WORD}({WORD} PRIMARY KEY, b);\nINSERT INTO {WORD} VALUES (1, {TEXT});\n"
       f"CREATE VIEW [v{EVIL}] AS SELECT * FROM {WORD};\nCREATE INDEX [i{EVIL}] ON {WORD}(b);\n"
       f"CREATE TABLE refusing(a);\n"
       f"CREATE TRIGGER [t{EVIL}] BEFORE INSERT ON refusing BEGIN SELECT RAISE(ABORT, {TEXT}); END")  # fmt: skip
    session = db.ip.magics_manager.registry["PipeMagics"].session
    db(f"%pipedb connect {session.connection('db').database.url} --as {LINE_WORD} --token-env DB_TOKEN\n%pipedb use db")
    import pandas as pd

    db.names["evil"] = {"a": EVIL}
    db.names["frame"] = pd.DataFrame({EVIL: [77], "b": [EVIL]})
    return db


def test_output_contains_no_markup_and_no_control_characters(evil, monkeypatch):
    hook, values, forms, ran = evil.ip.displayhook, [], set(), 0
    format_value = hook.compute_format_data
    monkeypatch.setattr(hook, "compute_format_data", lambda value: values.append(format_value(value)) or values[-1])
    cells = CELLS | dict(cells_of_others())
    for name, cell in cells.items():
        done = evil.run(cell)
        ran += done.error is None
        bundles = [*done.shown, *(bundle for bundle, _ in values)]
        values.clear()
        for bundle in bundles:
            forms |= check(bundle, name)
        assert not isinstance(done.error, PipemagicError) or not controls(str(done.error)), name
        assert not controls(done.out + done.err), (name, done.out + done.err)
    assert {"text/html", "text/plain"} <= forms
    assert ran > len(cells) / 2  # most of them do what they say
