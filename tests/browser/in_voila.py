"""A panel as an application: a notebook that Voila shows. Arguments: the path of chromium, and a folder to work in."""

from __future__ import annotations

import sys
from pathlib import Path

from lab import Album, Watch, browser, jupyterlab
from playwright.sync_api import expect

CELLS = ["%load_ext pipemagic", "%pipedb connect --temporary", "%pipedb panel databases"]
VOILAS = ("/npm/@fortawesome/", "/libs/mathjax/")
"""What Voila itself asks another host for, whatever it shows; it does without."""


def main(chromium: str, folder: Path) -> None:
    with jupyterlab(folder) as lab, browser(chromium) as page:
        watch = Watch(page)
        page.goto(lab.url(lab.write("app", CELLS), "voila/render"))  # Voila runs the cells first
        panel = page.locator(".pipemagic-panel:not(.pipemagic-saved)")
        expect(panel).to_be_visible()
        expect(page.locator(".pipemagic-saved")).to_have_count(1)
        expect(page.locator(".pipemagic-saved")).to_be_hidden()
        panel.get_by_label("Database name").fill("flights")
        panel.get_by_role("button", name="Create database").click()
        panel.get_by_role("button", name="Connect to the new database flights").click()
        expect(panel.get_by_text("flights is the current connection")).to_be_visible()
        Album(page, "voila", folder).take("databases")
        strangers = [url for url in watch.strangers if not any(one in url for one in VOILAS)]
        assert not strangers, strangers


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
