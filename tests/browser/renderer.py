"""Drives panel.js in chromium without a notebook: what it draws step by step, what it keeps, what it says.

Argument: the path of chromium. Prints one line for each thing that was checked.
"""

from __future__ import annotations

import base64
import random
import re
import sys
from collections.abc import Callable
from typing import Any

from lab import browser
from playwright.sync_api import Page, expect

from pipemagic.notebook.panels.ground.tree import Node, h
from pipemagic.notebook.panels.ground.widget import HERE, STYLE

SOURCE = base64.b64encode((HERE / "panel.js").read_bytes()).decode("ascii")

# A model as anywidget gives it, for as many panels as a test wants. `live` is what the frame around says.
HARNESS = """async (source) => {
  const make = (await import(`data:text/javascript;base64,${source}`)).default;
  window.panels = [];
  window.open_panel = (tree) => {
    const heard = {}, panel = { sent: [], gone: false };
    const model = {
      get: () => panel.tree,
      on: (name, react) => (heard[name] ??= new Set()).add(react),
      off: (name, react) => heard[name]?.delete(react),
      send: (message) => {
        if (panel.gone) throw new Error("Cannot send");
        panel.sent.push(message);
        if (!panel.slow) panel.tell({ heard: message.number, now: Date.now() / 1000 });
      },
    };
    panel.tree = tree;
    panel.tell = (message) => heard["msg:custom"]?.forEach((react) => react(message));
    panel.draw = (tree) => { panel.tree = tree; heard["change:tree"].forEach((react) => react()); };
    panel.cut = () => {
      panel.gone = true;
      heard["comm_live_update"].forEach((react) => react());
    };
    panel.elements = [];
    const widget = make();
    panel.show = () => {
      const element = document.body.appendChild(document.createElement("div"));
      panel.elements.push(element);
      return widget.render({ model, el: element });
    };
    widget.initialize({ model });
    panel.hide = panel.show();
    window.panels.push(panel);
    return window.panels.length - 1;
  };
  window.html = (number) => {
    const names = new Map();
    return window.panels[number].elements[0].querySelector(".pipemagic-panel").outerHTML
      .replace(/pipemagic-[a-z0-9]+-/g, "@").replace(/ data-words="[^"]*"| style="--left:[^"]*"/g, "");
  };
}"""

# What a panel is after a tree was drawn over the one before, and what a new panel of that tree is.
PATCHED_AND_FRESH = """([number, tree]) => {
  panels[number].draw(tree);
  const other = open_panel(tree), both = [html(number), html(other)];
  panels[other].hide();
  panels[other].elements[0].remove();
  return both;
}"""


class Drawn:
    """One panel on the page."""

    def __init__(self, page: Page, tree: Node) -> None:
        self.page = page
        self.number = page.evaluate("(tree) => open_panel(tree)", tree.wire())
        self.root = page.locator(".pipemagic-panel").nth(page.locator(".pipemagic-panel").count() - 1)

    def draw(self, tree: Node) -> None:
        self.page.evaluate("([number, tree]) => panels[number].draw(tree)", [self.number, tree.wire()])

    def do(self, code: str) -> Any:
        return self.page.evaluate(f"(number) => {{ const panel = panels[number]; return {code}; }}", self.number)

    @property
    def html(self) -> str:
        return str(self.page.evaluate("(number) => html(number)", self.number))

    @property
    def actions(self) -> list[Any]:
        """What was sent since the last look, without what belongs to the frame."""
        sent = self.do("panel.sent.splice(0)")
        return [(one["action"], one["values"]) for one in sent if "action" in one]

    @property
    def focused(self) -> str:
        return str(self.page.evaluate("document.activeElement.textContent || document.activeElement.name || ''"))


