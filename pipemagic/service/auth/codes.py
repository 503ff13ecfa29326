"""One-time codes: short texts that people can type, which the service exchanges for tokens of databases.

Codes are short, so their number matters: there are 6.6e11 of 8 characters out of 30. If a program sends 2,000 codes a
second for a lesson of two hours while 200 codes are unused, the chance to find one is 0.4%. Codes that are valid for
more than a day have 12 characters (5.3e17), so that the chance is 2e-5 in a year.

Only wrong codes are counted, and a right one is accepted however many wrong ones came before: many clients are behind
one address, and no client may lock out the others. So the limits stop people who try codes; the number of codes stops
programs.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from hashlib import sha256

from pipemagic.codes import CHARACTERS, LONG, SHORT, normalize
from pipemagic.service.auth.logins import RateLimiter
from pipemagic.service.auth.tokens import TokenAuthority
from pipemagic.service.catalog.catalog import END_CODES, Catalog
from pipemagic.service.catalog.records import DatabaseRecord
from pipemagic.service.responses import Refused

DAY = 86400.0
LONGEST_LIFETIME = 366 * DAY
"""Seconds."""

KEPT = 30 * DAY
"""Seconds for which an expired code is remembered, so that the error names the reason."""


class Codes:
    """Creates and exchanges codes. ``clock`` returns monotonic seconds, ``now`` Unix seconds.

    The catalog has hashes of codes. At most 30 wrong codes a minute have an answer for each network, and 300 for all.
    """

    def __init__(
        self, catalog: Catalog, tokens: TokenAuthority, *, clock: Callable[[], float], now: Callable[[], float],
        random: Callable[[int], bytes],
    ) -> None:  # fmt: skip
        self._catalog, self._tokens, self._now, self._random = catalog, tokens, now, random
        self._by_network = RateLimiter(clock, burst=30, every=2.0)
        self._of_all = RateLimiter(clock, burst=300, every=0.2)

    def create(
        self, database: DatabaseRecord, *, read_only: bool, expires_in: float | None, subject: str, replace: bool
    ) -> tuple[str, float]:
        """Return a new code, and when it expires (Unix seconds); with ``replace`` it is the only one of the database.

        Raise `Refused` (400) unless it expires within a year.
        """
        if expires_in is None or expires_in > LONGEST_LIFETIME:
            raise Refused(400, 'a code must expire: "expiration" must be at most 366d')
        now = self._now()
        code, expires = self._new(SHORT if expires_in <= DAY else LONG), now + expires_in
        with self._catalog.store.change(cached=False) as run:
            run("DELETE FROM codes WHERE expires < ?", (now - KEPT,))
            if replace:
                run(END_CODES.format("?2"), (now, database.id))
            run("INSERT INTO codes (hash, database, subject, read_only, expires) VALUES (?, ?, ?, ?, ?)",
                (self._tokens.code_hash(code), database.id, subject, int(read_only), expires))  # fmt: skip
        return code, expires

    def exchange(self, code: str, key: str, network: str) -> tuple[DatabaseRecord, str, float]:
        """Return the database of a code, a token, and when that expires (Unix seconds).

        The first ``key`` that is sent with a code can be sent again, for a client that has not received the response.
        Raise `Refused`: 401 for a wrong code, 403 for one that has ended or was exchanged with another key, 429 for
        too many wrong ones.
        """
        code_hash = self._tokens.code_hash(normalize(code))
        redeemer = sha256(key.encode("utf-8", "surrogatepass")).digest()
        rows = self._catalog.store.rows("SELECT 1 FROM codes WHERE hash = ?", (code_hash,))
        if rows:  # wrong ones are not worth a transaction
            with self._catalog.store.change(cached=False) as run:
                run("UPDATE codes SET redeemer = ? WHERE hash = ? AND redeemer IS NULL AND expires > ?",
                    (redeemer, code_hash, self._now()))  # fmt: skip
                rows = run("SELECT database, subject, read_only, expires, redeemer FROM codes WHERE hash = ?",
                           (code_hash,))  # fmt: skip
        if not rows:
            self._count_wrong(network)
            raise Refused(401, "the code is wrong", "CODE_WRONG")
        [(database_id, subject, read_only, expires, stored)] = rows
        database, left = self._catalog.database_by_id(database_id), expires - self._now()
        if left <= 0 or database is None:
            raise Refused(403, "the code has expired, or was replaced by a newer one", "CODE_EXPIRED")
        if not hmac.compare_digest(stored, redeemer):
            raise Refused(403, "the code was used before, and is valid once", "CODE_USED")
        token = self._tokens.issue_database(database, read_only=bool(read_only), expires_in=left, subject=subject)
        return database, token, expires

    def _new(self, length: int) -> str:
        text = ""
        while len(text) < length:
            [number] = self._random(1)
            if number < 240:  # a multiple of 30: each character is as likely as the others
                text += CHARACTERS[number % len(CHARACTERS)]
        return text

    def _count_wrong(self, network: str) -> None:
        """Raise `Refused` (429) after too many wrong codes of a network, or of all."""
        try:
            self._by_network.take(network)
            self._of_all.take("")
        except Refused as refused:
            text = "too many wrong codes were sent; a right one is accepted at any time"
            raise Refused(429, text, headers=refused.headers) from None
