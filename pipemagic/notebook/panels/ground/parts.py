"""Pieces that the views of several panels are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pipemagic.notebook.panels.ground.tree import Action, Child, Node, h

if TYPE_CHECKING:
    from pipemagic.notebook.panels.ground.work import WorkingModel
    from pipemagic.notebook.panels.holdings import Holdings


def section(title: str, *inside: Child, tools: Child = None) -> Node:
    """Give the frame of a panel: its heading, what acts on the whole of it, its content."""
    head = h("div", h("h2", title), h("div", tools, class_="pm-row", live=True) if tools else None, class_="pm-head")
    return h("section", head, *inside, aria_label=title)


def state(model: WorkingModel, *, otherwise: str = "") -> Node:
    """Tell what a model does, or how its last work ended: message, or error with its code and hint; and the magic."""
    words = model.busy or model.message or ("" if model.error else otherwise)
    said = h("div", words, role="status", class_="pm-state pm-busy" if model.busy else "pm-state", live=True)
    return h("div", said, problem(model), magic(model.line) if model.line and not model.busy else None)


def problem(model: WorkingModel) -> Node | None:
    """Show the error of a model's last work, if it failed."""
    if not model.error:
        return None
    code = h("span", f"{model.code}: ", class_="pm-code") if model.code else None
    hint = h("p", model.hint, class_="pm-faint") if model.hint else None
    return h("div", h("p", code, model.error, class_="pm-error"), hint, role="alert", class_="pm-problem")


def not_connected(holdings: Holdings) -> Node:
    """Say what to do before an organization is in use; `standing.InOrganization` does what its button asks for."""
    return h(
        "div",
        empty("No organization is in use yet, so nothing was asked and no service was started."),
        empty("Connect here or with %pipedb connect: either finds the embedded service, or starts it."),
        h("p", button("Connect", ("connect-organization",), kind="main", disabled=bool(holdings.busy))),
        state(holdings),
    )


def magic(line: str) -> Node:
    """Show the magic that does the same, and a button that copies it."""
    copy = h("button", "Copy", copy=line, type="button", class_="pm-plain", aria_label=f"Copy {line}")
    return h("div", h("code", line), copy, class_="pm-magic", live=True)


def button(
    words: str, action: Action, *, kind: str = "", label: str | None = None, disabled: bool = False, **more: Any
) -> Node:
    """Give a button. ``kind`` is main, danger, plain or ''; ``label`` says more than its words, for those who hear."""
    return h(
        "button", words, type="button", class_=f"pm-{kind}" if kind else None, aria_label=label,
        on={"click": list(action)}, disabled=disabled, key=f"button {' '.join(action)}", **more,
    )  # fmt: skip


def submit(words: str, *, kind: str = "main", disabled: bool = False) -> Node:
    """Give the button of a form, which Enter in one of its fields presses too."""
    return h("button", words, type="submit", class_=f"pm-{kind}", disabled=disabled)


def field(label: str, name: str, *, value: str = "", error: str = "", note: str = "", **more: Any) -> Node:
    """Give a text field with its label; ``error`` tells what is wrong with what was typed, ``note`` what may be."""
    about = f"@{name}-about"
    given = h(
        "input", type="text", name=name, id=f"@{name}", value=value, autocomplete="off", spellcheck="false",
        aria_invalid="true" if error else None, aria_describedby=about if error or note else None, **more,
    )  # fmt: skip
    return _field(label, name, given, error, note)


def choice(
    label: str, name: str, options: Sequence[tuple[str, str]], *, value: str | None = None, note: str = "", **more: Any
) -> Node:
    """Give a list to choose from: (value, words) each.

    Without ``value`` the page begins at the first one, and then leaves the choice to people: options that come before
    it later do not move it.
    """
    items = [h("option", words, value=one, key=f"option {one}") for one, words in options]
    given = h(
        "select", items, name=name, id=f"@{name}", value=value,
        aria_describedby=f"@{name}-about" if note else None, **more,
    )  # fmt: skip
    return _field(label, name, given, "", note)


def check(label: str, name: str, *, checked: bool = False, **more: Any) -> Node:
    """Give a checkbox."""
    box = h("input", type="checkbox", name=name, checked=checked, **more)
    return h("label", box, label, class_="pm-check")


def confirm(what: str, name: str, words: Child, action: str, *, disabled: bool = False) -> Node:
    """Ask to type the name of what will be gone; the form calls ``action`` or ``cancel`` of the view.

    ``action`` gets the name, and what was typed as ``confirmation``: the model compares them.
    """
    return h(
        "form", h("p", words),
        h("div",
          field(f"Type {name} to {what}", "confirmation", focus=True),
          submit(what.capitalize(), kind="danger", disabled=disabled),
          button("Cancel", ("cancel",)), class_="pm-row"),
        class_="pm-ask", key=f"{action} {name}", on={"submit": [action, name], "escape": ["cancel"]},
    )  # fmt: skip


def table(headings: Sequence[Child], rows: Iterable[Node], *, label: str) -> Node:
    """Give a table that scrolls by itself when it is long; ``rows`` are made by `row`."""
    head = h("tr", [one if isinstance(one, Node) else h("th", one, scope="col") for one in headings])
    body = h("tbody", rows)
    return h("div", h("table", h("thead", head), body, aria_label=label), class_="pm-scroll", tabindex=0)


def row(key: str, *cells: Child, current: bool = False) -> Node:
    """Give a row; each cell is a `td` already, or what one holds."""
    wrapped = [one if isinstance(one, Node) and one.tag in ("td", "th") else h("td", one) for one in cells]
    return h("tr", wrapped, key=key, class_="pm-current" if current else None)


def empty(words: str, *more: Child) -> Node:
    """Say that there is nothing yet, and what to do about that."""
    return h("p", words, *more, class_="pm-faint")


def clock(until: float, of: float, label: str) -> Node:
    """Give a bar that runs down by itself to ``until`` (Unix seconds), of a window of ``of`` seconds."""
    return h("div", class_="pm-clock", role="timer", aria_label=label, until=until, of=of, live=True)


def age(since: float) -> Node:
    """Give the words for how long ago a moment was (Unix seconds), which the page keeps up by itself."""
    return h("span", class_="pm-age", since=since, live=True)


def _field(label: str, name: str, given: Node, error: str, note: str) -> Node:
    about = h("small", error or note, id=f"@{name}-about", class_="pm-error" if error else "pm-faint")
    return h("div", h("label", label, for_=f"@{name}"), given, about if error or note else None, class_="pm-field")
