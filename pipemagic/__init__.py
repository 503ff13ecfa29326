"""pipemagic: SQL over HTTP for notebooks."""

__version__ = "0.1.0"
