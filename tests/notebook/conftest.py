"""The shells and servers of `magic_shell`, and one embedded service for tests that find it over a data folder."""

from encrypted_service import encrypted, service_behind
from magic_shell import data, db, ipython, plain_shell, server, service, shell
from started_services import local_service, shared_service

__all__ = [
    "data", "db", "encrypted", "ipython", "local_service", "plain_shell", "server", "service", "service_behind",
    "shared_service", "shell",
]  # fmt: skip
