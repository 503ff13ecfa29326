"""Check components.js in chromium without a notebook: rendering, messages and state.

Argument: the path of chromium. Prints one line for each check.
"""

from __future__ import annotations

import base64
import re
import sys
from typing import Any

from lab import browser, copied_text
from playwright.sync_api import Page, expect

from pipemagic.notebook.panels.components import LOADER, Events

SOURCES = [base64.b64encode(script.encode()).decode("ascii") for script in (Events._esm, LOADER)]
STYLE = Events._css

# Models as anywidget provides them: one for each component, with the traits that Python would set.
HARNESS = """async ([sources, style]) => {
  const modules = await Promise.all(sources.map((one) => import(`data:text/javascript;base64,${one}`)));
  const { render } = modules.at(-1).default;
  document.head.append(Object.assign(document.createElement("style"), { textContent: style }));
  const panel = document.body.appendChild(document.createElement("div"));
  panel.className = "pipemagic-panel";
  window.components = {};
  window.signal = () => {
    const slots = new Set();
    return {
      connect: (slot) => slots.add(slot), disconnect: (slot) => slots.delete(slot), slots,
      emit: (value) => slots.forEach((slot) => slot(undefined, value)),
    };
  };
  window.add = async (name, traits, into = panel, manager = undefined) => {
    const listeners = {}, sent = [];
    const model = {
      get: (key) => traits[key], widget_manager: manager,
      on: (event, react) => (listeners[event] ??= new Set()).add(react),
      off: (event, react) => listeners[event].delete(react),
      send: (message) => sent.push(message),
    };
    const el = into.appendChild(document.createElement("div"));
    const stop = await render({ model, el });
    window.components[name] = {
      el, sent, stop,
      set: (changes) => { Object.assign(traits, changes); listeners.change.forEach((react) => react()); },
      receive: (message) => listeners["msg:custom"].forEach((react) => react(message)),
      listeners: () => Object.values(listeners).reduce((sum, one) => sum + one.size, 0),
    };
  };
}"""


class Component:
    """One component on the page."""

    def __init__(self, page: Page, name: str, **traits: Any) -> None:
        self.page, self.name = page, name
        page.evaluate("([name, traits]) => add(name, traits)", [name, traits])
        self.root = page.locator(f".pm-{traits['kind']}").last

    def set(self, **changes: Any) -> None:
        self.page.evaluate("([name, changes]) => components[name].set(changes)", [self.name, changes])

    def receive(self, message: dict[str, Any]) -> None:
        self.page.evaluate("([name, message]) => components[name].receive(message)", [self.name, message])

    def stop(self) -> None:
        self.page.evaluate("(name) => components[name].stop()", self.name)

    @property
    def sent(self) -> list[Any]:
        """Messages sent since the last read, without those that report readiness."""
        found = self.page.evaluate("(name) => components[name].sent.splice(0)", self.name)
        return [item for item in found if "ready" not in item]


def table(page: Page, name: str, rows: list[dict[str, Any]], **traits: Any) -> Component:
    columns = [
        {"title": "Name", "sortable": True}, {"title": "Size", "kind": "number", "sortable": True}, {"title": ""},
    ]  # fmt: skip
    usual = {
        "kind": "table", "columns": columns, "label": name, "empty": "No rows yet.", "page_size": 100, "filter_from": 8,
        "busy": False,
    }  # fmt: skip
    made = Component(page, name, **{**usual, **traits})
    made.receive({"rows": rows})
    return made


def row(name: str, size: int, **more: Any) -> dict[str, Any]:
    act = {"name": "act", "label": "Act", "title": f"Act on {name}"}
    return {"key": name, "cells": [name, {"text": f"{size} kB", "sort": size}, {"actions": [act]}], **more}


def names(component: Component) -> list[str]:
    return component.root.locator("tbody th[scope=row]").all_inner_texts()


