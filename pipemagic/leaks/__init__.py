"""What must not be shared: how tokens, passwords and private host names look, and where a file holds them."""

from pipemagic.leaks.documents import Leak, read, walk
from pipemagic.leaks.patterns import Found, find, holds_secret, masked

__all__ = ["Found", "Leak", "find", "holds_secret", "masked", "read", "walk"]
