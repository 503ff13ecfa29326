"""The Organization panel: usage and quotas, overages, switching to another organization."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import ipywidgets

from pipemagic.errors import ConnectError, PipemagicError, SessionError, UnsupportedError
from pipemagic.hrana.stream import Tx
from pipemagic.notebook import outcomes
from pipemagic.notebook.panels.base import Panel
from pipemagic.notebook.panels.components import CopyText, Status
from pipemagic.notebook.panels.forms import Field, Form, Line, column, show
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.static_html import Block
from pipemagic.notebook.panels.tasks import LatestTask
from pipemagic.text import format_size, word

if TYPE_CHECKING:
    from pipemagic.management_api import models
    from pipemagic.session import Connection
    from pipemagic.session.organization import Organization

T = TypeVar("T")

FIGURES = {
    "rows_read": ("row read", "rows read"), "rows_written": ("row written", "rows written"),
    "storage_bytes": ("stored", "stored"), "bytes_synced": ("synced", "synced"),
    "databases": ("database", "databases"), "groups": ("group", "groups"),
    "locations": ("location of a group", "locations of groups"),
}  # fmt: skip
"""The figures of `management_api.models.Usage` in order, with their units: singular, plural."""

NEARLY = 0.8
"""The share of a quota at which its bar shows a warning."""

ON = (
    "statements run when a quota of the plan is used up, and a service that charges bills what exceeds it. Hosted "
    "services require a payment method; switching overages off later does not cancel charges already incurred."
)
OFF = (
    "when a quota of the plan is used up, statements fail with the code BLOCKED until the next month begins (UTC). "
    "Nothing is billed beyond the plan."
)
STAY = (
    "Panels and %pipedb commands then use it. Connections and open transactions are kept: %%sql uses the current "
    "connection."
)


@dataclass
class OrganizationDetails:
    """What a service reports about an organization."""

    organization: Organization
    settings: models.Organization | None = None
    organizations: Sequence[models.Organization] = ()
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
    details.organizations = details.request(organization.organizations, "the list of organizations") or ()
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


class OrganizationPanel(Panel):
    """Name and kind, usage bars, overages, and a form that switches to another organization."""

    title = "Organization"

    def __init__(self, state: OrganizationState) -> None:
        super().__init__(state)
        self.reading = LatestTask("usage", self.changed)
        self.tasks.append(self.reading)
        self._details: OrganizationDetails | None = None
        self._revision = 0

    def reset(self) -> None:
        """Keep the message of the switch to the organization."""

    @property
    def ready(self) -> bool:
        """Whether an organization is in use, even if it cannot be listed: the panel can switch to another."""
        return any(self.state.identity)

    @property
    def details(self) -> OrganizationDetails | None:
        """The details of the organization that is shown, or None before they are read."""
        return self._details if self._details and self.state.shows(self._details.organization) else None

    def build(self) -> Sequence[ipywidgets.Widget]:
        """Create the widgets."""
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
        self.overages = self.control("Switch overages on", self.switch_overages)
        self.overages_now, self.overages_else = Line(), Line(class_="pm-faint")
        heading = Line("Overages", tag="h3")
        self.overages_part = column(heading, self.overages, self.overages_now, self.overages_else)
        self.others = Field("Organization", ipywidgets.Dropdown())
        self.slug = Field("Slug of the organization", ipywidgets.Text())
        fields = [self.others, self.slug]
        self.switch = Form(self, "Another organization", fields, "Switch", self.switch_organization)
        self.switch_part = column(self.switch, Line(STAY, "pm-faint"))
        self.only = Line("The account has no other organization.", "pm-faint")
        return [
            self.who, self.blocked, self.reading_status, self.usage_part, self.overages_part, self.switch_part,
            self.only, self.status,
        ]  # fmt: skip

    def update(self) -> None:
        """Update the widgets."""
        if self._revision != self.state.revision:
            self._revision = self.state.revision
            self._read()
        details = self.details
        settings = details.settings if details else None
        self.who.set_text(_who(*self.state.identity, settings))
        self.blocked.set_text(_blocked(settings) if settings else "")
        self.reading_status.update(self.reading)
        show(self.usage_part, details is not None)
        show(self.overages_part, details is not None)
        if details is not None:
            self._update_usage(details)
            self._update_overages(settings.overages if settings else None)
        self._update_others(details.organizations if details else ())

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

    def _update_others(self, organizations: Sequence[models.Organization]) -> None:
        others = [organization for organization in organizations if organization.slug != self.state.identity[0]]
        only = bool(organizations) and not others
        self.others.set_options((_name(organization), organization.slug) for organization in others)
        show(self.others, bool(others))
        show(self.slug, not organizations)
        show(self.switch_part, not only and (self.details is not None or self.reading.error is not None))
        show(self.only, only)

    def _read(self) -> None:
        organization = self.state.organization

        def work() -> str:
            self._details = details = read_details(organization)
            if details.error is not None:
                raise details.error
            return ""

        self.reading.start("Loading ...", work)

    def static(self) -> Sequence[Block]:
        """Return the name of the organization and its service."""
        return [" \u2013 ".join(self.state.identity)]

    # -- actions

    def switch_organization(self) -> None:
        """Use another organization of the same service."""
        slug = self.others.widget.value or self.slug.text
        if not slug:
            raise SessionError("no organization was given", hint="enter its slug")
        session, organization = self.state.session, self.state.organization

        def work() -> str:
            chosen = session.choose_organization(slug, beside=organization)
            connections = [_connection(connection) for connection in session.connections.values()]
            stay = f" The connections stay as they are: {', '.join(connections)}." if connections else ""
            return outcomes.describe_organization(chosen) + stay

        self.run(f"Switching to {slug} ...", f"organization {word(slug)}", work)

    def switch_overages(self) -> None:
        """Switch overages on, or off."""
        organization, settings = self.state.organization, self.details.settings if self.details else None
        wanted = "off" if settings and settings.overages else "on"
        work = partial(outcomes.set_overages, organization, on=wanted == "on")
        self.run(f"Switching overages {wanted} ...", f"overages {wanted}", work)


def describe_usage(name: str, used: int, quota: int, *, quotas_known: bool = True) -> str:
    """Return a usage figure as text: ``12,345 of 1,000,000,000 rows read (0.0 %)``."""
    singular, several = FIGURES[name]
    if not quota:
        return f"{_amount(name, used)} {singular if used == 1 else several}{', no limit' if quotas_known else ''}"
    state = ", over the quota" if used > quota else ", used up" if used == quota else ""
    what = singular if quota == 1 else several
    return f"{_amount(name, used)} of {_amount(name, quota)} {what} ({_percent(used, quota)} %{state})"


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


def _name(organization: models.Organization) -> str:
    slug, name = organization.slug, organization.name
    return slug if name in ("", slug) else f"{slug} ({name})"


def _connection(connection: Connection) -> str:
    return f"{connection.name} (transaction open)" if connection.transaction is Tx.OPEN else connection.name


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
