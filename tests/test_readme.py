"""README is short, and its pictures, figures and links are right; tests/docs/test_examples.py runs its examples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
PICTURES = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", TEXT)


def test_readme_has_at_most_650_words():
    assert len(TEXT.split()) <= 650


def test_readme_has_two_pictures():
    assert [path for _, path in PICTURES] == ["docs/images/session.gif", "docs/images/panel.gif"]


@pytest.mark.parametrize(("alternative", "path"), PICTURES, ids=[path for _, path in PICTURES])
def test_a_picture_moves_is_small_and_can_be_read_without_it(alternative, path):
    assert (ROOT / path).stat().st_size < 1_000_000
    with Image.open(ROOT / path) as picture:
        assert picture.n_frames > 10
        assert picture.info["loop"] == 0  # for ever
        assert picture.width >= 800
        lasts = 0
        for number in range(picture.n_frames):
            picture.seek(number)
            lasts += picture.info["duration"]
        assert 10_000 <= lasts <= 35_000  # ms
        assert picture.info["duration"] >= 3_000, "the last frame is not held"
    assert len(alternative.split()) > 5


def test_the_figures_of_the_table_are_those_of_the_benchmarks():
    section = TEXT.partition("## Performance")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    measured = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert len(rows) == 5
    for row in rows:
        _, ours, _, others, result = [cell.strip() for cell in row.strip("|").split("|")]
        figure = result.split()[0]
        percent = figure.endswith("%")
        ratio = 1 + int(figure.removesuffix("%")) / 100 if percent else float(figure)
        assert re.fullmatch(r"\d+% (faster|slower)" if ratio < 2 else r"\d+\.\d times faster", result), row
        near = [line for line in measured.splitlines() if f" {ours} " in line and f" {others} " in line]
        ratios = [float(found) for line in near for found in re.findall(r" (\d+\.\d\d) ", line)]
        assert [found for found in ratios if abs(found - ratio) <= (0.005 if percent else 0.05)], row


@pytest.mark.parametrize(
    "name",
    ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "notebooks/README.md", "benchmarks/README.md"],
)
def test_links_outside_of_the_site_lead_to_files(name):
    page = ROOT / name
    links = re.findall(r"\]\(([^)\s]+)\)|^\[\w+\]: (\S+)", page.read_text("utf-8"), re.MULTILINE)
    targets = [(link or other).partition("#")[0] for link, other in links]
    assert not [target for target in targets if target and "://" not in target and not (page.parent / target).exists()]


def test_files_that_a_text_names_exist():
    """The sphinx build checks the links of the site; these are names in code, examples and notebooks."""
    texts = [
        path
        for folder in ("pipemagic", "examples", "notebooks", "benchmarks", ".ci")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".ipynb", ".toml", ".yaml", "") and path.is_file()
    ]
    named = {
        name
        for path in [*texts, *ROOT.glob("*.md")]
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text("utf-8", errors="ignore"))
    }
    assert named
    assert not [path for path in sorted(named) if not (ROOT / path).is_file()]


def test_five_links_lead_to_files():
    links = re.findall(r"^- \[.+?\]\((.+?)\):", TEXT.partition("## Links")[2], re.MULTILINE)
    assert len(links) == 5
    assert not [link for link in links if not (ROOT / link).is_file()]
