"""The shells and servers of `magic_shell`, and one embedded service for tests that find it over a data folder."""

from encrypted_service import behind, encrypted
from magic_shell import data, db, ipython, plain_shell, server, service, shell
from started_services import local_service, shared_service

__all__ = [
    "behind",
    "data",
    "db",
    "encrypted",
    "ipython",
    "local_service",
    "plain_shell",
    "server",
    "service",
    "shared_service",
    "shell",
]  # fmt: skip
