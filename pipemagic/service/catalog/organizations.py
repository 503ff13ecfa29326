"""Organizations, their members, and the members' roles."""

from __future__ import annotations

from enum import IntEnum

from pipemagic.service.catalog.accounts import AccountRecord
from pipemagic.service.catalog.names import check_slug
from pipemagic.service.catalog.records import Record
from pipemagic.service.catalog.store import Store, new_id
from pipemagic.service.responses import Refused

CREATED_LIMIT = 25
"""Maximum number of organizations that one account has created: each has quotas of its own.

Other organizations of which the account is an owner do not count: others can add it without its consent.
"""


class Role(IntEnum):
    """The rights of a member. Each role includes those before it."""

    VIEWER = 1
    """Read everything, and create read-only tokens."""
    MEMBER = 2
    """Create, configure and delete groups and databases, create and rotate their tokens."""
    ADMIN = 3
    """Change the organization, add and remove members."""
    OWNER = 4
    """Appoint and dismiss owners, delete the organization."""

    @property
    def label(self) -> str:
        """The role's name in the API."""
        return self.name.lower()

    @classmethod
    def named(cls, label: str) -> Role:
        """Return the role of that name; raise `Refused` (400) if there is none."""
        for role in cls:
            if role.label == label:
                return role
        raise Refused(400, f"invalid role: {label[:50]!r}; it is owner, admin, member or viewer")


class OrganizationRecord(Record, frozen=True):
    """An organization: ``type`` is personal or team."""

    slug: str
    name: str
    type: str
    overages: bool
    id: str


class MemberRecord(Record, frozen=True):
    """An account in an organization."""

    username: str
    role: Role


_ORGANIZATIONS = "SELECT o.slug, o.name, o.type, o.overages, o.id FROM organizations AS o"
_ONE_MEMBER = "organization = ? AND account = (SELECT id FROM accounts WHERE username = ?)"


class Organizations:
    """The organizations of the catalog."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self) -> list[OrganizationRecord]:
        """Return the organizations, by slug."""
        return self._store.records(OrganizationRecord, f"{_ORGANIZATIONS} ORDER BY o.slug")

    def of(self, account: AccountRecord) -> list[OrganizationRecord]:
        """Return the organizations that an account belongs to, its personal one first, then by slug."""
        return self._store.records(
            OrganizationRecord,
            f"{_ORGANIZATIONS} JOIN members AS m ON m.organization = o.slug WHERE m.account = ?1"
            " ORDER BY o.type = 'personal' AND o.account = ?1 DESC, o.slug", (account.id,),
        )  # fmt: skip

    def get(self, slug: str) -> OrganizationRecord:
        """Return one organization; raise `Refused` (404) if there is none."""
        record = self._store.record(OrganizationRecord, f"{_ORGANIZATIONS} WHERE o.slug = ?", (slug,))
        if record is None:
            raise Refused(404, "organization not found")
        return record

    def create(self, account: AccountRecord, slug: str, *, name: str = "", kind: str = "team") -> OrganizationRecord:
        """Add an organization owned by the account; raise `Refused`: 400 or 422 for an invalid slug, 409 if taken."""
        check_slug(slug)
        with self._store.change() as run:
            self.check_free(slug)
            created = run("SELECT count(*) FROM organizations WHERE account = ?", (account.id,))[0][0]
            if created >= CREATED_LIMIT:
                raise Refused(
                    400, f"{account.username} has created {created} organizations, which is the limit"
                )  # fmt: skip
            run("INSERT INTO organizations (slug, name, type, account, overages, created, id)"
                " VALUES (?, ?, ?, ?, 0, ?, ?)",
                (slug, name or slug, kind, account.id, self._store.now(), new_id()))  # fmt: skip
            self.add_member(slug, account, Role.OWNER)
        return self.get(slug)

    def check_free(self, slug: str) -> None:
        """Raise `Refused` (409) if a slug is taken."""
        if self._store.rows("SELECT 1 FROM organizations WHERE slug = ?", (slug,)):
            raise Refused(409, f"organization {slug} already exists")

    def set_overages(self, slug: str, overages: bool) -> OrganizationRecord:
        """Change the overages setting."""
        with self._store.change() as run:
            run("UPDATE organizations SET overages = ? WHERE slug = ?", (int(overages), slug))
        return self.get(slug)

    def delete(self, slug: str) -> None:
        """Remove an organization; raise `Refused` (400) for a personal one, or one that still has groups."""
        with self._store.change() as run:
            if self.get(slug).type == "personal":
                raise Refused(400, "a personal organization cannot be deleted")
            groups = run('SELECT name FROM "groups" WHERE organization = ? ORDER BY name', (slug,))
            if groups:
                raise Refused(400, f"organization {slug} still has the group {groups[0][0]}: delete its groups first")
            run("DELETE FROM organizations WHERE slug = ?", (slug,))
            run("DELETE FROM quotas WHERE organization = ?", (slug,))

    # -- members

    def role(self, slug: str, account: AccountRecord) -> Role | None:
        """Return the account's role; None if it is not in the organization, or there is none of that slug."""
        rows = self._store.rows("SELECT role FROM members WHERE organization = ? AND account = ?", (slug, account.id))
        return Role.named(rows[0][0]) if rows else None

    def members(self, slug: str) -> list[MemberRecord]:
        """Return the members, by name."""
        rows = self._store.rows(
            "SELECT a.username, m.role FROM members AS m JOIN accounts AS a ON a.id = m.account"
            " WHERE m.organization = ? ORDER BY a.username", (slug,),
        )  # fmt: skip
        return [MemberRecord(username, Role.named(role)) for username, role in rows]

    def member(self, slug: str, username: str) -> MemberRecord:
        """Return one member; raise `Refused` (404) if there is none."""
        for member in self.members(slug):
            if member.username == username:
                return member
        raise Refused(404, f"{username} is not a member of {slug}")

    def add_member(self, slug: str, account: AccountRecord, role: Role) -> None:
        """Add an account; raise `Refused` (409) if it is a member already."""
        with self._store.change() as run:
            self.get(slug)  # it may have been deleted since the request was admitted
            if self.role(slug, account) is not None:
                raise Refused(409, f"{account.username} is already a member of {slug}")
            run("INSERT INTO members VALUES (?, ?, ?, ?)", (slug, account.id, role.label, self._store.now()))

    def set_role(self, slug: str, username: str, role: Role) -> None:
        """Change a member's role; raise `Refused` (400) if no owner would be left."""
        with self._store.change() as run:
            if role is not Role.OWNER:
                self._check_other_owner(slug, username)
            run(f"UPDATE members SET role = ? WHERE {_ONE_MEMBER}", (role.label, slug, username))

    def remove_member(self, slug: str, username: str) -> None:
        """Remove a member; raise `Refused` (400) if no owner would be left."""
        with self._store.change() as run:
            self._check_other_owner(slug, username)
            run(f"DELETE FROM members WHERE {_ONE_MEMBER}", (slug, username))

    def _check_other_owner(self, slug: str, username: str) -> None:
        """Raise `Refused` if the member is the only owner, or the owner of their personal organization."""
        if self.member(slug, username).role is not Role.OWNER:
            return
        if self.get(slug).type == "personal" and slug == username:
            raise Refused(400, f"{slug} is the personal organization of {username}, who stays its owner")
        if not any(member.role is Role.OWNER and member.username != username for member in self.members(slug)):
            raise Refused(400, f"{username} is the only owner of {slug}: make another member owner first")
