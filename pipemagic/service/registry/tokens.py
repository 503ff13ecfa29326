"""The two families of tokens: who may manage (platform tokens) and who may run SQL (database tokens).

A platform token is random and only its hash is in the catalog, so it can be revoked; what a login gives is one
that ends. A database token is an EdDSA JWT that a libSQL server with the same public key accepts, too, and may be
for one database or for all of a group. It is not recorded anywhere: it notes (``gen``) how many rotations there had
been when it was made, and a later rotation of its database or group makes it void.
"""

from __future__ import annotations

import hmac
import math
import re
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pipemagic.errors import ServiceError
from pipemagic.service.files import write_private
from pipemagic.service.http import Refused
from pipemagic.service.layout import KEY_FILE, PLATFORM_TOKEN_FILE
from pipemagic.service.registry import webtokens
from pipemagic.service.registry.accounts import Account, Credential, PlatformToken
from pipemagic.service.registry.catalog import Catalog
from pipemagic.service.registry.records import DatabaseRecord, GroupRecord

PLATFORM_PREFIX = "pmp_"
"""How platform tokens begin: scanners of secrets can find them, and a mix-up can be named."""

LOGIN_PREFIX = "pml_"
"""How the tokens begin that a login gives."""

LOGIN_LIFETIME = 7 * 86400.0
"""Seconds until a login has to be repeated."""

FIRST_TOKEN = "default"
"""Name of the token in the file; the others are made through the management API."""

_REMEMBERED = 1024
_LAST_EXPIRY = 253_402_300_799  # the end of the year 9999, beyond which dates fail in many readers
_UNITS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|us|µs|ns|w|d|h|m|s)")
_PARTS = re.compile(rf"(?:{_PART.pattern})+")


class Grant(msgspec.Struct, frozen=True):
    """What a database token allows. ``subject`` is whom it was made for; streams are bound to it."""

    database: DatabaseRecord
    subject: str
    read_only: bool
    generation: int = 0


@dataclass(frozen=True)
class _Claims:
    database_id: str
    """Empty for a group's token, and the other way round."""
    group_id: str
    subject: str
    read_only: bool
    generation: int
    begins: float | None
    expires: float | None


def parse_expiration(text: str) -> float | None:
    """Read a lifetime such as ``1w2d6h3m`` or ``7d`` as seconds; None for ``never``; `Refused` with 400."""
    if text in ("", "never", "none", "default"):
        return None
    if len(text) > 100 or not _PARTS.fullmatch(text):
        raise Refused(400, "Invalid expiration format")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if not 0 < seconds < _LAST_EXPIRY:
        raise Refused(400, "Invalid expiration format")
    return seconds


