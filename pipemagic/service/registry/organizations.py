"""Organizations and who belongs to them, in which role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from pipemagic.service.registry.accounts import Account
from pipemagic.service.registry.names import check_slug
from pipemagic.service.registry.store import Run, Store
from pipemagic.service.responses import Refused

MADE_LIMIT = 25
"""Most organizations of one account's making: quotas are per organization, and must mean something.

Those count that it made, not those that it owns: whoever is made an owner by others was not asked.
"""


class Role(IntEnum):
    """What a member may do; each may do what those before may."""

    VIEWER = 1
    """Look, and make read-only tokens."""
    MEMBER = 2
    """Make, configure and delete groups and databases, make and rotate their tokens."""
    ADMIN = 3
    """Change the organization, add and remove members."""
    OWNER = 4
    """Make and unmake owners, delete the organization."""

    @property
    def label(self) -> str:
        """The role's name on the wire."""
        return self.name.lower()

    @classmethod
    def named(cls, label: str) -> Role:
        """Find a role by its name on the wire; 400 if there is none."""
        for role in cls:
            if role.label == label:
                return role
        raise Refused(400, f"invalid role: {label[:50]!r}; it is owner, admin, member or viewer")


@dataclass(frozen=True)
class OrganizationRecord:
    """An organization, or the personal one of an account (``account``, who made it, otherwise)."""

    slug: str
    name: str
    type: str
    overages: bool
    account: str
    id: str


@dataclass(frozen=True)
class Member:
    """An account in an organization."""

    username: str
    role: Role


_ORGANIZATIONS = "SELECT o.slug, o.name, o.type, o.overages, o.account, o.id FROM organizations AS o"
_NOT_FOUND = "organization not found"


