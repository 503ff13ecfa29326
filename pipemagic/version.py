"""The version of the package, which every part may import."""

__version__ = "0.2.0"

LOWEST_IPYTHON = "8.18"
"""The lowest supported version of IPython, as in pyproject.toml."""
