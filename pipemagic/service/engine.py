"""Where the databases of a service are, as its management API sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipemagic.service.locations import LOCATIONS, Location
from pipemagic.service.registry.records import DatabaseRecord, GroupRecord
from pipemagic.service.sqlite.write_lock import Waiter


@dataclass(frozen=True)
class InstanceStatus:
    """How one instance of a database is.

    ``role`` is primary or replica, ``index`` the commit that it stands at, ``lag`` for how many seconds a later
    one has been waiting, None where that is not known; ``state`` is ok, paused, copying, lagging or down.
    """

    code: str
    role: str
    index: int
    lag: float | None
    state: str


class Engine:
    """The embedded engine: files of this process, at the service's own address.

    A new database needs no call: its file is made when it is first opened. Another engine overrides what it
    has to do; every method may refuse by raising `Refused`, before the catalog changes unless it says otherwise.
    """

    here: str | None = None
    """Code of the location that requests are taken to come from, if that is set."""

    @property
    def locations(self) -> Mapping[str, Location]:
        """The locations that groups may have."""
        return LOCATIONS

    def check_group(self, primary: str) -> None:
        """Refuse a new group whose primary location cannot be there."""

    def check_location(self, code: str) -> None:
        """Refuse a location that there is nothing at."""

    def check_pause(self, code: str) -> None:
        """Refuse to take a location down, or up again, that this service has no hand on."""

    def check_new(self, label: str) -> None:
        """Refuse a new database whose host name would begin with this label."""

    def create(self, record: DatabaseRecord) -> None:
        """Make the database that was just added to the catalog; when it is refused, the catalog forgets it."""

    def check_change(self) -> None:
        """Refuse to delete or change databases while that could not be carried out."""

    def configure(self, record: DatabaseRecord) -> None:
        """Apply what was changed about a database: its settings, or that its tokens were rotated."""

    def addresses(self, record: DatabaseRecord) -> dict[str, str]:  # noqa: ARG002
        """Give the addresses to connect to, by location; none where the service's own does for all host names."""
        return {}

    def states(self, group: GroupRecord) -> dict[str, str]:  # noqa: ARG002
        """Give what is known about a group's locations: ``ok``, ``down`` or ``paused``; none for all ok."""
        return {}

    def status(self, record: DatabaseRecord) -> dict[str, InstanceStatus]:
        """Tell how each instance of a database is, the primary first."""
        roles = dict.fromkeys(record.locations, "replica") | {record.locations[0]: "primary"}
        return {
            code: InstanceStatus(code, role, 0, 0.0, "paused" if code in record.paused else "ok")
            for code, role in roles.items()
        }

    def waiting(self, group: GroupRecord, code: str, patience: float) -> Sequence[Waiter]:  # noqa: ARG002
        """Give waiters that are ready when a group's replicas at a location have what their primaries have now.

        They are given up after ``patience`` seconds.
        """
        return ()
