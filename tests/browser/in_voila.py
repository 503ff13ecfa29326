"""Check a panel in a Voila application. Arguments: the path of chromium, and a working folder."""

from __future__ import annotations

import sys
from pathlib import Path

from lab import Album, Watch, browser, jupyterlab
from playwright.sync_api import expect

CELLS = ["%load_ext pipemagic", "%pipedb connect --temporary", "%pipedb panel databases"]
VOILAS = ("/npm/@fortawesome/", "/libs/mathjax/")
"""Requests of Voila itself to other hosts; it works without them."""


def main(chromium: str, folder: Path) -> None:
    with jupyterlab(folder) as lab, browser(chromium) as page:
        watch = Watch(page)
        page.goto(lab.url(lab.write("app", CELLS), "voila/render"))  # Voila runs the cells first
        panel = page.locator(".pipemagic-panel")
        expect(panel).to_be_visible()
        expect(page.locator(".pipemagic-saved")).to_have_count(1)
        expect(page.locator(".pipemagic-saved")).to_be_hidden()
        panel.get_by_label("Database name").fill("flights")
        panel.get_by_role("button", name="Create database").click()
        panel.get_by_role("button", name="Connect", exact=True).click()
        expect(panel.get_by_text("%%sql cells use flights")).to_be_visible()
        Album(page, "voila", folder).take("databases")
        foreign_requests = [url for url in watch.foreign_requests if not any(name in url for name in VOILAS)]
        assert not foreign_requests, foreign_requests


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