def random_tree(chance: random.Random, depth: int = 3) -> Node:
    """Give any tree: keys, texts, lists, fields and pictures, as views make them."""
    if depth == 0:
        kind = chance.choice(["button", "input", "select", "svg", "clock"])
        key = chance.choice([None, "a", "b", "c", "d"])
        if kind == "input":
            return h("input", type="text", name=f"field {key}", key=key and f"input {key}", id="@x",
                     disabled=chance.random() < 0.3, aria_label=chance.choice(["one", "two", "@three"]))  # fmt: skip
        if kind == "select":
            options = [h("option", one, value=one, key=one) for one in chance.sample("pqrs", 3)]
            return h("select", options, name="choice", key=key and f"select {key}")
        if kind == "svg":
            return h("svg", h("circle", h("title", "here"), r=chance.randint(1, 9), class_="pm-dot"), viewBox="0 0 9 9")
        if kind == "clock":
            return h("div", class_="pm-clock", until=2e9 + chance.randint(0, 9), of=5, key=key and f"clock {key}")
        return h("button", chance.choice(["Go", "Stop", "<b>&amp;"]), on={"click": ["go"]}, key=key and f"button {key}",
                 class_=chance.choice([None, "pm-main"]), disabled=chance.random() < 0.3)  # fmt: skip
    keys = chance.sample("abcdefgh", 8)
    children: list[Any] = []
    for place in range(chance.randint(0, 5)):
        kind = chance.random()
        if kind < 0.2:
            children.append(chance.choice(["some text", "other text", "é < & > \N{GRINNING FACE}", ""]))
        else:
            inside = random_tree(chance, depth - 1)
            tag = chance.choice(["div", "p", "section", "form"]) if depth > 1 else "span"
            children.append(h(tag, inside, key=keys[place] if chance.random() < 0.6 else None))
    return h("section", children, title=chance.choice([None, "x", '"quoted" <x>']))


def patching_gives_what_drawing_anew_gives(page: Page) -> str:
    chance = random.Random(20)
    panel = Drawn(page, random_tree(chance))
    for step in range(80):
        tree = random_tree(chance, chance.randint(1, 4))
        patched, fresh = page.evaluate(PATCHED_AND_FRESH, [panel.number, tree.wire()])
        assert patched == fresh, f"step {step}\n{patched}\n{fresh}"
    return "80 random trees, each drawn over the one before"


def what_comes_into_a_picture_is_of_a_picture(page: Page) -> str:
    def tree(*words: str) -> Node:
        marks = [h("g", h("polygon" if len(words) > 1 else "circle"), key=one) for one in words]
        return h("figure", h("svg", [h("text", one) for one in words], marks))

    panel = Drawn(page, tree("a"))
    panel.draw(tree("a", "b"))
    strangers = "[...panel.elements[0].querySelectorAll('svg *')].filter((one) => !(one instanceof SVGElement)).length"
    assert (panel.do(strangers), panel.root.locator("svg text").count()) == (0, 2)
    return "what is added to a picture is drawn"


def rows(names: str, *, fields: bool = True) -> Node:
    """Give a list of keyed rows, a button and a field in each."""

    def inside(one: str) -> list[Node]:
        button = h("button", one, on={"click": ["choose", one]}, key=f"button {one}")
        return [button, *([h("input", name=one, key=f"input {one}")] if fields else [])]

    return h("section", h("p", f"{len(names)} rows"), [h("div", inside(one), key=one) for one in names])


def focus_and_what_is_typed_stay(page: Page) -> str:
    panel = Drawn(page, rows("abc"))
    panel.root.locator("input[name=b]").fill("typed")
    for names in ("abcd", "bacd", "xbz", "b", "cab"):
        panel.draw(rows(names))
        assert panel.focused == "b", (names, panel.focused)
        expect(panel.root.locator("input[name=b]")).to_have_value("typed")
    panel.draw(rows("cab", fields=False))
    assert panel.focused == "b"  # the field was the last of all: the one before has the focus
    panel.draw(rows("cad", fields=False))
    assert panel.focused == "a"
    panel.draw(rows("cd", fields=False))
    assert panel.focused == "d"  # the next one
    return "focus and typed text stay when rows come, go and move"


def a_form_takes_the_focus_and_gives_it_back(page: Page) -> str:
    def tree(*, asking: bool) -> Node:
        ask = h("form", h("input", name="confirmation", focus=True), h("button", "Delete", type="submit"),
                on={"submit": ["delete"], "escape": ["cancel"]}, key="ask")  # fmt: skip
        opener = h("button", "Delete main", on={"click": ["ask"]}, key="opener")
        return h("section", opener, h("button", "Other", on={"click": ["other"]}), ask if asking else None)

    panel = Drawn(page, tree(asking=False))
    panel.root.get_by_role("button", name="Delete main").focus()
    page.keyboard.press("Enter")
    assert panel.actions == [(["ask"], {})]
    panel.draw(tree(asking=True))
    assert panel.focused == "confirmation"
    page.keyboard.type("main")
    page.keyboard.press("Enter")
    assert panel.actions == [(["delete"], {"confirmation": "main"})]
    page.keyboard.press("Escape")
    assert panel.actions == [(["cancel"], {"confirmation": "main"})]
    panel.draw(tree(asking=False))
    assert panel.focused == "Delete main"
    page.keyboard.press("Tab")
    assert panel.focused == "Other"
    return "Enter submits, Escape cancels, the focus comes and goes back"


