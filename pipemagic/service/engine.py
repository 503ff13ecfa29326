"""The interface between the management API and the engine that holds the databases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipemagic.service.locations import LOCATIONS, Location
from pipemagic.service.registry.records import DatabaseRecord, GroupRecord
from pipemagic.service.sqlite.write_lock import Waiter


@dataclass(frozen=True)
class InstanceStatus:
    """The state of one instance of a database.

    ``role`` is primary or replica, ``index`` the last commit that it has, ``lag`` the age of the next one in seconds,
    None if unknown; ``state`` is ok, paused, copying, lagging or down.
    """

    code: str
    role: str
    index: int
    lag: float | None
    state: str


class Engine:
    """The embedded engine: files of this process, at the service's own address.

    A new database needs no call: its file is created when it is first opened. Other engines override methods. Every
    method may raise `Refused`; it is called before the catalog changes unless stated otherwise.
    """

    here: str | None = None
    """Code of the location that requests are assumed to come from, if set."""

    @property
    def locations(self) -> Mapping[str, Location]:
        """The locations that groups may have."""
        return LOCATIONS

    def check_group(self, primary: str) -> None:
        """Refuse a new group if its primary cannot be at this location."""

    def check_location(self, code: str) -> None:
        """Refuse a location without an instance."""

    def check_pause(self, code: str) -> None:
        """Refuse to pause or resume a location that this service does not control."""

    def check_new(self, label: str) -> None:
        """Refuse a new database whose host name would begin with this label."""

    def create(self, record: DatabaseRecord) -> None:
        """Create the database that was just added to the catalog; if it is refused, the entry is removed."""

    def check_change(self) -> None:
        """Refuse to delete or change databases while that is not possible."""

    def configure(self, record: DatabaseRecord) -> None:
        """Apply changed settings of a database, or a rotation of its tokens."""

    def addresses(self, record: DatabaseRecord) -> dict[str, str]:  # noqa: ARG002
        """Return the addresses to connect to, by location; empty if all are at the service's own address."""
        return {}

    def states(self, group: GroupRecord) -> dict[str, str]:  # noqa: ARG002
        """Return the states of a group's locations (``ok``, ``down`` or ``paused``); empty if all are ok."""
        return {}

    def status(self, record: DatabaseRecord) -> dict[str, InstanceStatus]:
        """Return the state of each instance of a database, the primary first."""
        roles = dict.fromkeys(record.locations, "replica") | {record.locations[0]: "primary"}
        return {
            code: InstanceStatus(code, role, 0, 0.0, "paused" if code in record.paused else "ok")
            for code, role in roles.items()
        }

    def waiting(self, group: GroupRecord, code: str, patience: float) -> Sequence[Waiter]:  # noqa: ARG002
        """Return waiters that are granted when a group's replicas at a location are up to date.

        They expire after ``patience`` seconds.
        """
        return ()