def check_table(page: Page) -> None:
    rows = [row(f"n{number}", number * 37 % 100) for number in range(12)]
    shown = table(page, "sorted", rows)
    assert names(shown) == [f"n{number}" for number in range(12)]
    shown.root.get_by_role("button", name="Sort by Name").click()
    assert names(shown)[:3] == ["n0", "n1", "n2"], "numbers in names are not in their order"
    for order in ("ascending", "descending"):
        shown.root.get_by_role("button", name="Sort by Size").click()
        expect(shown.root.locator(f"th[aria-sort={order}]")).to_contain_text("Size")
    assert names(shown)[0] == max(rows, key=lambda item: item["cells"][1]["sort"])["key"]
    shown.root.get_by_label("Filter").fill("N1")
    expect(shown.root.get_by_role("status")).to_have_text("3 of 12")
    shown.root.get_by_label("Filter").fill("nothing")
    expect(shown.root).to_contain_text("No row contains this text.")
    shown.root.get_by_label("Filter").fill("")
    assert shown.sent == [], "sorting and filtering ask the kernel"
    print("sorting and filtering", flush=True)
    shown.root.get_by_role("button", name="Act on n3").click()
    assert shown.sent == [{"action": "act", "key": "n3"}]
    shown.set(busy=True)
    shown.root.get_by_role("button", name="Act on n3").click(force=True)
    assert shown.sent == []
    print("actions, and none while work runs", flush=True)


