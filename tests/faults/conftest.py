"""A shell for the tests of cells. Each test names the promise that it keeps."""

from magic_shell import ipython, plain_shell, shell
from promises import pytest_generate_tests

__all__ = ["ipython", "plain_shell", "pytest_generate_tests", "shell"]
