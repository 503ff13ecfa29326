"""The shells and servers of `magic_shell`."""

from magic_shell import data, db, plain_shell, service, shell

__all__ = ["data", "db", "plain_shell", "service", "shell"]
