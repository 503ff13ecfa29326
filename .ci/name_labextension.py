"""Name the script of the lab extension by its content, after a change: browsers keep a file of one name for a year.

Run it as ``python .ci/name_labextension.py``.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

EXTENSION = Path(__file__).parent.parent / "labextension"


def main() -> None:
    """Rename the script and name it in package.json."""
    (script,) = EXTENSION.glob("static/remoteEntry.*.js")
    name = f"static/remoteEntry.{hashlib.sha256(script.read_bytes()).hexdigest()[:20]}.js"
    script.rename(EXTENSION / name)
    package = EXTENSION / "package.json"
    described = json.loads(package.read_text("utf-8"))
    described["jupyterlab"]["_build"]["load"] = name
    package.write_text(json.dumps(described, indent=2) + "\n", "utf-8")
    print(name)


if __name__ == "__main__":
    main()