class Tokens:
    """Issues and checks tokens. ``now`` gives Unix seconds, ``random(n)`` gives n unguessable bytes.

    At the first start in a folder the signing key and a platform token are made; both are files that only
    their owner may read.
    """

    def __init__(
        self, folder: Path, catalog: Catalog, now: Callable[[], float], random: Callable[[int], bytes],
    ) -> None:  # fmt: skip
        self._catalog = catalog
        self._now = now
        self._random = random
        self._key = _load_key(folder / KEY_FILE)
        self._lock = threading.Lock()
        self._verified: dict[bytes, _Claims] = {}
        self._admit_file(folder / PLATFORM_TOKEN_FILE)

    # -- platform tokens

    def issue_platform(self, account: Account, name: str) -> tuple[PlatformToken, str]:
        """Make a platform token of that name; its value is known to nobody but the caller. 409 if taken."""
        token = self._secret(PLATFORM_PREFIX)
        return self._catalog.accounts.add_token(account, name, _hash(token)), token

    def issue_login(self, account: Account) -> str:
        """Make a token that stands for the account for `LOGIN_LIFETIME`."""
        token = self._secret(LOGIN_PREFIX)
        self._catalog.accounts.add_login(account, _hash(token), self._now() + LOGIN_LIFETIME)
        return token

    def check_platform(self, authorization: str | None) -> Account:
        """Give the account that an ``Authorization`` header stands for; `Refused` with 401 otherwise."""
        return self.credential(authorization).account

    def credential(self, authorization: str | None) -> Credential:
        """Give what is known of the platform token or login in a header; `Refused` with 401 if it is not valid."""
        token = bearer(authorization)
        token_hash = _hash(token)
        found = self._catalog.accounts.credential(token_hash)
        if found is None or not hmac.compare_digest(found.hash, token_hash):
            raise _unauthorized("The platform token is invalid", _mixed_up(token, jwt_expected=False))
        return found

    def _secret(self, prefix: str) -> str:
        return prefix + urlsafe_b64encode(self._random(32)).rstrip(b"=").decode()

    def _admit_file(self, path: Path) -> None:
        """Make the token in the file valid; make the file if there is none (deleting it revokes the token)."""
        accounts = self._catalog.accounts
        account = accounts.operator()
        assert account is not None  # the catalog makes it
        known = any(token.name == FIRST_TOKEN for token in accounts.tokens(account))
        try:
            token = path.read_text("ascii").strip()
        except FileNotFoundError:
            if known:
                accounts.remove_token(account, FIRST_TOKEN)
            write_private(path, self.issue_platform(account, FIRST_TOKEN)[1].encode() + b"\n")
            return
        if accounts.credential(_hash(token)) is None:
            if known:
                accounts.remove_token(account, FIRST_TOKEN)
            accounts.add_token(account, FIRST_TOKEN, _hash(token))

    # -- database tokens

    def issue_database(
        self, database: DatabaseRecord, *, read_only: bool, expires_in: float | None, subject: str,
    ) -> str:  # fmt: skip
        """Make a token for one database, valid for ``expires_in`` seconds (None: for ever)."""
        claims = self._claims_of({"id": database.id, "a": _access(read_only)}, expires_in, subject)
        return self._sign(database, claims)

    def issue_group(
        self, group: GroupRecord, *, read_only: bool, expires_in: float | None, subject: str,
    ) -> str:  # fmt: skip
        """Make a token for all databases of a group, later ones, too; a libSQL server takes the group as a tag."""
        claims = self._claims_of({"p": {_access(read_only): {"tags": [group.id]}}}, expires_in, subject)
        return webtokens.sign(claims, self._key)

    def _claims_of(self, rights: dict[str, Any], expires_in: float | None, subject: str) -> dict[str, Any]:
        now = self._now()
        claims = {**rights, "sub": subject, "iat": int(now), "gen": self._catalog.rotations}
        if expires_in is not None:
            claims["exp"] = min(math.ceil(now + expires_in), _LAST_EXPIRY)
        return claims

    def _sign(self, _database: DatabaseRecord, claims: dict[str, Any]) -> str:
        """Sign the claims of a database's token; another engine has a key for each."""
        return webtokens.sign(claims, self._key)

    def check_database(self, authorization: str | None, database: DatabaseRecord | None) -> Grant:
        """Give what an ``Authorization`` header allows.

        ``database`` is the one that the host name names; with None the token itself says which one it is for.
        `Refused` with 401 (missing, malformed, expired, void, made for a database that is gone), 404 (made for
        another database, whose existence the answer does not give away) or 400 (a group's token names none).
        """
        claims = self._claims(bearer(authorization))
        now = self._now()
        if claims.expires is not None and claims.expires <= now:
            raise _unauthorized("The JWT has expired")
        if claims.begins is not None and claims.begins > now:  # none of ours has it
            raise _unauthorized("The JWT is not valid yet")
        grant = Grant(self._named(claims, database), claims.subject, claims.read_only, claims.generation)
        self._check_generation(grant.generation, grant.database)
        return grant

    def recheck(self, grant: Grant) -> None:
        """Refuse (401) a grant whose token a rotation has made void since it was checked."""
        database = self._catalog.database_by_id(grant.database.id)
        if database is not None:  # the deletion of a database is told otherwise
            self._check_generation(grant.generation, database)

    def _check_generation(self, generation: int, database: DatabaseRecord) -> None:
        if generation < database.rotated:
            raise _unauthorized("The JWT is invalid", "the tokens of its database or group were rotated")

    def _named(self, claims: _Claims, database: DatabaseRecord | None) -> DatabaseRecord:
        """Give the database that a token and a host name (None: neither) name together."""
        if claims.group_id:
            if database is None:
                raise Refused(
                    400, "this token is for a group, so the address must name the database: "
                    f"use the host name of one, <database>-<organization>.{self._catalog.domain}",
                )  # fmt: skip
            if database.group_id != claims.group_id:
                raise _no_namespace(database)
            return database
        named = self._catalog.database_by_id(claims.database_id)
        if named is None:
            raise _unauthorized("The JWT is invalid", "its database was deleted")
        if database is not None and database.id != named.id:
            raise _no_namespace(database)
        return named

    def _claims(self, token: str) -> _Claims:
        """Check the signature, once per token; the claims never change, so they are remembered."""
        key = _hash(token)
        claims = self._verified.get(key)
        if claims is None:
            claims = self._verify(token)
            with self._lock:
                self._verified[key] = claims
                if len(self._verified) > _REMEMBERED:
                    del self._verified[next(iter(self._verified))]
        return claims

    def _verify(self, token: str) -> _Claims:
        try:
            payload = webtokens.verify(token, self._key.public_key())
        except webtokens.InvalidToken:
            raise _unauthorized("The JWT is invalid", _mixed_up(token, jwt_expected=True)) from None
        claims = _read_claims(payload)
        if claims is None:
            raise _unauthorized("The JWT is invalid")
        return claims