def a_new_form_keeps_the_place_of_the_one_before(page: Page) -> str:
    def tree(made: int) -> Node:
        form = h("form", h("input", name="name"), h("button", "Create", type="submit"), key=f"create {made}")
        return h("section", h("button", "Before"), form, h("button", "Delete"))

    panel = Drawn(page, tree(0))
    panel.root.locator("input").fill("asia")
    panel.draw(tree(1))
    assert panel.focused == "name"
    expect(panel.root.locator("input")).to_have_value("")
    panel.root.get_by_role("button", name="Create").focus()
    panel.draw(tree(2))
    assert panel.focused == "Create"
    return "after a form was sent, the new one has the focus where the old one had it"


def nothing_takes_the_focus_from_elsewhere(page: Page) -> str:
    def tree(*, made: bool) -> Node:
        create = h("button", "Create", on={"click": ["create"]})
        return h("section", create, h("button", "Connect", focus=True, key="made") if made else None)

    panel, other = Drawn(page, tree(made=False)), Drawn(page, h("section", h("input", name="cell")))
    panel.root.get_by_role("button", name="Create").click()
    other.root.locator("input").focus()
    panel.draw(tree(made=True))
    assert panel.focused == "cell"
    for button_held in (True, False):  # some browsers give a button that is clicked no focus
        panel.draw(tree(made=False))
        page.evaluate("document.activeElement.blur()")
        if button_held:
            panel.root.get_by_role("button", name="Create").focus()
        panel.draw(tree(made=True))
        assert panel.focused == "Connect"
    return "what opens takes the focus from the panel, not from people who went on elsewhere"


def typing_is_looked_at_after_a_pause_and_never_after_the_form(page: Page) -> str:
    inside = [h("input", name="name", on={"input": ["typing"]}), h("button", "Create", type="submit")]
    panel = Drawn(page, h("section", h("form", inside, on={"submit": ["create"]}, key="1")))
    field = panel.root.locator("input")
    field.press_sequentially("main")
    page.wait_for_function("(number) => panels[number].sent.some((one) => one.action)", arg=panel.number)
    assert panel.actions == [(["typing"], {"name": "main"})]
    field.press_sequentially("2")
    field.press("Enter")
    page.wait_for_timeout(300)  # nothing is to come
    assert panel.actions == [(["create"], {"name": "main2"})]
    panel.draw(h("section", h("form", h("button", "Create", type="submit", disabled=True), h("input", name="name"),
                              on={"submit": ["create"]}, key="1")))  # fmt: skip
    panel.root.locator("input").press("Enter")
    panel.root.get_by_role("button").click(force=True)
    assert panel.actions == []  # while something is under way nothing is sent
    return "typing, Enter, and a button that is disabled"


def tabs_by_arrow_keys(page: Page) -> str:
    tabs = [h("button", one, role="tab", on={"click": ["tab", one]}, key=one, tabindex=-1) for one in ("A", "B", "C")]
    panel = Drawn(page, h("div", h("div", tabs, role="tablist")))
    panel.root.get_by_role("tab", name="A").focus()
    for key in ("ArrowRight", "End", "ArrowRight", "ArrowLeft", "Home"):
        page.keyboard.press(key)
    assert [action for action, _ in panel.actions] == [["tab", one] for one in "BCACA"]
    return "tabs by arrow keys, Home and End"


