"""The usage of the organization beside its quotas, and its overages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import ipywidgets

from pipemagic.errors import ConnectError, PipemagicError, UnsupportedError
from pipemagic.notebook import outcomes
from pipemagic.notebook.panels.components import CopyText, Status, Table
from pipemagic.notebook.panels.forms import Choice, Field, Line, PanelPart, button, column, row, show
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.tasks import Action, LatestTask
from pipemagic.text import format_size, plural

if TYPE_CHECKING:
    from pipemagic.management_api import models
    from pipemagic.session.organization import Organization

T = TypeVar("T")

FIGURES = {
    "rows_read": ("row read", "rows read"), "rows_written": ("row written", "rows written"),
    "storage_bytes": ("stored", "stored"), "bytes_synced": ("synced", "synced"),
    "databases": ("database", "databases"), "groups": ("group", "groups"),
    "locations": ("location of a group", "locations of groups"),
}  # fmt: skip
"""The figures of `management_api.models.Usage` in order, with their units: singular, plural."""

QUERY_COLUMNS = [
    {"title": "Statement", "kind": "code"},
    *({"title": title, "kind": "number", "sortable": True}
      for title in ("Runs", "Mean ms", "Rows read", "Rows written")),
]  # fmt: skip

LONGEST = 200
"""Characters of a statement that the table shows."""

NEARLY = 0.8
"""The share of a quota at which its bar shows a warning."""

ON = (
    "statements still run after a quota of the plan is used up, and a paid service bills the excess. Hosted services "
    "require a payment method; switching overages off later does not cancel charges already incurred."
)
OFF = (
    "after a quota of the plan is used up, statements fail with the code BLOCKED until the next month begins (UTC). "
    "Nothing is billed beyond the plan."
)


@dataclass
class OrganizationDetails:
    """What a service reports about an organization."""

    organization: Organization
    settings: models.Organization | None = None
    plan: str = ""
    quotas: Mapping[str, int] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)
    unsupported: list[str] = field(default_factory=list)
    """Descriptions of what the service does not report."""
    error: PipemagicError | None = None
    """The first error of a request on which no other depends."""

    def request(self, send: Callable[[], T], what: str) -> T | None:
        """Return the response, or None after recording that it is unsupported or failed."""
        try:
            return send()
        except UnsupportedError:
            self.unsupported.append(what)
        except ConnectError:
            raise
        except PipemagicError as error:
            self.error = self.error or error
        return None


def read_details(organization: Organization) -> OrganizationDetails:
    """Read all details. Raise an error only if the settings cannot be read."""
    details = OrganizationDetails(organization)
    details.settings = details.request(organization.settings, "its settings")
    if details.error:
        raise details.error
    details.plan, details.quotas = details.request(organization.quotas, "plan and quotas") or ("", {})
    usage = details.request(organization.usage, "usage")
    details.used = usage.figures if usage else {}
    return details


class UsageLine(ipywidgets.VBox):
    """A usage figure as text, with a bar if it has a quota."""

    def __init__(self) -> None:
        self.words, self.bar = Line(), ipywidgets.FloatProgress(max=1.0)
        super().__init__([self.words, self.bar])

    def update(self, words: str, used: int, quota: int) -> None:
        """Show a figure; a quota of 0 means no quota."""
        is_full = 0 < quota <= used
        self.words.set_text(words, "pm-error" if is_full else "")
        show(self.bar, quota > 0)
        self.bar.value = min(1.0, used / max(1, quota))
        self.bar.bar_style = "danger" if is_full else "warning" if used >= NEARLY * quota else ""


class OrganizationUsage(PanelPart):
    """The usage of the organization, a bar for each quota, and a switch for overages."""

    def __init__(self, state: OrganizationState, changed: Callable[[], None]) -> None:
        super().__init__(Action("overages", changed))
        self.state = state
        self.reading = LatestTask("usage", changed)
        self._details: OrganizationDetails | None = None
        self._revision, self._shown_for = 0, state.identity
        self._queries: Sequence[models.TopQuery] = ()
        self.who = Line()
        self.blocked = Line(class_="pm-error")
        self.reading_status = Status()
        self.figures = {name: UsageLine() for name in FIGURES}
        self.plan_line, self.unsupported_line = Line(), Line(class_="pm-faint")
        self.usage_magic = CopyText(label="the magic that shows the usage")
        self.usage_part = column(
            Line("Used in this calendar month (UTC)", tag="h3"), self.plan_line, *self.figures.values(),
            self.usage_magic, self.unsupported_line,
        )  # fmt: skip
        self.queries = LatestTask("statements", changed)
        self.database = Field("Database", Choice())
        self.show_queries = button("Show statements", self._read_queries)
        self.queries_status, self.query_table = Status(), Table(columns=QUERY_COLUMNS, label="Statements", stacks=True)
        heading = Line("Slowest and most frequent statements of the last day", tag="h3")
        self.queries_part = column(
            heading, row(self.database, self.show_queries), self.queries_status, self.query_table
        )  # fmt: skip
        self.overages = self.control("Switch overages on", self.switch_overages)
        self.overages_now, self.overages_else = Line(), Line(class_="pm-faint")
        heading = Line("Overages", tag="h3")
        self.overages_part = column(heading, self.overages, self.overages_now, self.overages_else)
        self.children = [
            self.who, self.blocked, self.reading_status, self.usage_part, self.queries_part, self.overages_part,
            self.status,
        ]  # fmt: skip

    @property
    def details(self) -> OrganizationDetails | None:
        """The details of the organization that is shown, or None before they are read."""
        return self._details if self._details and self.state.shows(self._details.organization) else None

    def update(self) -> None:
        """Update the widgets."""
        if self._shown_for != self.state.identity:
            self._shown_for = self.state.identity
            self._queries = ()
            self.action.clear()
        if self._revision != self.state.revision:
            self._revision = self.state.revision
            self._read()
        details = self.details
        settings = details.settings if details else None
        self.who.set_text(_who(*self.state.identity, settings))
        self.blocked.set_text(_blocked(settings) if settings else "")
        self.reading_status.update(self.reading)
        databases = sorted(database.name for database in self.state.databases)
        self.database.set_options(databases)
        show(self.queries_part, bool(databases))
        self.queries_status.update(self.queries)
        show(self.query_table, bool(self._queries))
        self.query_table.show([
            {"key": str(number), "cells": _cells(query)} for number, query in enumerate(self._queries)
        ])  # fmt: skip
        show(self.usage_part, details is not None)
        show(self.overages_part, details is not None)
        if details is not None:
            self._update_usage(details)
            self._update_overages(settings.overages if settings else None)
        self.enable_controls()
        self.update_forms()

    def _update_usage(self, details: OrganizationDetails) -> None:
        self.plan_line.set_text(f"Plan: {details.plan}." if details.plan else "")
        for name, line in self.figures.items():
            show(line, name in details.used)
            used, quota = details.used.get(name, 0), details.quotas.get(name, 0)
            line.update(describe_usage(name, used, quota, quotas_known=bool(details.plan)), used, quota)
        self.usage_magic.text = "%pipedb usage" if details.used else ""
        missing = _joined(details.unsupported)
        self.unsupported_line.set_text(f"This service does not report {missing}." if missing else "")

    def _update_overages(self, on: bool | None) -> None:
        self.overages.description = f"Switch overages {'off' if on else 'on'}"
        now = f"Now on: {ON}" if on else f"Now off: {OFF}"
        self.overages_now.set_text("This service does not report whether overages are on." if on is None else now)
        self.overages_else.set_text(f"When off: {OFF}" if on else f"When on: {ON}")

    def _read(self) -> None:
        organization = self.state.organization

        def work() -> str:
            self._details = details = read_details(organization)
            if details.error is not None:
                raise details.error
            return ""

        self.reading.start("Loading ...", work)

    def _read_queries(self) -> None:
        organization, name = self.state.organization, self.database.widget.value

        def apply(queries: Sequence[models.TopQuery]) -> str:
            self._queries = queries if self.state.shows(organization) else ()
            return f"{plural(len(queries), 'statement')} of {name}."

        self.queries.start("Loading ...", partial(organization.top_queries, name), apply)

    def switch_overages(self) -> None:
        """Switch overages on, or off."""
        organization, settings = self.state.organization, self.details.settings if self.details else None
        wanted = "off" if settings and settings.overages else "on"
        work = partial(outcomes.set_overages, organization, on=wanted == "on")
        self.run(f"Switching overages {wanted} ...", f"overages {wanted}", work)


def _cells(query: models.TopQuery) -> list[Any]:
    """Return the cells of a statement in the table."""
    figures = (
        (query.runs, ","), (query.mean_duration_ms, ",.1f"), (query.rows_read, ","), (query.rows_written, ",")
    )  # fmt: skip
    return [
        query.query if len(query.query) <= LONGEST else f"{query.query[:LONGEST]} ...",
        *({"text": "" if value is None else format(value, style), "sort": value or 0} for value, style in figures),
    ]


def describe_usage(name: str, used: int, quota: int, *, quotas_known: bool = True) -> str:
    """Return a usage figure as text: ``12,345 of 1,000,000,000 rows read (0.0%)``."""
    singular, several = FIGURES[name]
    if not quota:
        return f"{_amount(name, used)} {singular if used == 1 else several}{', no limit' if quotas_known else ''}"
    state = ", over the quota" if used > quota else ", used up" if used == quota else ""
    what = singular if quota == 1 else several
    return f"{_amount(name, used)} of {_amount(name, quota)} {what} ({_percent(used, quota)}%{state})"


def _amount(name: str, value: int) -> str:
    return format_size(value) if "bytes" in name else f"{value:,}"


def _percent(used: int, quota: int) -> str:
    tenths = 1000 * used // quota if used < quota else round(1000 * used / quota)
    return "<0.1" if used and not tenths else f"{tenths / 10:,.1f}"


def _who(slug: str, where: str, settings: models.Organization | None) -> str:
    name = f"\u201c{settings.name}\u201d" if settings and settings.name not in ("", slug) else ""
    kind = {"personal": "a personal account", "team": "a team"}.get(settings.type if settings else "", "")
    return f"{slug} \u2013 {', '.join(filter(None, [name, kind, where]))}"


def _blocked(settings: models.Organization) -> str:
    if not (settings.blocked_reads or settings.blocked_writes):
        return ""
    both = settings.blocked_reads and settings.blocked_writes
    what = "Reading and writing are" if both else "Reading is" if settings.blocked_reads else "Writing is"
    return (
        f"{what} blocked: a quota of this month is used up, so such statements fail with the code BLOCKED until the "
        "month ends, the quota is raised, or overages are switched on."
    )


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
