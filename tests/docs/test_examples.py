"""The examples of README and of each page of docs/ run, and print the output that is shown below them.

The cells of a page run from top to bottom in one IPython shell, in an empty folder. A ``text`` fence directly behind a
cell is its whole output. Then they run again in the same shell. Hidden cells are comments that begin with ``cell``. A
cell below ``<!-- not run: REASON -->`` does not run. Commands in ``sh`` and ``console`` fences are parsed;
test_shell_examples.py runs them.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import click
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from page_examples import (
    CELLS,
    DOCS,
    GENERATED,
    OTHER_VARIABLES,
    PAGES,
    README,
    ROOT,
    SHELLS,
    Block,
    blocks,
    cells,
    commands,
    is_cell,
    name,
    normalize,
    steps,
)
from traitlets.config import Config

from pipemagic import launcher
from pipemagic.cli import pipemagic

TABLES = {DOCS / "analysts" / "other-magics.md"}
"""Its cells run with the code of its tables, in tests/test_peers.py."""
WITH_CELLS = [pytest.param(page, id=name(page)) for page in PAGES if page not in GENERATED | TABLES and cells(page)]

TEST = re.compile(r"tests/\S+\.py")
"""The test that runs an example instead."""
MOST_NOT_RUN = 11
"""How many cells of all pages may have a reason to run nowhere. Raise it only for a cell that cannot run here."""
MOST_SHELLS_NOT_RUN = 9
"""The same for fences of shell commands."""
NOTE = re.compile(r"^Note( on statement \d+)?: ", re.MULTILINE)
"""Matches a note on SQL, which a page shows if its cell gets one."""

UNCHECKED = {
    "css",
    "dockerfile",
    "html",
    "ini",
    "javascript",
    "markdown",
    "jinja",
    "js",
    "json",
    "mermaid",
    "nginx",
    "sql",
    "toml",
    "typescript",
    "yaml",
}
"""Languages of fences that are not run."""


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """An IPython shell in an empty folder, with settings and data of its own."""
    environment = dict(os.environ)
    folder = tmp_path / "notebook"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PIPEMAGIC_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("COLUMNS", "120")  # pandas fits frames into a terminal
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # for !pipemagic
    for variable in OTHER_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    yield shell
    if "pipemagic" in shell.extension_manager.loaded:
        shell.run_line_magic("unload_ext", "pipemagic")
    InteractiveShell.clear_instance()
    launcher.stop(tmp_path / "data")
    os.environ.clear()
    os.environ.update(environment)


@pytest.mark.parametrize("page", WITH_CELLS)
def test_the_cells_print_the_output_of_the_page_and_run_again(page, shell):
    """In a second run, each cell that succeeded does so again, and one that showed an error shows one again."""
    given = [cell for cell in cells(page) if not cell.not_run]
    succeeded = []
    for cell in given:
        success, output = run(shell, cell)
        where = f"{name(page)}, line {cell.line}:\n{cell.source}\n{output}"
        if cell.expected is None:
            assert success is not cell.raises, where
            assert not NOTE.search(output), where
        else:
            assert normalize(output) == normalize(cell.expected), where
        succeeded.append(success)
    for cell, before in zip(given, succeeded, strict=True):
        success, output = run(shell, cell)
        assert success is before, f"{name(page)}, line {cell.line}, again:\n{cell.source}\n{output}"


def run(shell, cell):
    """Run a cell; return whether it succeeded, and its output."""
    with capture_output(display=False) as captured:
        success = shell.run_cell(cell.source).success
    return success, captured.stdout + captured.stderr


def test_few_cells_and_commands_do_not_run_and_each_has_a_reason():
    reasons = [
        (name(page), block.line, block.text.removeprefix("not run:").strip())
        for page in PAGES
        for block in blocks(page)
        if block.text.startswith("not run:")
    ]
    not_run = [cell.not_run for page in PAGES for cell in cells(page) if cell.not_run]
    not_run_shells = [step.not_run for page in PAGES for step in steps(page) if step.not_run]
    assert sorted(text for _, _, text in reasons) == sorted(not_run + not_run_shells), "a reason is above no example"
    assert all(len(text.split()) >= 3 for _, _, text in reasons), reasons
    assert all((ROOT / path).is_file() for _, _, text in reasons for path in TEST.findall(text)), reasons
    assert len([reason for reason in not_run if not TEST.search(reason)]) <= MOST_NOT_RUN, reasons
    assert len([reason for reason in not_run_shells if not TEST.search(reason)]) <= MOST_SHELLS_NOT_RUN, reasons


def test_no_example_is_hidden_from_the_test():
    """Code has a fence with a language; an output is directly behind the cell or the commands that print it.

    A ``text`` fence that is not an output has ``<!-- illustration -->`` directly above it.
    """
    for page in PAGES:
        before = Block("", "", 0)
        for block in blocks(page) if page not in GENERATED else ():
            kind = block.kind
            where = f"{name(page)}, line {block.line}: {kind} {block.text!r}"
            assert kind != "plain", f"{where}: code without a fence that has a language"
            assert kind in {"", "comment", "text"} | CELLS | SHELLS | UNCHECKED or kind.startswith("{"), (
                f"{where}: unknown language"
            )
            if kind == "text":
                illustrates = before.kind == "comment" and before.text == "illustration"
                assert is_cell(before) or before.kind in SHELLS or illustrates, f"{where}: an output without a cell"
            before = block


def test_commands_of_the_shell_exist_with_their_options():
    wrong = []
    for page in PAGES:
        for line, words in commands(page):
            try:
                parse(pipemagic, words)
            except click.UsageError as error:
                wrong.append(f"{name(page)}:{line}: {words}: {error.format_message()}")
    assert wrong == []


def parse(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """Parse a command line without running it; raise click.UsageError for an unknown command, option or argument."""
    context = click.Context(command, info_name=command.name, parent=parent)
    values, rest, _ = command.make_parser(context).parse_args(list(words))
    if any(values.get(option) is True for option in ("help", "version")):
        return
    if isinstance(command, click.Group):
        if rest:
            _, found, rest = command.resolve_command(context, rest)
            assert found is not None
            parse(found, rest, context)
        return
    for parameter in command.params:
        value = values.get(parameter.name)
        if isinstance(parameter, click.Argument) and parameter.required and parameter.value_is_missing(value):
            raise click.MissingParameter(ctx=context, param=parameter)
        if isinstance(parameter.type, click.Choice) and isinstance(value, str):
            parameter.type.convert(value, parameter, context)
    if rest:
        raise click.UsageError(f"unexpected arguments: {rest}", context)


@pytest.mark.parametrize(
    "words",
    ["nothing", "db nothing", "db list --nothing", "db export one", "db list a b", "db shell x --mode wrong"],
)
def test_a_wrong_command_is_refused(words):
    with pytest.raises(click.UsageError):
        parse(pipemagic, words.split())


def test_the_first_example_of_readme_has_at_most_ten_lines():
    first = [cell.source for cell in cells(README)[:2]]
    assert len(first) == 2
    assert sum(source.count("\n") for source in first) <= 10


WRONG = """\
```ipython
print(1 + 1)
```
```text
3
```
"""
PARTS = """\
<!-- cell
x = 2
-->
<!-- not run: it needs an account -->
```ipython
%pipedb connect x
```
1. A list:
   ```python
   x + 1
   ```
   ```text
   3
   ```

```sh
X=1 pipemagic db list --data d | sort > f && pipemagic stop  # ends
pip install pipemagic
```
"""


def test_an_output_that_differs_is_found(shell, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(WRONG, "utf-8")
    (cell,) = cells(page)
    with capture_output(display=False) as captured:
        shell.run_cell(cell.source)
    assert normalize(captured.stdout) == "2" != normalize(cell.expected or "")


def test_cells_reasons_outputs_and_commands_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PARTS, "utf-8")
    assert [(cell.source.strip(), cell.expected, cell.not_run) for cell in cells(page)] == [
        ("x = 2", None, ""),
        ("%pipedb connect x", None, "it needs an account"),
        ("x + 1", "3\n", ""),
    ]
    assert commands(page) == [(17, ["db", "list", "--data", "d"]), (17, ["stop"])]


def test_times_ports_and_tokens_are_not_compared():
    assert normalize("Out[3]: \n  a  b \n1  2.5 ms http://x.localhost:34567 eyJh.x-y ") == (
        "a  b\n1  TIME http://x.localhost:PORT TOKEN"
    )