def what_is_typed_in_a_tab_stays(page: Page) -> str:
    def tree(front: str, rows: int = 40, made: int = 0) -> Node:
        name = h("input", name="name", on={"input": ["typing"]})
        inside = {
            "A": [h("form", name, h("button", "Create", type="submit"), on={"submit": ["create"]},
                    key=f"create {made}"),
                  h("div", [h("p", f"row {one}", key=f"{one}") for one in range(rows)], key="rows", class_="pm-grid",
                    style="height: 60px; overflow: auto"),
                  h("code", secret="new token"), h("button", show="new token"),
                  h("div", class_="pm-clock", until=2e9, of=5)],
            "B": [h("form", h("input", name="filter"), key="filter")],
        }  # fmt: skip
        tabs = [h("button", one, role="tab", on={"click": ["tab", one]}, key=one) for one in "AB"]
        return h("div", h("div", tabs, role="tablist"),
                 h("div", inside[front], role="tabpanel", key=f"front {front}", keep=True))  # fmt: skip

    panel = Drawn(page, tree("A"))
    name, wanted, rows = (panel.root.locator(one) for one in ("input[name=name]", "input[name=filter]", ".pm-grid"))
    expect(panel.root.locator("code")).to_have_text("not on this page: it is shown once")
    rows.evaluate("(element) => { element.scrollTop = 300; }")
    name.press_sequentially("half a na")
    panel.root.get_by_role("tab", name="B").click()
    panel.draw(tree("B"))
    assert panel.focused == "B"
    wanted.fill("tri")
    expect(name).to_have_count(0)
    # The check of what was typed came only after the tab was turned.
    page.wait_for_function("(number) => panels[number].sent.some((one) => one.action?.[0] === 'typing')",
                           arg=panel.number)  # fmt: skip
    assert panel.actions == [(["tab", "B"], {"name": "half a na"}), (["typing"], {"name": "half a na"})]
    panel.do("panel.tell({secret: 'new token', value: 's3cret-value'})")
    wanted.focus()
    panel.draw(tree("A", rows=41))
    expect(name).to_have_value("half a na")
    expect(wanted).to_have_count(0)
    expect(panel.root.locator("code")).to_have_text("\N{BULLET}" * 12)
    assert (rows.evaluate("(element) => element.scrollTop"), rows.locator("p").count()) == (300, 41)
    assert panel.root.evaluate("(root) => root.contains(document.activeElement)")  # people at a keyboard have a place
    panel.root.get_by_role("button", name="Show the token").click()
    expect(panel.root.locator("code")).to_have_text("s3cret-value")
    panel.draw(tree("B"))
    expect(wanted).to_have_value("tri")
    panel.draw(tree("A", made=1))
    expect(panel.root.locator("code")).to_have_text("\N{BULLET}" * 12)  # it was left
    expect(name).to_have_value("")  # its form was sent from another page: here is a new one
    return "what is typed in a tab stays when another one is put in front"


def creating(made: int, *, busy: bool = False, told: bool = False, key: str = "create") -> Node:
    """Give a form that gives way to an empty one when its work ends; what was made is shown below it."""
    fields = [
        h("input", type="text", name="name", on={"input": ["typing"]}), h("textarea", name="note"),
        h("select", [h("option", one, value=one, key=one) for one in "xyz"], name="group", value="x"),
        h("input", type="checkbox", name="reading"), h("input", type="password", name="secret"),
        h("input", type="text", name="confirmation"),
    ]  # fmt: skip
    form = h("form", fields, h("button", "Create", type="submit", disabled=busy), on={"submit": ["create"]},
             key=f"{key} {made}")  # fmt: skip
    connect = h("button", "Connect", on={"click": ["connect"]}, focus=True, key=f"made {made}")
    return h("section", form, connect if told and made else None)


def letters_that_are_typed_while_work_runs_stay(page: Page) -> str:
    panel = Drawn(page, creating(0))
    name = panel.root.locator("input[name=name]")
    name.fill("asia")
    page.keyboard.press("Enter")
    panel.draw(creating(0, busy=True))
    page.keyboard.type("europe")
    page.keyboard.press("ArrowLeft")
    panel.root.locator("textarea").evaluate("(field) => { field.value = 'for maps'; }")
    for one in ("secret", "confirmation"):
        panel.root.locator(f"input[name={one}]").evaluate("(field) => { field.value = 'asia'; }")
    panel.root.locator("select").evaluate("(field) => { field.value = 'z'; }")
    panel.root.locator("input[name=reading]").evaluate("(field) => { field.checked = true; }")
    panel.do("panel.sent.splice(0)")
    panel.draw(creating(1, told=True))
    expect(name).to_have_value("europe")
    assert panel.focused == "name"  # not at what was made: somebody types here
    page.keyboard.type("!")
    expect(name).to_have_value("europ!e")
    expect(panel.root.locator("textarea")).to_have_value("for maps")
    expect(panel.root.locator("select")).to_have_value("z")
    expect(panel.root.locator("input[name=reading]")).to_be_checked()
    for one in ("secret", "confirmation"):
        expect(panel.root.locator(f"input[name={one}]")).to_have_value("")  # these are typed for each one
    page.wait_for_function("(number) => panels[number].sent.some((one) => one.action)", arg=panel.number)
    assert [(action, values["name"]) for action, values in panel.actions] == [(["typing"], "europ!e")]
    return "letters that are typed while work runs are in the next form"


