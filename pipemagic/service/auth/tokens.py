"""Platform tokens, for the management API, and database tokens, for SQL.

A platform token is random; the catalog has only its hash, so it can be revoked. A login returns one that expires. A
database token is an EdDSA JWT for one database or for all of a group, which a libSQL server with the same public key
also accepts. It is not stored anywhere: its claim ``gen`` is the number of rotations before it was issued, and a
later rotation of its database or group makes it invalid.
"""

from __future__ import annotations

import hmac
import math
import re
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pipemagic.config import write_private
from pipemagic.errors import ServiceError
from pipemagic.service.auth import jwt
from pipemagic.service.catalog.accounts import AccountRecord, Credential, PlatformToken, TokenLimits
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.catalog.records import DatabaseRecord, GroupRecord
from pipemagic.service.files import KEY_FILE, PLATFORM_TOKEN_FILE
from pipemagic.service.responses import Refused
from pipemagic.text import parse_duration

PLATFORM_PREFIX = "pmp_"
"""Prefix of platform tokens: secret scanners can find them, and errors can name a wrong kind of token."""

LOGIN_PREFIX = "pml_"
"""Prefix of the tokens that a login returns."""

LOGIN_LIFETIME = 7 * 86400.0
"""Seconds until a login expires."""

FIRST_TOKEN = "default"
"""Name of the token in the file; others are created by the management API."""

_MOST_CACHED = 1024
_LONGEST_CACHED = 2048  # characters of a header
_LAST_EXPIRY = 253_402_300_799  # the end of the year 9999, beyond which dates fail in many readers
_VISIBLE = re.compile(r"[!-~]+")


_AccessMode = Literal["ro", "rw"]


class Owner(NamedTuple):
    """Owner of a stream: its batons are valid with tokens of the same database, account and rights only.

    ``database`` is an id, ``account`` the subject of the token.
    """

    organization: str
    database: str
    account: str
    access: str


class AccessGrant(msgspec.Struct, frozen=True, dict=True):
    """The rights of a database token. ``subject`` is the account that it was issued for."""

    database: DatabaseRecord
    subject: str
    read_only: bool
    generation: int = 0
    expires: float | None = None
    """Unix seconds."""
    changes: int = 0
    """The number of changes of the catalog before it was checked."""

    @cached_property
    def owner(self) -> Owner:
        """The owner of the streams that are opened with the token."""
        return Owner(self.database.organization, self.database.id, self.subject, _access(self.read_only))


class _Tags(msgspec.Struct, forbid_unknown_fields=True):
    tags: tuple[str]
    """The id of a group."""


class _Claims(msgspec.Struct):
    """The claims of a token: ``id`` and ``a`` for a database, ``p`` for a group."""

    sub: str
    id: str = ""
    a: _AccessMode | None = None
    p: dict[_AccessMode, _Tags] = {}
    gen: int = 0
    nbf: float | None = None
    exp: float | None = None
    group: str = ""

    def __post_init__(self) -> None:
        if self.p:
            ((self.a, tags),) = self.p.items()
            self.id, self.group = "", tags.tags[0]
        if self.a is None:
            raise ValueError("the token has no rights")


def parse_expiration(text: str) -> float | None:
    """Parse a lifetime such as ``1w2d6h3m`` or ``7d`` to seconds, ``never`` to None; raise `Refused` with 400."""
    if text in ("", "never", "none", "default"):
        return None
    seconds = parse_duration(text)
    if seconds is None or not 0 < seconds < _LAST_EXPIRY:
        raise Refused(400, "Invalid expiration format")
    return seconds


