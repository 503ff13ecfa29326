"""Update the lab extension after a change of its script, or of the options of ``%sql``.

Run it as ``python .ci/update_labextension.py``. It writes the list of the options that take a value into the script,
names the script by its content, because browsers keep a file of one name for a year, and writes the name into
package.json. A test compares all of it.
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from pathlib import Path

from pipemagic.notebook.sql_options import OPTIONS

ROOT = Path(__file__).resolve().parent.parent
EXTENSION = ROOT / "labextension"

_LIST = re.compile(r"(?<=const TAKES_VALUE = new Set\(\[\n).*?(?=\n  \]\))", re.DOTALL)
_LOADED = re.compile(r'(?<="load": ")[^"]+')


def script() -> Path:
    """Return the script of the extension."""
    (path,) = EXTENSION.glob("static/*.js")
    return path


def with_options(text: str) -> str:
    """Return the text of the script with the options that take a value."""
    flags = [flag for option in OPTIONS if option.value for flag in (option.flag, option.short) if flag]
    listed = ", ".join(f"'{flag}'" for flag in flags)
    indent = " " * 4
    lines = textwrap.fill(listed, 119, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    return _LIST.sub(lines, text)


def updated() -> dict[Path, str]:
    """Return the files as they should be: the script under its name, and package.json."""
    text, package = with_options(script().read_text("utf-8")), EXTENSION / "package.json"
    name = f"static/remoteEntry.{hashlib.sha256(text.encode()).hexdigest()[:20]}.js"
    return {EXTENSION / name: text, package: _LOADED.sub(name, package.read_text("utf-8"))}


if __name__ == "__main__":
    files = updated()
    script().unlink()
    for path, text in files.items():
        path.write_text(text, "utf-8", newline="\n")