def _access(read_only: bool) -> str:
    return "ro" if read_only else "rw"


def _read_claims(payload: dict[str, Any]) -> _Claims | None:
    """Read the claims of a token that is genuine; None if they are not of a kind that is issued here."""
    match payload:
        case {"p": {**rights}, "sub": str(subject)} if len(rights) == 1:
            ((access, scope),) = rights.items()
            match scope:
                case {"tags": [str(group_id)], **others} if not others:
                    database_id = ""
                case _:
                    return None
        case {"id": str(database_id), "sub": str(subject), "a": access} if "p" not in payload:
            group_id = ""
        case _:
            return None
    begins, expires, generation = payload.get("nbf"), payload.get("exp"), payload.get("gen", 0)
    if access not in ("ro", "rw") or not (_is_time(begins) and _is_time(expires) and type(generation) is int):
        return None
    return _Claims(database_id, group_id, subject, access == "ro", generation, begins, expires)


def _is_time(claim: object) -> bool:
    return claim is None or (isinstance(claim, int | float) and not isinstance(claim, bool))


def bearer(authorization: str | None) -> str:
    """Take the token out of an ``Authorization`` header; `Refused` with 401 if there is none."""
    if authorization is None:
        raise _unauthorized("Expected authorization header but none given")
    scheme, _, token = authorization.strip().partition(" ")
    if not token.strip():
        raise _unauthorized("Auth string does not conform to '<scheme> <token>' form")
    if scheme.lower() != "bearer":
        raise _unauthorized("The authentication scheme is not supported")
    return token.strip()


def _no_namespace(database: DatabaseRecord) -> Refused:
    return Refused(404, f"Namespace `{database.name}` doesn't exist", "NOT_FOUND")


def _unauthorized(cause: str, detail: str = "") -> Refused:
    return Refused(401, f"Unauthorized: `{cause}`{': ' if detail else ''}{detail}", "UNAUTHORIZED")


def _mixed_up(token: str, *, jwt_expected: bool) -> str:
    """Say which family the token is of, if it is the other one: a mix-up that people often make."""
    if jwt_expected and token.startswith((PLATFORM_PREFIX, LOGIN_PREFIX)):
        return "this is a platform token; the database interface takes a database token"
    if not jwt_expected and token.count(".") == 2:
        return "this is a database token; the management interface takes a platform token"
    return ""


def _hash(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def _load_key(path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except FileNotFoundError:
        made = Ed25519PrivateKey.generate()
        write_private(path, made.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ))  # fmt: skip
        return made
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ServiceError(
            f"{path} is no Ed25519 key", hint="delete the file to get a new one; all database tokens become void",
            code="BAD_KEY",
        )  # fmt: skip
    return key
