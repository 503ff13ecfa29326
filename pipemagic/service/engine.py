"""Where the databases of a service are, as its management API sees it."""

from __future__ import annotations

from collections.abc import Mapping

from pipemagic.service.catalog import DatabaseRecord, GroupRecord
from pipemagic.service.locations import LOCATIONS, Location


class Engine:
    """The embedded engine: files of this process, at the service's own address.

    A new database needs no call: its file is made when it is first opened. Another engine overrides what it
    has to do; every method may refuse by raising `Refused`, before the catalog changes unless it says otherwise.
    """

    @property
    def locations(self) -> Mapping[str, Location]:
        """The locations that groups may have."""
        return LOCATIONS

    def check_group(self, primary: str) -> None:
        """Refuse a new group whose primary location cannot be there."""

    def check_location(self, code: str) -> None:
        """Refuse a location that there is nothing at."""

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
