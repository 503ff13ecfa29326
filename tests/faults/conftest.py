"""A shell for the tests of cells."""

from magic_shell import ipython, plain_shell, shell

__all__ = ["ipython", "plain_shell", "shell"]
