"""%pipedb help shows the pages of the documentation, and help on commands and topics leads to them."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from IPython.core.completer import provisionalcompleter

import pipemagic
from pipemagic.notebook.commands import COMMANDS, GROUPS
from pipemagic.notebook.commands.help import topics
from pipemagic.notebook.commands.pages import ABOUT, WORDS, help_on_code, page_named, pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PARTS = ("analysts", "operators", "teachers")


def offers(shell, line):
    """Return the completions at the end of a line."""
    with provisionalcompleter():
        return [completion.text for completion in shell.ip.Completer.completions(line, len(line))]


def test_the_pages_are_those_of_the_documentation():
    found = {f"{path.parent.name}/{path.stem}" for part in PARTS for path in (DOCS / part).glob("*.md")}
    assert set(pages()) == found
    assert len(pages()) > 15


@pytest.mark.parametrize("name", [*COMMANDS, *(name for name in topics() if name not in COMMANDS)])
def test_help_on_a_command_or_topic_names_a_page(shell, name):
    *_, blank, last = shell(f"%pipedb help {name}").out.splitlines()
    assert blank == ""
    match = re.fullmatch(r"More: %pipedb help (\S+)", last)
    assert match is not None, last
    assert match[1] in pages()


def test_the_map_has_only_names_that_exist():
    assert set(ABOUT) <= {*COMMANDS, *topics(), *(group.title for group in GROUPS)}
    assert set(ABOUT.values()) <= set(pages())


@pytest.mark.parametrize("command", [name for name in ABOUT if name in COMMANDS])
def test_the_page_for_a_command_has_it(command):
    assert re.search(rf"\b{command}\b", pages()[ABOUT[command]].path.read_text("utf-8"))


NAMED = re.compile(r"(?:docs/)?(?:analysts|teachers|operators)/[\w./-]*\w")


def test_every_page_that_a_message_names_exists():
    """A user of the wheel has no folder docs/: a message names the page, as `%pipedb help` does."""
    package = Path(pipemagic.__file__).parent
    sources = [path for kind in ("py", "md", "js") for path in package.rglob(f"*.{kind}")]
    sources = [path for path in sources if package / "pages" not in path.parents]
    named = {(path.name, found) for path in sources for found in NAMED.findall(path.read_text("utf-8"))}
    assert {"nodes.py", "pages.py", "serve.py", "serving.py"} <= {name for name, _ in named}
    assert {(name, found) for name, found in named if found not in pages()} == set()


@pytest.mark.parametrize("name", pages())
def test_every_page_is_shown_without_its_comments(shell, name):
    source = "".join(re.split(r" *<!--|-->\n", (DOCS / f"{name}.md").read_text("utf-8"))[::2])
    (shown,) = shell(f"%pipedb help {name}").shown
    assert (shown["text/plain"].rstrip("\n"), shown["text/markdown"]) == (source.rstrip("\n"), source)
    assert f"# {pages()[name].title}\n" in source


def test_names_of_pages_can_be_short_and_are_completed_and_corrected(shell):
    assert page_named("types") is pages()["analysts/types"]
    assert shell("%pipedb help types").shown == shell("%pipedb help analysts/types").shown
    assert offers(shell, "%pipedb help analysts/load") == ["analysts/load"]
    assert set(pages()) <= set(offers(shell, "%pipedb help "))
    assert "did you mean analysts/load?" in shell.fails("%pipedb help analysts/laod").out
    assert "did you mean errors?" in shell.fails("%pipedb help erors").out


@pytest.mark.parametrize(("word", "page"), WORDS.items())
def test_a_word_that_is_no_command_leads_to_a_page(shell, word, page):
    assert shell(f"%pipedb help {word}").shown == shell(f"%pipedb help {page}").shown


def test_help_on_the_code_of_an_error_says_what_to_do(shell):
    shell("%pipedb connect --temporary")
    code = shell.fails("%sql SELECT * FROM missing").out.split(":")[0]
    assert shell(f"%pipedb help {code}").out == (
        "UNKNOWN_NAME: The database has no table, view or column of that name. "
        "Correct the name. The hint lists similar names.\n\nMore: %pipedb help analysts/errors\n"
    )
    assert shell("%pipedb help LOAD").out.startswith("LOAD: A frame could not be loaded")
    assert "did you mean UNKNOWN_NAME?" in shell.fails("%pipedb help UNKNWN_NAME").out
    assert shell("%pipedb help sqlite_full").out.startswith("SQLITE_FULL: The database has reached its size limit")


@pytest.mark.slow
def test_a_wheel_carries_the_pages(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "from pipemagic.notebook.commands.pages import help_on_code, pages; "
        "print(*(page.path for page in pages().values()), help_on_code('BUSY'), sep='\\n')"
    )
    run = [sys.executable, "-c", code]
    found = subprocess.run(
        run, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "site")}, check=True, capture_output=True, text=True
    )
    folder = tmp_path / "site" / "pipemagic" / "pages"
    names = [str(folder / f"{name}.md") for name in pages()]
    assert found.stdout.splitlines() == [*names, *help_on_code("BUSY").splitlines()]
    assert help_on_code("BUSY")