def what_was_sent_is_not_in_the_next_form(page: Page) -> str:
    panel = Drawn(page, creating(0))
    name = panel.root.locator("input[name=name]")

    def send(words: str, then: str, into: Node) -> None:
        name.fill(words)
        page.keyboard.press("Enter")
        for key in then.split():
            page.keyboard.press(key) if len(key) > 1 else page.keyboard.type(key)
        panel.draw(into)

    send("db-1", "", creating(1))
    expect(name).to_have_value("")
    send("db-1", "0", creating(2))
    expect(name).to_have_value("0")
    send("db-1", "Control+a d b - 1 0", creating(3))  # it was written over, with a name that begins the same
    expect(name).to_have_value("db-10")
    send("db-1", "Home x", creating(4))
    expect(name).to_have_value("xdb-1")
    send("db-1", "Backspace Backspace", creating(5))
    expect(name).to_have_value("db")
    send("db-1", "Control+a Delete", creating(6))
    expect(name).to_have_value("")
    send("db-1", "2", creating(7, key="add"))  # another form, not the next one
    expect(name).to_have_value("")
    send("db-1", "2", h("section"))  # cancelled
    panel.draw(creating(8, key="add"))
    expect(name).to_have_value("")
    name.fill("half")  # never sent
    panel.draw(creating(9, key="add"))
    expect(name).to_have_value("")
    return "only what was typed since a form was sent is in the next one"


def what_people_wrote_or_chose_is_theirs(page: Page) -> str:
    def tree(applied: str, *groups: str) -> Node:
        listed = h("select", [h("option", one, value=one, key=one) for one in groups], name="group")
        where = h("input", type="text", name="where", value=applied)
        return h("form", where, listed, h("button", "Apply", type="submit"), on={"submit": ["apply"]}, key="where")

    panel = Drawn(page, tree("", "edge", "us"))
    where, group = panel.root.locator("input"), panel.root.locator("select")
    where.fill("a > 1")
    page.keyboard.press("Enter")
    page.keyboard.type(" AND b")
    panel.draw(tree("a > 1", "asia", "edge", "us"))  # the answer comes while somebody writes on
    expect(where).to_have_value("a > 1 AND b")
    expect(group).to_have_value("edge")  # the first one before; nobody chose the new one
    group.select_option("us")
    page.keyboard.press("Enter")
    panel.draw(tree("a > 1 AND b", "us", "asia", "edge"))
    expect(group).to_have_value("us")
    panel.draw(tree("a > 1 AND b", "asia", "edge", "europe", "us"))
    expect(group).to_have_value("us")
    panel.draw(tree("a > 1 AND b", "asia", "edge"))
    expect(group).to_have_value("asia")  # what was chosen is gone
    where.fill("a > 2")
    page.keyboard.press("Enter")
    panel.draw(tree("a > 2", "asia"))
    panel.draw(tree("", "asia"))  # taken off
    expect(where).to_have_value("")
    panel.draw(tree("b > 2", "asia"))
    expect(where).to_have_value("b > 2")
    return "what is applied and what is offered change nothing that somebody wrote or chose"


def letters_go_on_where_a_button_took_the_focus(page: Page) -> str:
    panel = Drawn(page, creating(0))
    name = panel.root.locator("input[name=name]")
    name.fill("asia")
    page.keyboard.press("Enter")
    panel.draw(creating(1, told=True))
    assert panel.focused == "Connect"
    panel.draw(creating(1, told=True, busy=True))
    page.keyboard.type("europe")
    assert panel.focused == "name"
    expect(name).to_have_value("europe")
    panel.draw(creating(1, told=True))
    panel.root.get_by_role("button", name="Create").click()
    panel.draw(creating(2, told=True))
    assert panel.focused == "Connect"
    page.keyboard.press("x")  # a button had the focus before: nothing was being written
    assert panel.focused == "Connect"
    expect(name).to_have_value("")
    panel.do("panel.sent.splice(0)")
    page.keyboard.press("Enter")
    assert [action for action, _ in panel.actions] == [["connect"]]
    return "letters go into the field from which a button took the focus"


