"""The public names of `import pipemagic`."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pipemagic


def test_every_public_name_exists() -> None:
    for name in pipemagic.__all__:
        assert getattr(pipemagic, name) is not None
    assert set(pipemagic.__all__) <= set(dir(pipemagic))
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", pipemagic.__version__)


def test_every_error_is_public() -> None:
    kinds = [value for value in vars(pipemagic.errors).values() if isinstance(value, type)]
    assert {kind.__name__ for kind in kinds} <= set(pipemagic.__all__)
    assert all(issubclass(kind, pipemagic.PipemagicError) for kind in kinds)


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        _ = pipemagic.conect  # type: ignore[attr-defined]


def test_names_are_resolved_once() -> None:
    fresh = importlib.import_module("pipemagic")
    assert fresh.connect is pipemagic.connect
    assert fresh.Database is pipemagic.Database


def test_no_name_is_listed_more_than_twice() -> None:
    """The exceptions are listed beside their classes; a name that is imported on first use also has a static import."""
    text = Path(pipemagic.__file__).read_text("utf-8")
    counts = {name: len(re.findall(rf"(?<![\w.]){name}(?![\w.])", text)) for name in pipemagic.__all__}
    assert all(counts[name] == 0 for name in pipemagic.errors.__all__)
    assert counts["DatabaseTransaction"] == counts["Result"] == counts["Management"] == 2


@pytest.mark.slow
def test_programs_see_the_types_of_names_that_are_imported_on_first_use(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    program = tmp_path / "program.py"
    program.write_text(
        "import pipemagic\n"
        "from pipemagic import Database, Result, StatementError, connect, errors, management\n"
        "def run(database: Database) -> Result:\n"
        "    try:\n"
        "        return database.execute('SELECT 1')\n"
        "    except (pipemagic.ConnectError, StatementError, errors.LoadError) as error:\n"
        "        reveal_type(error.hint)\n"
        "        raise\n"
        "reveal_type(connect)\n"
        "reveal_type(pipemagic.management)\n"
    )
    options = ["--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}", str(program)]
    run = subprocess.run([sys.executable, "-m", "mypy", *options], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout
    assert 'Revealed type is "str"' in run.stdout
    assert "-> pipemagic.client.database.Database" in run.stdout
    assert "-> pipemagic.management_api.client.Management" in run.stdout
