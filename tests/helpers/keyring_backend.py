"""A keyring in memory."""

from __future__ import annotations

from collections.abc import Iterator

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError


class InMemory(KeyringBackend):
    """A backend of the real package keyring."""

    priority = 1

    def __init__(self):
        super().__init__()
        self.kept, self.locked = {}, False

    def get_password(self, service, username):
        if self.locked:
            raise KeyringLocked("locked")
        return self.kept.get((service, username))

    def set_password(self, service, username, password):
        self.kept[service, username] = password

    def delete_password(self, service, username):
        if (service, username) not in self.kept:
            raise PasswordDeleteError("not there")
        del self.kept[service, username]


@pytest.fixture
def ring() -> Iterator[InMemory]:
    """The keyring of the test."""
    before = keyring.get_keyring()
    backend = InMemory()
    keyring.set_keyring(backend)
    yield backend
    keyring.set_keyring(before)
