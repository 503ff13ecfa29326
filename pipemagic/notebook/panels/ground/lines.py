"""Words on the line of a magic, quoted as its parser reads them (`pipemagic.notebook.arguments`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pipemagic.session.profiles import word

if TYPE_CHECKING:
    from pipemagic.session import Session

_PLAIN_NAME = re.compile(r"\w[\w -]*")


def listed(names: Iterable[str]) -> str:
    """Write names of columns as one word, with commas between them."""
    return word(",".join(one if _PLAIN_NAME.fullmatch(one) else '"' + one.replace('"', '""') + '"' for one in names))


def on(session: Session, connection: str) -> str:
    """Write the option that names a connection; nothing for the current one."""
    return "" if connection == session.current else f" --on {word(connection)}"