class TokenAuthority:
    """Issues and checks tokens. ``now`` returns Unix seconds, ``random(n)`` returns n unguessable bytes.

    The first start in a folder creates the signing key and a platform token, in files that only their owner may
    read.
    """

    def __init__(
        self, folder: Path, catalog: Catalog, now: Callable[[], float], random: Callable[[int], bytes],
    ) -> None:  # fmt: skip
        self._catalog, self._now, self._random = catalog, now, random
        self._key = _load_key(folder / KEY_FILE)
        self._code_key = hmac.digest(self._key.private_bytes_raw(), b"pipemagic codes 1", "sha256")
        self._lock = threading.Lock()
        self._grants: dict[tuple[str | None, str | None], AccessGrant] = {}
        self._admit_file(folder / PLATFORM_TOKEN_FILE)

    # -- platform tokens

    def issue_platform(
        self, account: AccountRecord, name: str, limits: TokenLimits | None = None
    ) -> tuple[PlatformToken, str]:
        """Create a platform token and return its value, which is not stored; raise 409 if the name is taken."""
        token = self._secret(PLATFORM_PREFIX)
        return self._catalog.accounts.add_token(account, name, _hash(token), limits), token

    def issue_login(self, account: AccountRecord) -> str:
        """Create a token of the account that expires after `LOGIN_LIFETIME`."""
        token = self._secret(LOGIN_PREFIX)
        self._catalog.accounts.add_login(account, _hash(token), self._now() + LOGIN_LIFETIME)
        return token

    def credential(self, authorization: str | None) -> Credential:
        """Return the platform token or login of a header; raise `Refused` with 401 if it is not valid."""
        token = bearer(authorization)
        token_hash = _hash(token)
        credential = self._catalog.accounts.credential(token_hash)
        if credential is None or not hmac.compare_digest(credential.hash, token_hash):
            hint = "this is a database token; the management interface takes a platform token"
            raise _unauthorized("The platform token is invalid", hint if token.count(".") == 2 else "")
        return credential

    def _secret(self, prefix: str) -> str:
        return prefix + urlsafe_b64encode(self._random(32)).rstrip(b"=").decode()

    def _admit_file(self, path: Path) -> None:
        """Make the token in the file valid; create the file if it is missing (deleting it revokes the token)."""
        accounts = self._catalog.accounts
        account = accounts.operator()
        assert account is not None  # the catalog creates it
        token = path.read_text("ascii").strip() if path.exists() else None
        if token is not None and accounts.credential(_hash(token)) is not None:
            return
        for other in accounts.tokens(account):
            if other.name == FIRST_TOKEN:
                accounts.remove_token(other.id)
        if token is None:
            token = self._secret(PLATFORM_PREFIX)
            write_private(path, token.encode() + b"\n")
        accounts.add_token(account, FIRST_TOKEN, _hash(token))

    # -- database tokens

    def issue_database(
        self, database: DatabaseRecord, *, read_only: bool, expires_in: float | None, subject: str,
    ) -> str:  # fmt: skip
        """Return a token for one database, valid for ``expires_in`` seconds (None: without end)."""
        claims = self._claims_of({"id": database.id, "a": _access(read_only)}, expires_in, subject)
        return self._sign(database, claims)

    def issue_group(
        self, group: GroupRecord, *, read_only: bool, expires_in: float | None, subject: str,
    ) -> str:  # fmt: skip
        """Return a token for all databases of a group, including later ones; libSQL servers read the group as a tag."""
        claims = self._claims_of({"p": {_access(read_only): {"tags": [group.id]}}}, expires_in, subject)
        return jwt.sign(claims, self._key)

    def _claims_of(self, rights: dict[str, Any], expires_in: float | None, subject: str) -> dict[str, Any]:
        now = self._now()
        claims = {**rights, "sub": subject, "iat": int(now), "gen": self._catalog.rotations}
        if expires_in is not None:
            claims["exp"] = min(math.ceil(now + expires_in), _LAST_EXPIRY)
        return claims

    def _sign(self, _database: DatabaseRecord, claims: dict[str, Any]) -> str:
        """Sign the claims of a database's token; the sqld engine overrides this with a key for each database."""
        return jwt.sign(claims, self._key)

    def code_hash(self, code: str) -> bytes:
        """Return what is stored of a one-time code; codes cannot be tried on it without the signing key."""
        return hmac.digest(self._code_key, code.encode(), "sha256")

    def check_database(self, authorization: str | None, database: DatabaseRecord | None) -> AccessGrant:
        """Return the rights of an ``Authorization`` header.

        ``database`` is that of the host name; with None it is that of the token. Raise `Refused`: 401 (missing,
        malformed, expired, rotated, or for a deleted database), 404 (for another database, whose existence is not
        disclosed) or 400 (a group's token, and no database in the address).
        """
        claims = self._verify(bearer(authorization))
        now = self._now()
        if claims.exp is not None and claims.exp <= now:
            raise _unauthorized("The JWT has expired")
        if claims.nbf is not None and claims.nbf > now:  # no token of this service has this claim
            raise _unauthorized("The JWT is not valid yet")
        changes = self._catalog.store.changes  # before the catalog is read: a later change must invalidate the grant
        grant = AccessGrant(
            self._database(claims, database), claims.sub, claims.a == "ro", claims.gen, claims.exp, changes
        )
        self._check_generation(grant, grant.database)
        if len(authorization or "") <= _LONGEST_CACHED:
            with self._lock:
                self._grants[authorization, None if database is None else database.hostname] = grant
                if len(self._grants) > _MOST_CACHED:
                    del self._grants[next(iter(self._grants))]
        return grant

    def recall(self, authorization: str | None, database: DatabaseRecord | None) -> AccessGrant | None:
        """Return the result of an earlier `check_database`; None if it must be called (again)."""
        grant = self._grants.get((authorization, None if database is None else database.hostname))
        if grant is None or grant.changes != self._catalog.store.changes:
            return None
        return None if grant.expires is not None and grant.expires <= self._now() else grant

    def recheck(self, grant: AccessGrant) -> DatabaseRecord | None:
        """Raise `Refused` (401) if a rotation has made the token invalid since it was checked.

        Return the present record of the database if the catalog has changed since, unless the database was deleted.
        """
        if grant.changes == self._catalog.store.changes:
            return None
        database = self._catalog.database_by_id(grant.database.id)
        if database is not None:  # a deleted database has another error
            self._check_generation(grant, database)
        return database

    def _check_generation(self, grant: AccessGrant, database: DatabaseRecord) -> None:
        if grant.generation < database.rotated:
            raise _unauthorized("The JWT is invalid", "the tokens of its database or group were rotated")

    def _database(self, claims: _Claims, database: DatabaseRecord | None) -> DatabaseRecord:
        """Return the database that a token and a host name (``database``, None for the service's own) name."""
        if claims.group:
            if database is None:
                raise Refused(
                    400, "this token is for a group, so the address must name the database: "
                    f"use the host name of one, <database>-<organization>.{self._catalog.domain}",
                )  # fmt: skip
            target, matches = database, database.group_id == claims.group
        else:
            token_database = self._catalog.database_by_id(claims.id)
            if token_database is None:
                raise _unauthorized("The JWT is invalid", "its database was deleted")
            target, matches = database or token_database, database is None or database.id == token_database.id
        if not matches:
            raise Refused(404, f"Namespace `{target.name}` doesn't exist", "NOT_FOUND")
        return target

    def _verify(self, token: str) -> _Claims:
        try:
            payload = jwt.verify(token, self._key.public_key())
        except jwt.InvalidToken:
            is_platform = token.startswith((PLATFORM_PREFIX, LOGIN_PREFIX))
            hint = "this is a platform token; the database interface takes a database token"
            raise _unauthorized("The JWT is invalid", hint if is_platform else "") from None
        try:
            return msgspec.convert(payload, _Claims)
        except ValueError:
            raise _unauthorized("The JWT is invalid") from None


