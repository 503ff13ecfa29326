"""The organization: which one, another one, overages, and what was used of its quotas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from traitlets import Any as AnyTrait
from traitlets import Bool, Dict, List, Unicode

from pipemagic.errors import ConnectError, PipemagicError, UnsupportedError
from pipemagic.hrana.stream import Tx
from pipemagic.management_api.models import Organization
from pipemagic.notebook.panels.ground.parts import button, choice, field, magic, problem, section, state, submit
from pipemagic.notebook.panels.ground.tree import Node, h
from pipemagic.notebook.panels.ground.widget import Values, View
from pipemagic.notebook.panels.ground.work import WorkingModel
from pipemagic.notebook.panels.holdings import Holdings
from pipemagic.notebook.panels.organization.quotas import bars
from pipemagic.session.organization import Platform
from pipemagic.session.profiles import word
from pipemagic.session.signals import Subject

if TYPE_CHECKING:
    from traitlets import HasTraits

    from pipemagic.session import Connection

T = TypeVar("T")

ON = (
    "statements go on when a quota of the plan is reached, and a service that charges bills what goes past it. "
    "Hosted services want a payment method for that; switching it off later does not cancel what is owed by then."
)
OFF = (
    "when a quota of the plan is reached, statements fail with the code BLOCKED until the next month begins "
    "(UTC). Nothing is billed past the plan."
)
UNKNOWN = "This service does not say whether overages are on."


class Figures(WorkingModel):
    """What the service tells of the organization; asked when a panel opens, and after changes."""

    settings = AnyTrait(help="management_api.models.Organization; None where the service does not tell")
    organizations: List[Organization] = List(help="those that the token's owner belongs to; [] if not told")
    plan = Unicode()
    quotas: Dict[str, int] = Dict()
    used: Dict[str, int] = Dict()
    untold: List[str] = List(help="what the service does not tell, in words")
    asked = Bool(help="whether there was an answer")
    answered_for = Unicode(help="the organization and service that all this is about")

    def __init__(self, holdings: Holdings) -> None:
        super().__init__()
        self.holdings = holdings
        self._follows = self._stale = False
        holdings.session.changes.connect(self._heard)

    @property
    def known(self) -> bool:
        """Whether there was an answer about the organization that is in use."""
        return self.asked and self.answered_for == f"{self.holdings.organization} {self.holdings.where}"

    def follow(self) -> None:
        """Ask now and after every change, as far as an organization is in use."""
        self._follows = True
        self.holdings.observe(self._known, "known")
        self.look()

    def stop(self) -> None:
        """Ask no more."""
        self._follows = False
        self.holdings.unobserve(self._known, "known")

    def look(self) -> None:
        """Ask for everything anew; while that is under way already, once more after it."""
        self._stale = True
        if self._follows and self.holdings.session.in_organization:
            self.start("Asking ...", self._fetch)

    def ended(self) -> None:
        """Ask once more if something changed when the last answer was there already."""
        if self._stale:
            self.look()

    def _heard(self, subject: Subject) -> None:
        if subject == "organization":
            self.look()

    def _known(self, _change: Any) -> None:
        """Ask again what failed while nobody could tell which organization it is."""
        if self.holdings.known and self.error:
            self.look()

    def _fetch(self) -> str:
        while self._stale and self._follows:
            self._stale = False
            self._read(self.holdings.session.platform)
        return ""

    def _read(self, platform: Platform) -> None:
        untold: list[str] = []
        refused: list[PipemagicError] = []
        settings = _told(platform.settings, "its settings", untold)
        organizations = _told(platform.organizations, "which organizations there are", untold, refused)
        plan, quotas = _told(platform.quotas, "plan and quotas", untold, refused) or ("", {})
        usage = _told(platform.usage, "what was used", untold, refused)
        about = f"{platform.organization} {platform.where}"
        with self.hold_trait_notifications():
            self.settings, self.organizations = settings, organizations or []
            self.plan, self.quotas = plan, dict(quotas)
            self.used = dict(usage.figures) if usage else {}
            self.untold, self.asked, self.answered_for = untold, True, about
        if refused:
            raise refused[0]


class OrganizationModel(WorkingModel):
    """What is done with the organization."""

    def __init__(self, holdings: Holdings) -> None:
        super().__init__()
        self.holdings = holdings
        self.figures = Figures(holdings)

    def switch(self, slug: str) -> None:
        """Use another organization of the same service."""
        if not slug:
            self.refuse("which organization?", "type its slug")
            return
        session, platform = self.holdings.session, self.holdings.platform

        def work() -> str:
            chosen = session.organization(slug, beside=platform)
            kept = ", ".join(map(_with_transaction, list(session.connections.values())))
            stay = f" The connections stay as they are: {kept}." if kept else ""
            return f"Organization {chosen.organization} ({chosen.where}).{stay}"

        self.start(f"Switching to {slug} ...", work, f"%pipedb organization {word(slug)}")

    def set_overages(self, *, on: bool) -> None:
        """Allow the organization to go past its quotas, or not."""
        how = "on" if on else "off"
        platform = self.holdings.platform

        def work() -> str:
            now = platform.set_overages(on=on)
            return f"Overages of organization {platform.organization} are {'on' if now else 'off'}."

        self.start(f"Switching overages {how} ...", work, f"%pipedb overages {how}")


class OrganizationView(View):
    """Name and kind, overages, usage as bars, a form to switch."""

    title: ClassVar[str] = "Organization"

    def __init__(self, model: OrganizationModel) -> None:
        self.model = model

    def models(self) -> tuple[HasTraits, ...]:
        """Give what is drawn."""
        return (self.model, self.model.holdings, self.model.figures)

    def opened(self) -> None:
        """Ask, and follow changes."""
        self.model.figures.follow()

    def closed(self) -> None:
        """Follow nothing any more."""
        self.model.figures.stop()

    def draw(self) -> Node:
        """Draw everything that the service tells."""
        model, figures = self.model, self.model.figures
        return section(
            self.title,
            self._who(),
            self._blocked(),
            h("div", "Asking ..." if figures.busy and not figures.known else None, problem(figures), live=True),
            self._asked(),
            state(model),
            tools=button("Refresh", ("look",), label="Refresh the organization"),
        )  # fmt: skip

    def saved(self) -> Node:
        """Draw what is known at once, and the same in every run."""
        has = self.model.holdings
        return section(self.title, h("p", h("strong", has.organization), f" – {has.where}"))

    def _asked(self) -> Node | None:
        figures = self.model.figures
        if not figures.known:  # a refusal here is no reason to be kept from another organization
            return h("div", self._others(), live=True, key="others only") if figures.error else None
        return h("div", self._usage(), self._overages(), self._others(), live=True, key="asked")

    def _who(self) -> Node:
        """Say which organization it is; its slug is what everything else calls it by."""
        has, settings = self.model.holdings, self._settings
        name = settings.name if settings and settings.name != has.organization else ""
        kind = {"personal": "a personal account", "team": "a team"}.get(settings.type if settings else "", "")
        about = ", ".join(part for part in (f"“{name}”" if name else "", kind, has.where) if part)
        return h("p", h("strong", has.organization), f" – {about}", class_="pm-who")

    @property
    def _settings(self) -> Organization | None:
        figures = self.model.figures
        settings: Organization | None = figures.settings if figures.known else None
        return settings

    def _blocked(self) -> Node | None:
        settings = self._settings
        if settings is None or not (settings.blocked_reads or settings.blocked_writes):
            return None
        what = "Reading and writing are" if settings.blocked_reads and settings.blocked_writes else (
            "Reading is" if settings.blocked_reads else "Writing is"
        )  # fmt: skip
        words = (
            f"{what} blocked: a quota of this month is used up, so such statements fail with the code BLOCKED. "
            "It ends with the month, with a larger quota, or with overages on."
        )
        return h("div", h("p", words, class_="pm-error"), role="alert", class_="pm-problem", live=True, key="blocked")

    def _usage(self) -> Node:
        figures = self.model.figures
        plan = h("p", f"Plan: {figures.plan}.") if figures.plan else None
        untold = h("p", f"This service does not tell {_joined(figures.untold)}.", class_="pm-faint")
        return h(
            "div", h("h3", "Used in this calendar month (UTC)"), plan,
            bars(figures.used, figures.quotas, told=bool(figures.plan)) if figures.used else None,
            magic("%pipedb usage") if figures.used else None, untold if figures.untold else None, key="usage",
        )  # fmt: skip

    def _overages(self) -> Node:
        settings, busy = self._settings, bool(self.model.busy)
        on = settings.overages if settings else None
        if on is None:
            tools: Node | None = h(
                "div", button("Switch overages on", ("overages", "on"), disabled=busy),
                button("Switch overages off", ("overages", "off"), disabled=busy), class_="pm-row",
            )  # fmt: skip
            return h(
                "div",
                h("h3", "Overages"),
                h("p", UNKNOWN),
                tools,
                h("p", f"When on: {ON}"),
                h("p", f"When off: {OFF}"),
                key="overages",
            )
        switch = h(
            "button", h("span", class_="pm-knob", aria_hidden="true"), "Overages: ", "on" if on else "off",
            type="button", role="switch", aria_checked=str(on).lower(), aria_label="Overages", class_="pm-switch",
            on={"click": ["overages", "off" if on else "on"]}, disabled=busy, key="switch",
        )  # fmt: skip
        now, then = (f"Now on: {ON}", f"When off: {OFF}") if on else (f"Now off: {OFF}", f"When on: {ON}")
        return h(
            "div", h("h3", "Overages"), switch, h("p", now), h("p", then, class_="pm-faint"),
            key="overages",
        )  # fmt: skip

    def _others(self) -> Node | None:
        """Draw the form to switch, where there is another organization, or nobody knows."""
        has, figures, busy = self.model.holdings, self.model.figures, bool(self.model.busy)
        others = [one for one in figures.organizations if one.slug != has.organization]
        head = h("h3", "Another organization")
        if figures.organizations and not others:
            return h("p", "The account has no other organization.", class_="pm-faint", key="others")
        stay = (
            "The panels, and %pipedb, then work in it. Connections stay as they are, and so do transactions that are "
            "open in them: %%sql goes on in the current one."
        )
        wish = (
            choice("Organization", "slug", [(one.slug, _named(one)) for one in others])
            if others
            else field("Slug of the organization", "slug")
        )
        return h(
            "form", head, h("div", wish, submit("Switch", kind="", disabled=busy), class_="pm-row"),
            h("p", stay, class_="pm-faint"), key=f"others than {has.organization}", on={"submit": ["switch"]},
        )  # fmt: skip

    def on_look(self, _values: Values) -> None:
        """Ask for everything anew."""
        self.model.holdings.refresh()
        self.model.figures.look()

    def on_switch(self, values: Values) -> None:
        """Use another organization."""
        self.model.switch(values["slug"].strip())

    def on_overages(self, _values: Values, how: str) -> None:
        """Switch overages."""
        self.model.set_overages(on=how == "on")


def _told(ask: Callable[[], T], what: str, untold: list[str], refused: list[PipemagicError] | None = None) -> T | None:
    """Ask what only some services tell; what this one does not goes into ``untold``.

    A refusal, or an answer that is none, goes into ``refused``, where that is given: it may be this question's alone,
    as where only an owner may see the plan.
    """
    try:
        return ask()
    except UnsupportedError:
        untold.append(what)
    except PipemagicError as error:
        if refused is None or isinstance(error, ConnectError):  # nobody is there to answer the others
            raise
        refused.append(error)
    return None


def _named(one: Organization) -> str:
    return one.slug if one.name in ("", one.slug) else f"{one.slug} ({one.name})"


def _with_transaction(connection: Connection) -> str:
    return f"{connection.name} (transaction open)" if connection.transaction is Tx.OPEN else connection.name


def _joined(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
