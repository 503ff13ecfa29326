"""Connections, cells and organizations: the engine below the magics, without IPython."""

from pipemagic.session.connection import Connection
from pipemagic.session.profiles import Profile, Profiles
from pipemagic.session.results import CellResult, Outcome
from pipemagic.session.session import Session

__all__ = ["CellResult", "Connection", "Outcome", "Profile", "Profiles", "Session"]
