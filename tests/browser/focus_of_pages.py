"""Where the focus goes when one panel is on two pages, in a browser without Jupyter: panel.js and a model of its own.

Argument: the path of chromium. Prints where the focus is, after each step.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lab import browser

from pipemagic.notebook.panels.ground import widget

SETTING = """() => {
  const ask = ["button", { type: "button", on: { click: ["ask"] }, key: "ask" }, ["Ask"]];
  const form = ["form", { key: "form", on: {} }, [["input", { name: "name", focus: true }, []]]];
  const heard = [];
  window.plain = ["div", {}, [ask]];
  window.asking = ["div", {}, [ask, form]];
  window.model = {
    tree: plain, get() { return this.tree; }, send() {}, off() {},
    on(event, hear) { if (event === "change:tree") heard.push(hear); },
    put(tree) { this.tree = tree; heard.forEach((hear) => hear()); },
  };
  const panel = make();
  panel.initialize({ model });
  window.add = (id) => panel.render({ model, el: document.getElementById(id) });
  add("one");
  add("two");
}"""
PLACE = "[document.activeElement.closest('div[id]')?.id, document.activeElement.tagName].filter(Boolean).join(' ')"


def main(chromium: str) -> None:
    """Open and close a form from each page and from elsewhere, and load a page while it is open."""
    script = (Path(widget.__file__).parent / "panel.js").read_text("utf-8").replace("export default", "window.make =")
    with browser(chromium) as page:
        page.set_content("<textarea></textarea><div id=one></div><div id=two></div><div id=three></div>")
        page.add_script_tag(content=script)
        page.evaluate(SETTING)
        for name in ("one", "two"):
            page.locator(f"#{name} button").click()
            page.evaluate("model.put(asking)")
            print(page.evaluate(PLACE))
            page.evaluate("model.put(plain)")
            print(page.evaluate(PLACE))
        page.locator("#one button").click()
        page.locator("textarea").focus()
        page.evaluate("model.put(asking)")
        print(page.evaluate(PLACE))
        page.evaluate("document.activeElement.blur(); add('three')")
        print(page.evaluate(PLACE))


if __name__ == "__main__":
    main(*sys.argv[1:])