def secrets_are_dots_and_are_copied(page: Page) -> str:
    token = h("section", h("code", secret="new token"), h("button", "Copy", copy={"secret": "new token"}))
    panel = Drawn(page, token)
    code, copy = panel.root.locator("code"), panel.root.get_by_role("button", name="Copy")
    expect(code).to_have_text("not on this page: it is shown once")
    copy.click()
    expect(page.get_by_text("This page does not hold it: it was shown once")).to_have_count(1)
    panel.do("panel.tell({secret: 'new token', value: 's3cret-value'})")
    expect(code).to_have_text("\N{BULLET}" * 12)
    copy.click()
    expect(page.get_by_text("Copied", exact=True)).to_have_count(1)
    target = Drawn(page, h("section", h("input", name="pasted")))
    target.root.locator("input").focus()
    page.keyboard.press("Control+v")
    expect(target.root.locator("input")).to_have_value("s3cret-value")
    target.root.locator("input").fill("")
    assert "s3cret" not in page.content()
    panel.do("panel.tell({secret: 'new token', value: null})")
    expect(code).to_have_text("not on this page: it is shown once")
    return "a secret is copied, and is nowhere on the page"


def secrets_are_shown_while_people_want_to_see_them(page: Page) -> str:
    def tree(name: str, *more: Node) -> Node:
        value = [h("code", secret=name), h("button", show=name), h("button", "Copy", copy={"secret": name})]
        return h("section", h("div", value, key=name), more)

    panel = Drawn(page, tree("token 1"))
    code = panel.root.locator("code")
    show, hide = (panel.root.get_by_role("button", name=f"{word} the token", exact=True) for word in ("Show", "Hide"))
    show.click()
    expect(page.get_by_text("This page does not hold it: it was shown once")).to_have_count(1)
    panel.do("panel.tell({secret: 'token 1', value: 'first-value'})")
    expect(code).to_have_text("\N{BULLET}" * 12)  # it came after the button was pressed for nothing
    expect(code).to_have_attribute("aria-label", "The token, hidden")
    show.focus()
    page.keyboard.press("Enter")
    expect(code).to_have_text("first-value")
    expect(code).not_to_have_attribute("aria-label", re.compile(""))
    expect(hide).to_be_focused()
    expect(hide).to_have_text("Hide")
    panel.draw(tree("token 1", h("p", "something else changed")))
    expect(code).to_have_text("first-value")
    expect(hide).to_be_focused()
    panel.do("panel.show()")  # another page of the same panel
    expect(page.get_by_text("first-value")).to_have_count(1)
    hide.click()
    assert "first-value" not in page.content()
    show.click()
    panel.draw(h("section", h("p", "another tab")))
    assert "first-value" not in page.content()
    panel.draw(tree("token 1"))
    expect(code).to_have_text("\N{BULLET}" * 12)
    show.click()
    expect(code).to_have_text("first-value")
    panel.draw(tree("token 2"))
    panel.do("panel.tell({secret: 'token 2', value: 'second-value'})")
    expect(code).to_have_text("\N{BULLET}" * 12)
    show.click()
    expect(code).to_have_text("second-value")
    panel.do("panel.tell({secret: 'token 2', value: null})")
    expect(code).to_have_text("not on this page: it is shown once")
    panel.do("panel.tell({secret: 'token 2', value: 'second-value'})")
    expect(code).to_have_text("\N{BULLET}" * 12)
    show.click()
    panel.do("panel.cut()")
    expect(code).to_have_text("not on this page: it is shown once")
    assert not any("value" in str(one) for one in panel.do("panel.sent"))  # nothing of it goes to the kernel
    return "a secret is shown and hidden on one page, and is gone with its box, its panel and its kernel"


def a_clock_follows_the_kernel(page: Page) -> str:
    # The kernel's clock is an hour behind the page's.
    now = page.evaluate("Date.now() / 1000") - 3600
    panel = Drawn(page, h("section", h("div", class_="pm-clock", until=now + 4, of=5)))
    panel.do(f"panel.tell({{now: {now}}})")
    page.wait_for_function("document.querySelector('.pm-clock').dataset.words.startsWith('3.')")
    return "a clock runs down by the kernel's time"