class Organizations:
    """The organizations of the catalog."""

    def __init__(self, store: Store, now: Callable[[], float], new_id: Callable[[], str]) -> None:
        self._store, self._now, self._new_id = store, now, new_id

    def all(self) -> list[OrganizationRecord]:
        """List the organizations, by slug."""
        return [_record(row) for row in self._store.rows(f"{_ORGANIZATIONS} ORDER BY o.slug")]

    def of(self, account: Account) -> list[OrganizationRecord]:
        """List the organizations that an account belongs to, its personal one first, then by slug."""
        rows = self._store.rows(
            f"{_ORGANIZATIONS} JOIN members AS m ON m.organization = o.slug WHERE m.account = ?1"
            " ORDER BY o.type = 'personal' AND o.account = ?1 DESC, o.slug", (account.id,),
        )  # fmt: skip
        return [_record(row) for row in rows]

    def personal(self, account: Account) -> OrganizationRecord:
        """Find the personal organization of an account; it always has one."""
        rows = self._store.rows(f"{_ORGANIZATIONS} WHERE o.type = 'personal' AND o.account = ?", (account.id,))
        return _record(rows[0])

    def get(self, slug: str) -> OrganizationRecord:
        """Find one organization; 404 if there is none."""
        rows = self._store.rows(f"{_ORGANIZATIONS} WHERE o.slug = ?", (slug,))
        if not rows:
            raise Refused(404, _NOT_FOUND)
        return _record(rows[0])

    def create(self, account: Account, slug: str, *, name: str = "", kind: str = "team") -> OrganizationRecord:
        """Add an organization owned by the account; 400 or 422 for an unfit slug, 409 if it is taken."""
        check_slug(slug)
        with self._store.change() as run:
            self.check_free(slug)
            made = run("SELECT count(*) FROM organizations WHERE account = ?", (account.id,))[0][0]
            if made >= MADE_LIMIT:
                raise Refused(400, f"{account.username} made {made} organizations already, the most that one may have")
            run("INSERT INTO organizations (slug, name, type, account, overages, created, id)"
                " VALUES (?, ?, ?, ?, 0, ?, ?)",
                (slug, name or slug, kind, account.id, self._now(), self._new_id()))  # fmt: skip
            self._add(run, slug, account, Role.OWNER)
        return self.get(slug)

    def check_free(self, slug: str) -> None:
        """Refuse (409) a slug that is taken."""
        if self._store.rows("SELECT 1 FROM organizations WHERE slug = ?", (slug,)):
            raise Refused(409, f"organization {slug} already exists")

    def set_overages(self, slug: str, overages: bool) -> OrganizationRecord:
        """Switch the overages setting."""
        with self._store.change() as run:
            run("UPDATE organizations SET overages = ? WHERE slug = ?", (int(overages), slug))
        return self.get(slug)

    def delete(self, slug: str) -> None:
        """Remove an organization; 400 for a personal one and for one that still has groups."""
        with self._store.change() as run:
            if self.get(slug).type == "personal":
                raise Refused(400, "a personal organization cannot be deleted")
            groups = run('SELECT name FROM "groups" WHERE organization = ? ORDER BY name', (slug,))
            if groups:
                raise Refused(400, f"organization {slug} still has the group {groups[0][0]}: delete its groups first")
            run("DELETE FROM organizations WHERE slug = ?", (slug,))
            run("DELETE FROM quotas WHERE organization = ?", (slug,))

    # -- members

    def role(self, slug: str, account: Account) -> Role | None:
        """Tell the account's role; None if it is not in the organization, or there is none of that slug."""
        rows = self._store.rows("SELECT role FROM members WHERE organization = ? AND account = ?", (slug, account.id))
        return Role.named(rows[0][0]) if rows else None

    def members(self, slug: str) -> list[Member]:
        """List the members, by name."""
        rows = self._store.rows(
            "SELECT a.username, m.role FROM members AS m JOIN accounts AS a ON a.id = m.account"
            " WHERE m.organization = ? ORDER BY a.username", (slug,),
        )  # fmt: skip
        return [Member(username, Role.named(role)) for username, role in rows]

    def member(self, slug: str, username: str) -> Member:
        """Find one member; 404 if there is none."""
        for member in self.members(slug):
            if member.username == username:
                return member
        raise Refused(404, f"{username} is not a member of {slug}")

    def add_member(self, slug: str, account: Account, role: Role) -> None:
        """Add an account; 409 if it is a member already."""
        with self._store.change() as run:
            if self.role(slug, account) is not None:
                raise Refused(409, f"{account.username} is already a member of {slug}")
            self._add(run, slug, account, role)

    def set_role(self, slug: str, username: str, role: Role) -> None:
        """Change a member's role; 400 if no owner would be left."""
        with self._store.change() as run:
            self._check_owner_stays(slug, username, role)
            run(f"UPDATE members SET role = ? WHERE {_ONE_MEMBER}", (role.label, slug, username))

    def remove_member(self, slug: str, username: str) -> None:
        """Remove a member; 400 if no owner would be left."""
        with self._store.change() as run:
            self._check_owner_stays(slug, username, None)
            run(f"DELETE FROM members WHERE {_ONE_MEMBER}", (slug, username))

    def _add(self, run: Run, slug: str, account: Account, role: Role) -> None:
        run("INSERT INTO members VALUES (?, ?, ?, ?)", (slug, account.id, role.label, self._now()))

    def _check_owner_stays(self, slug: str, username: str, role: Role | None) -> None:
        if role is Role.OWNER or self.member(slug, username).role is not Role.OWNER:
            return
        owner = self._store.rows(
            "SELECT 1 FROM organizations AS o JOIN accounts AS a ON a.id = o.account"
            " WHERE o.slug = ? AND o.type = 'personal' AND a.username = ?", (slug, username),
        )  # fmt: skip
        if owner:
            raise Refused(400, f"{slug} is the personal organization of {username}, who stays its owner")
        if not any(one.role is Role.OWNER and one.username != username for one in self.members(slug)):
            raise Refused(400, f"{username} is the only owner of {slug}: make another member owner first")


_ONE_MEMBER = "organization = ? AND account = (SELECT id FROM accounts WHERE username = ?)"


def _record(row: tuple[Any, ...]) -> OrganizationRecord:
    slug, name, kind, overages, account, organization_id = row
    return OrganizationRecord(slug, name, kind, bool(overages), account, organization_id)
