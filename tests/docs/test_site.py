"""The site builds without warnings, and its pages load nothing from a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup

LOOK = Path(__file__).parents[1] / "browser" / "look_of_site.py"
LOADED = ("src", "srcset", "poster", "data")
"""Attributes whose address a browser loads, with `href` of links in the head."""
NOT_LOADED = {"canonical", "index", "search", "next", "prev", "genindex"}
"""Relations of links that a browser does not load."""
IN_CSS = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s;]+)""")


def loads(html: str) -> list[str]:
    """Return the addresses that a browser loads for a page."""
    page = BeautifulSoup(html, "html.parser")
    found = [str(tag[name]) for name in LOADED for tag in page.find_all(attrs={name: True})]
    found += [str(tag["href"]) for tag in page.find_all("link", href=True) if not NOT_LOADED & {*tag.get("rel", [])}]
    styles = [tag.get_text() for tag in page.find_all("style")]
    styles += [str(tag["style"]) for tag in page.find_all(style=True)]
    return found + [address for style in styles for address in IN_CSS.findall(style)]


def is_remote(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme not in ("", "data")


def test_the_build_has_no_warnings(site):
    assert (site.parent / "warnings.txt").read_text("utf-8") == ""


def test_no_page_loads_anything_from_a_network(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    remote = {page.name: [one for one in loads(page.read_text("utf-8")) if is_remote(one)] for page in pages}
    assert {page: found for page, found in remote.items() if found} == {}


def test_no_style_sheet_loads_anything_from_a_network(site):
    sheets = sorted(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        assert [one for one in IN_CSS.findall(sheet.read_text("utf-8")) if is_remote(one)] == [], sheet


def test_all_that_the_pages_load_exists(site):
    for page in site.rglob("*.html"):
        for address in loads(page.read_text("utf-8")):
            path = unquote(urlsplit(address).path)
            if path and not is_remote(address) and not address.startswith("data:"):
                assert (page.parent / path).exists(), (page.name, address)


def test_pages_fit_narrow_windows_and_are_readable_in_light_and_dark_mode(site, chromium):
    command = [sys.executable, str(LOOK), chromium, str(site)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example.org/a.js"></script>',
        '<img src="//example.org/a.png">',
        '<link rel="stylesheet" href="http://example.org/a.css">',
        "<style>@import 'https://example.org/a.css';</style>",
        '<p style="background: url(https://example.org/a.png)">',
    ],
)
def test_a_load_from_a_network_is_found(html):
    assert [is_remote(one) for one in loads(html)] == [True]


@pytest.mark.parametrize(
    "html", ['<a href="https://example.org">', '<link rel="canonical" href="https://example.org">']
)
def test_a_link_is_not_a_load(html):
    assert loads(html) == []