def an_age_grows_by_the_kernels_time(page: Page) -> str:
    now = page.evaluate("Date.now() / 1000") - 3600
    ages = {"2 min 7 s": 127.5, "1 h 1 min": 3670, "0 s": -5}
    drawn = [h("span", class_="pm-age", since=now - age, key=words) for words, age in ages.items()]
    panel = Drawn(page, h("section", drawn))
    panel.do(f"panel.tell({{now: {now}}})")
    page.wait_for_function("document.querySelector('.pm-age').textContent.startsWith('2 min ')")
    shown = panel.root.locator(".pm-age").all_inner_texts()
    assert shown[1:] == ["1 h 1 min", "0 s"], shown
    page.wait_for_function("(was) => document.querySelector('.pm-age').textContent !== was", arg=shown[0])
    return "an age grows by the kernel's time"


def a_slow_and_a_dead_kernel(page: Page) -> str:
    panel = Drawn(page, h("section", h("button", "Go", on={"click": ["go"]}), h("div", class_="pm-busy")))
    panel.do("panel.slow = true")
    panel.root.get_by_role("button").click()
    expect(page.get_by_text("The kernel is busy with a cell: this waits for its end.")).to_be_visible()
    panel.do("panel.sent.forEach((one) => panel.tell({heard: one.number}))")
    expect(page.get_by_text("The kernel is busy with a cell: this waits for its end.")).to_have_count(0)
    panel.do("panel.cut()")
    gone = page.get_by_role("alert").get_by_text("The kernel of this panel is gone: run the cell again.")
    expect(gone).to_be_visible()
    other = Drawn(page, h("section", h("button", "Go", on={"click": ["go"]})))
    other.do("panel.gone = true")  # it died without a word
    other.root.get_by_role("button").click()
    expect(gone).to_have_count(2)
    return "a kernel that is busy, and one that is gone"


def two_views_of_one_panel(page: Page) -> str:
    panel = Drawn(page, rows("ab"))
    assert [one["seen"] for one in panel.do("panel.sent.splice(0)")] == [True]
    panel.do("void (panel.second = panel.show())")
    panel.draw(rows("abc"))
    expect(panel.root.get_by_text("3 rows")).to_be_visible()
    assert panel.do("panel.elements.map((one) => one.querySelectorAll('input').length)") == [3, 3]
    panel.do("panel.hide()")
    assert panel.do("panel.sent") == []
    panel.do("panel.tell({ anybody: true })")  # the page of another window was the last one there
    assert [one["seen"] for one in panel.do("panel.sent.splice(0)")] == [True]
    panel.do("panel.second()")
    assert [one["seen"] for one in panel.do("panel.sent.splice(0)")] == [False]
    panel.do("panel.tell({ anybody: true })")
    assert panel.do("panel.sent") == []
    return "two views of one panel"


CHECKS: list[Callable[[Page], str]] = [
    patching_gives_what_drawing_anew_gives, what_comes_into_a_picture_is_of_a_picture,
    focus_and_what_is_typed_stay, a_form_takes_the_focus_and_gives_it_back,
    a_new_form_keeps_the_place_of_the_one_before, nothing_takes_the_focus_from_elsewhere,
    typing_is_looked_at_after_a_pause_and_never_after_the_form, tabs_by_arrow_keys,
    what_is_typed_in_a_tab_stays, letters_that_are_typed_while_work_runs_stay, what_was_sent_is_not_in_the_next_form,
    what_people_wrote_or_chose_is_theirs, letters_go_on_where_a_button_took_the_focus, secrets_are_dots_and_are_copied,
    secrets_are_shown_while_people_want_to_see_them,
    a_clock_follows_the_kernel, an_age_grows_by_the_kernels_time, a_slow_and_a_dead_kernel, two_views_of_one_panel,
]  # fmt: skip


def main(chromium: str) -> None:
    with browser(chromium) as page:
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        for check in CHECKS:
            page.goto("about:blank")
            page.set_content(f"<style>{STYLE}</style>")
            page.evaluate(HARNESS, SOURCE)
            print(check(page), flush=True)
        assert not errors, errors


if __name__ == "__main__":
    main(sys.argv[1])
