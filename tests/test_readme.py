"""The notebook examples of README and of some pages of docs/ print the output that is shown below them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, ROOT / "docs" / "results.md", ROOT / "docs" / "panels.md"]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(page: Path) -> list[tuple[str, str]]:
    """Return each notebook cell and the output shown below it ('' if none is shown)."""
    blocks = FENCE.findall(page.read_text(encoding="utf-8"))
    pairs = []
    for number, (kind, body) in enumerate(blocks):
        if kind == "ipython":
            follows = blocks[number + 1] if number + 1 < len(blocks) else ("", "")
            pairs.append((body, follows[1] if follows[0] == "text" else ""))
    return pairs


@pytest.fixture
def shell(starts_processes):
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell(config=config)
    yield shell
    shell.run_line_magic("unload_ext", "pipemagic")
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_print_the_output_of_the_page(page, shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = examples(page)
    assert len(pairs) >= 3
    for source, expected in pairs:
        with capture_output() as captured:
            result = shell.run_cell(source)
        shown = "".join(f"{output.data['text/plain']}\n" for output in captured.outputs)
        printed = re.sub(r"^Out\[\d+\]: ?\n?", "", shown + captured.stdout, flags=re.MULTILINE).strip()
        if expected:
            assert printed == expected.strip()
        else:
            assert result.success, printed


def test_the_first_example_has_at_most_ten_lines():
    sources = [source for source, _ in examples(README)[:2]]
    assert sum(source.count("\n") for source in sources) <= 10