def _access(read_only: bool) -> _AccessMode:
    return "ro" if read_only else "rw"


def bearer(authorization: str | None) -> str:
    """Return the token of an ``Authorization`` header; raise `Refused` with 401 if it has another form.

    RFC 9110 (sections 5.5 and 11.4): blanks around the value are not part of it, the scheme may be in any case, and one
    or more spaces follow it. `str.strip` would remove more, such as a no-break space, and one token would have many
    spellings.
    """
    if authorization is None:
        raise _unauthorized("Expected authorization header but none given")
    scheme, _, token = authorization.strip(" \t").partition(" ")
    token = token.lstrip(" ")
    if token and scheme.lower() != "bearer":
        raise _unauthorized("The authentication scheme is not supported")
    if not _VISIBLE.fullmatch(token):
        raise _unauthorized("Auth string does not conform to '<scheme> <token>' form")
    return token


def _unauthorized(cause: str, detail: str = "") -> Refused:
    return Refused(401, f"Unauthorized: `{cause}`{': ' if detail else ''}{detail}", "UNAUTHORIZED")


def _hash(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def _load_key(path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except FileNotFoundError:
        new_key = Ed25519PrivateKey.generate()
        write_private(path, new_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ))  # fmt: skip
        return new_key
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ServiceError(
            f"{path} is not an Ed25519 key", hint="delete the file to create a new key; this invalidates all tokens",
            code="BAD_KEY",
        )  # fmt: skip
    return key