def check_focus(page: Page) -> None:
    shown = table(page, "focus", [row(f"n{number}", number) for number in range(4)])
    shown.root.get_by_role("button", name="Act on n2").focus()
    shown.receive({"rows": [row("new", 1), *(row(f"n{number}", number + 5) for number in range(4))]})
    expect(shown.root.get_by_role("button", name="Act on n2")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(shown.root.get_by_role("button", name="Act on n3")).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(shown.root.get_by_role("button", name="Act on n1")).to_be_focused()
    print("focus stays, and arrows move it", flush=True)


def check_pages(page: Page) -> None:
    shown = table(page, "pages", [row(f"n{number}", 0) for number in range(25)], page_size=10)
    assert len(names(shown)) == 10
    shown.root.get_by_role("button", name="Next").click()
    shown.root.get_by_role("button", name="Next").click()
    assert names(shown) == [f"n{number}" for number in range(20, 25)]
    expect(shown.root.get_by_role("button", name="Next")).to_be_disabled()
    shown.receive({"rows": [row("n0", 0)]})
    assert names(shown) == ["n0"]
    shown.receive({"rows": []})
    expect(shown.root).to_contain_text("No rows yet.")
    print("pages", flush=True)


def cells(page: Page, name: str, rows: list[list[dict[str, Any]]], columns: int = 2) -> Component:
    titles = [{"title": f"c{number}", "key": f"key {number}", "note": "TEXT"} for number in range(columns)]
    traits = {"kind": "cells", "columns": titles, "label": name, "empty": "No rows.", "first": 0, "total": -1}
    made = Component(page, name, **traits)
    made.receive(page_of(rows))
    return made


def page_of(rows: list[list[dict[str, Any]]]) -> dict[str, Any]:
    return {"rows": [{"key": str(number), "cells": shown} for number, shown in enumerate(rows)]}


def cell(shown: str, kind: str = "text", **more: Any) -> dict[str, Any]:
    return {"text": shown, "kind": kind, **more}


def check_cells(page: Page) -> None:
    """An update of rows keeps the focus, the position and the selection; other cells are not selected."""
    rows = [[cell(f"{row}.{column}" * 5) for column in range(20)] for row in range(60)]
    shown = cells(page, "grid", rows, 20)
    grid, body = shown.root.get_by_role("grid", name="grid"), shown.root.locator(".pm-scroll")
    at = lambda row, column: grid.locator("tbody tr").nth(row).locator("td").nth(column)  # noqa: E731
    expect(grid).to_have_attribute("aria-rowcount", "-1")
    at(40, 10).click()
    at(42, 12).click(modifiers=["Shift"])
    position = body.evaluate("body => [body.scrollLeft, body.scrollTop]")
    assert min(position) > 0
    rows[40][10] = cell("other")
    shown.set(total=60)
    shown.receive(page_of(rows))
    expect(at(40, 10)).to_have_text("other")
    expect(at(40, 10)).to_be_focused()
    assert body.evaluate("body => [body.scrollLeft, body.scrollTop]") == position
    expect(grid.locator("[aria-selected=true]")).to_have_count(9)
    expect(grid).to_have_attribute("aria-rowcount", "61")
    shown.set(first=60)
    shown.receive(page_of(rows[:30]))
    expect(at(29, 10)).to_be_focused()
    expect(grid.locator("[aria-selected=true]")).to_have_count(1)
    expect(grid.locator("tbody tr").last).to_have_attribute("aria-rowindex", "91")
    page.keyboard.press("PageUp")
    shown.root.get_by_role("button", name="Sort by c12").click()
    assert shown.sent == [{"action": "turn", "key": "-1"}, {"action": "sort", "key": "key 12"}]
    shown.receive({"rows": []})
    expect(shown.root.get_by_role("button", name="Sort by c12")).to_be_focused()
    expect(shown.root).to_contain_text("No rows.")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Control+c")
    shown.stop()
    print("cells keep the focus, the position and the selection", flush=True)


def check_copies(page: Page) -> None:
    """The clipboard has values, not texts that display them, also as HTML for spreadsheets."""
    evil = "<img src=x onerror=window.broken=1>"
    rows = [
        [cell("9007199254740993", "number"), cell(evil)], [cell("NULL", "null", value=""), cell("'007'", value="007")],
        [cell("1.5", "number"), cell('"a"')], [cell("a…", value=None), cell(r"a\nb", value="a\nb")],
    ]  # fmt: skip
    shown = cells(page, "copies", rows)
    shown.root.locator("tbody td").first.focus()
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+c")
    expect(shown.root.get_by_role("status")).to_have_text("4 x 2 cells copied with 1 truncated value.")
    text = page.evaluate("navigator.clipboard.readText()")
    assert text == f'9007199254740993\t{evil}\n\t007\n1.5\t"""a"""\na…\t"a\nb"'
    html = page.evaluate(
        "navigator.clipboard.read().then(([item]) => item.getType('text/html')).then((it) => it.text())"
    )
    formats = [("mso-number-format" in found) for found in re.findall("<td[^>]*>", html)]
    assert formats == [True, True, True, True, False, True, True, True], html
    assert page.evaluate("window.broken") is None
    shown.root.locator("tbody td").nth(7).click()
    page.keyboard.press("Control+c")
    assert page.evaluate("navigator.clipboard.readText()") == "a\nb"
    print("copied cells", flush=True)


def check_texts(page: Page) -> None:
    """Texts of servers and users are not parsed as HTML."""
    evil = "<img src=x onerror=window.broken=1>"
    cell = {"text": evil, "lines": [evil], "items": [{"text": evil}], "title": evil,
            "actions": [{"name": "a", "label": evil, "title": evil}]}  # fmt: skip
    columns = [{"title": evil, "note": evil, "sortable": True}]
    shown = table(page, "evil", [{"key": evil, "group": evil, "cells": [cell]}], columns=columns, empty=evil)
    status = Component(
        page, "evil status", kind="status", busy="", message=evil, code=evil, error=evil, hint=evil, line=evil
    )
    copied = Component(page, "evil copy", kind="copy", label=evil)
    copied.receive({"text": evil})
    for widget in (shown, status, copied):
        expect(widget.root).to_contain_text("<img src=x")
        assert widget.root.locator("img").count() == 0
    assert page.evaluate("window.broken") is None
    shown.root.locator("tbody button").first.click()
    assert shown.sent == [{"action": "a", "key": evil}]
    print("texts are not parsed as HTML", flush=True)


def check_status(page: Page) -> None:
    traits = {"busy": "Loading ...", "message": "", "code": "", "error": "", "hint": "", "line": "%pipedb x"}
    status = Component(page, "status", kind="status", **traits)
    state = status.root.get_by_role("status")
    expect(state).to_have_text("Loading ...")
    element = state.element_handle()
    expect(status.root.get_by_role("button")).to_have_count(0)
    status.set(busy="", message="Done.")
    expect(state).to_have_text("Done.")
    assert state.evaluate("(now, before) => now === before", element), "screen readers would not read a new element"
    status.root.get_by_role("button", name="Copy %pipedb x").click()
    assert copied_text(page, "%pipedb") == "%pipedb x"
    status.set(message="", error="it failed", code="CODE", hint="type this\nor that")
    lines = status.root.get_by_role("alert").locator("p")
    expect(lines).to_have_text(["CODE: it failed", "Hint: type this", "or that"])
    print("a status, and the magic to copy", flush=True)


def check_secret(page: Page) -> None:
    secret = Component(page, "secret", kind="secret")
    expect(secret.root).to_contain_text("not available: a token is shown only once")
    secret.receive({"secret": "a.b.c"})
    assert "a.b.c" not in page.content()
    secret.root.get_by_role("button", name="Copy token").click()
    assert copied_text(page, "a.") == "a.b.c"
    secret.root.get_by_role("button", name="Show the token").click()
    expect(secret.root.locator("code")).to_have_text("a.b.c")
    secret.root.get_by_role("button", name="Hide the token").click()
    assert "a.b.c" not in page.content()
    secret.receive({"secret": None})
    expect(secret.root.get_by_role("button", name="Copy token")).to_be_hidden()
    print("a token that is shown, hidden and forgotten", flush=True)


def check_countdown(page: Page) -> None:
    now = page.evaluate("Date.now() / 1000")
    bar = Component(page, "countdown", kind="countdown", until=now + 60, length=100, label="Time left")
    shown = bar.root.get_by_role("timer", name="Time left")
    width = "(bar) => parseFloat(bar.firstChild.style.width)"
    before = shown.evaluate(width)
    assert now + 60 - page.evaluate("Date.now() / 1000") <= before <= 60
    page.wait_for_function(f"([bar, before]) => ({width})(bar) < before", arg=[shown.element_handle(), before])
    bar.set(until=now - 1)
    expect(bar.root).to_contain_text("time limit of 100 s has passed")
    bar.set(about=True)
    expect(bar.root).to_contain_text("100 s have passed: the next cell shows whether it is still open")
    bar.set(until=now + 90_000)
    expect(bar.root).to_contain_text("about 100 of 100 s left")
    bar.set(until=0)
    expect(bar.root).to_be_hidden()
    print("a countdown", flush=True)


FORM = """() => {
  const form = document.querySelector(".pipemagic-panel").appendChild(document.createElement("div"));
  form.className = "pm-form pm-form-3";
  form.innerHTML = `<div class="pm-field pm-typed pm-field-7"><input id=name></div>
    <div class="pm-field pm-choice pm-field-8">
      <select id=choice><option value="Label of a">a<option value="Label of b">b</select>
    </div>
    <button class=pm-submit>Create</button><button class=pm-cancel>Cancel</button>`;
  window.log = [];
  form.addEventListener("change", (event) => log.push(`change ${event.target.value}`));
  form.querySelector(".pm-submit").addEventListener("click", () => log.push("submit"));
  form.querySelector(".pm-cancel").addEventListener("click", () => {
    log.push("cancel");
    form.style.display = "none";
  });
}"""


def check_events(page: Page) -> None:
    before = table(page, "before", [row("n0", 0)])
    page.evaluate(FORM)
    field, choice = page.locator("#name"), page.locator("#choice")
    field.fill("early")  # before there is anything that listens
    events = Component(page, "events", kind="events")
    page.wait_for_function("components.events.el.matches('.pm-live')")
    shown, *early = events.sent
    assert list(shown) == ["shown"]
    assert early == [{"typed": "early", "field": "pm-field-7"}], "text that was typed early is lost"
    field.fill("")
    assert events.sent == [{"typed": "", "field": "pm-field-7"}]
    field.press_sequentially("ab")
    assert events.sent == [{"typed": "a", "field": "pm-field-7"}, {"typed": "ab", "field": "pm-field-7"}]
    choice.select_option("Label of b")
    assert events.sent == [{"chosen": "Label of b", "field": "pm-field-8"}]
    assert page.evaluate("log.splice(0)") == ["change Label of b"]
    field.press("Enter")
    assert page.evaluate("log") == ["change ab", "submit"], "the value has to be sent before the click"
    values = ["ab", "Label of b"]
    assert events.sent == [{"form": "pm-form-3", "values": values}]
    focused = cells(page, "keys", [[cell("1"), cell("2")]]).root.locator("td").first
    focused.focus()
    for key, kept in (("ArrowDown", True), ("Control+a", True), ("Control+Home", True), ("Control+b", False)):
        page.keyboard.press(key)  # JupyterLab handles it, or the grid
        assert (focused.get_attribute("data-lm-suppress-shortcuts") is not None) is kept, key
    page.locator(".pm-submit").dblclick()
    for held in (page.locator(".pm-submit"), field):
        held.focus()
        for _ in range(3):  # keys after the first are repetitions
            page.keyboard.down("Enter")
        page.keyboard.up("Enter")
    assert page.evaluate("log").count("submit") == 4, "a double click and a key that is held down count once"
    assert events.sent == [{"form": "pm-form-3", "values": values}] * 3
    field.press("Escape")
    assert "cancel" in page.evaluate("log")
    first = before.root.get_by_role("button", name="Sort by Name")
    expect(first).to_be_focused()  # nothing opened the form, so it is the first button of the panel
    first.evaluate("(button) => { button.disabled = true; }")
    page.wait_for_function("document.activeElement === document.body")
    first.evaluate("(button) => { button.disabled = false; }")
    expect(first).to_be_focused()
    page.evaluate("components.events.stop()")
    assert events.sent == [{"hidden": shown["shown"]}]
    assert page.evaluate("components.events.listeners()") == 0
    print("events: typing, Enter, Escape, double clicks, focus, and whether it is shown", flush=True)


# The end of a kernel, as the widget managers of JupyterLab report it: a status, or the disposal of the connection.
KERNEL = """async ([status, disposed]) => {
  const into = document.body.appendChild(document.createElement("div"));
  into.className = "pipemagic-panel";
  const kernel = { statusChanged: signal(), disposed: signal() };
  await add("watch", { kind: "events" }, into, { kernel });
  await new Promise((done) => setInterval(() => into.querySelector(".pm-live") && done(), 10));
  const words = () => into.querySelector("[role=alert]")?.textContent ?? "";
  kernel.statusChanged.emit("busy");
  kernel.statusChanged.emit("idle");
  const before = words();
  if (status) kernel.statusChanged.emit(status);
  if (disposed) kernel.disposed.emit(undefined);
  const after = words();
  components.watch.stop();
  into.remove();
  return [before, after, kernel.statusChanged.slots.size + kernel.disposed.slots.size];
}"""


def check_kernel(page: Page) -> None:
    """Check that the end of the kernel is shown once, and other states are not."""
    for how in (["restarting", False], ["autorestarting", False], ["dead", True], ["", True]):
        assert page.evaluate(KERNEL, how) == ["", "The kernel has stopped. Run the cell again.", 0]
    without = page.evaluate("""async () => {
      const into = document.body.appendChild(document.createElement("div"));
      into.className = "pipemagic-panel";
      await add("late", { kind: "events" }, into, { kernel: null });
      await new Promise((done) => setInterval(() => into.querySelector("[role=alert]") && done(), 10));
      return into.querySelectorAll(".pm-live").length;
    }""")
    assert without == 0, "a panel that was drawn after the end of its kernel counts as live"
    print("the end of the kernel", flush=True)


def main(chromium: str) -> None:
    with browser(chromium) as page:
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.route("http://localhost/", lambda route: route.fulfill(content_type="text/html", body="<!doctype html>"))
        for check in (
            check_table,
            check_focus,
            check_pages,
            check_cells,
            check_copies,
            check_texts,
            check_status,
            check_secret,
            check_countdown,
            check_events,
            check_kernel,
        ):
            page.goto("http://localhost/")  # the clipboard requires a secure origin
            page.evaluate(HARNESS, [SOURCES, STYLE])
            check(page)
        assert not errors, errors


if __name__ == "__main__":
    main(*sys.argv[1:])
