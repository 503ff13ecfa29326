"""The forms of the Groups panel: create, add a location, remove one, delete."""

from __future__ import annotations

from collections.abc import Sequence

from pipemagic.counts import plural
from pipemagic.management_api.models import Group, Location
from pipemagic.notebook.panels.ground.parts import button, choice, confirm, field, submit
from pipemagic.notebook.panels.ground.tree import Node, h
from pipemagic.notebook.panels.groups.table import databases_in, listed, place_of
from pipemagic.notebook.panels.holdings import Holdings


def create_form(has: Holdings, wrong: str, number: int, *, busy: bool) -> Node:
    """Draw the form for a new group; another ``number`` makes it an empty one."""
    return h(
        "form", h("h3", "Create a group"),
        h("div",
          field("Group name", "name", error=wrong, on={"input": ["typing"]}),
          choice("Primary location", "location", _options(has, has.locations)),
          submit("Create group", disabled=busy), class_="pm-row"),
        on={"submit": ["create"]}, key=f"create {number}",
    )  # fmt: skip


def add_form(has: Holdings, group: Group) -> Node:
    """Draw the form for one more location of a group, chosen from those that it has not."""
    places = [one for one in has.locations if one.code not in group.locations]
    on, key = {"submit": ["add", group.name], "escape": ["cancel"]}, f"add {group.name}"
    cancel = button("Cancel", ("cancel",))
    if not places:
        words = h("p", f"Group {group.name} is at every location that there is.")
        return h("div", words, cancel, class_="pm-form", key=key)
    count = plural(len(databases_in(has, group)), "database")
    return h(
        "form", h("p", f"Every database of {group.name} ({count} now) gets a replica there, which answers reads."),
        h("div",
          choice(f"New location of {group.name}", "location", _options(has, places), focus=True),
          submit("Add location"), cancel, class_="pm-row"),
        class_="pm-form", key=key, on=on,
    )  # fmt: skip


def remove_form(has: Holdings, group: Group, code: str, *, busy: bool) -> Node:
    """Ask whether a location is really to be removed."""
    words = (
        f"The replicas of {group.name} at {place_of(has, code)} will be deleted; its databases stay at "
        f"{', '.join(one for one in group.locations if one != code)}."
    )
    sure = h("button", f"Remove {code}", type="submit", class_="pm-danger", focus=True, disabled=busy)
    return h(
        "form", h("p", words), h("div", sure, button("Cancel", ("cancel",)), class_="pm-row"),
        class_="pm-ask", key=f"remove {group.name} {code}",
        on={"submit": ["remove", group.name, code], "escape": ["cancel"]},
    )  # fmt: skip


def delete_form(has: Holdings, group: Group, connections: Sequence[str], *, busy: bool) -> Node:
    """Ask to type the name of a group that is to be deleted, and say what goes with it."""
    names = databases_in(has, group)
    words = f"Group {group.name} has no databases; only the group will be gone."
    if names:
        words = f"{plural(len(names), 'database')} with all data will be gone for good: {listed(names)}."
    if connections:
        words += f" Connected now, and closed then: {listed(connections)}."
    return confirm("delete the group", group.name, words, "delete", disabled=busy)


def _options(has: Holdings, places: Sequence[Location]) -> list[tuple[str, str]]:
    """Give locations to choose from, the closest one first."""
    ordered = sorted(places, key=lambda one: one.code != has.here)
    return [(one.code, place_of(has, one.code) + (", closest" if one.code == has.here else "")) for one in ordered]
