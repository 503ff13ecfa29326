"""Print how long a newcomer waits, from README in an empty environment to three results: ``python .ci/clock.py``.

The three are the first result of an own CSV file (README's first example), the first solved exercise of the course, and
rows of a service in another program, which has no pipemagic. Each must be right. The commands and cells are those of
README and of the course.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request, urlopen

from readme_command import command_with

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
SALES = [
    ("day", "shop", "total"),
    ("2026-03-01", "north", 4.5),
    ("2026-03-02", "north", 0.25),
    ("2026-03-02", "west", 4),
]
CELLS = re.compile(r"^```ipython\n(.*?)^```", re.MULTILINE | re.DOTALL)
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def installs(word: str) -> str:
    """Return the part of README's command with a word that installs the checkout."""
    return command_with(word, README).partition("&&")[0].replace('".[', f'"{ROOT}[')


class Clock:
    """Prints the seconds since its start."""

    def __init__(self) -> None:
        self.start = time.monotonic()

    def lap(self, what: str) -> None:
        """Print what has been reached."""
        print(f"{time.monotonic() - self.start:6.0f} s  {what}", flush=True)


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    """Run a command line in a folder; return what it prints."""
    line = ["bash", "-euo", "pipefail", "-c", command]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout


def outputs_of(cells: list[str], folder: Path, environment: dict[str, str]) -> list[str]:
    """Run cells as a new notebook in a folder; return the output of each as text. An error ends the program."""
    empty: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    made = [{**empty, "id": f"cell-{number}", "source": cell} for number, cell in enumerate(cells)]
    path = folder / "clock.ipynb"
    path.write_text(json.dumps({"cells": made, "metadata": {"kernelspec": KERNEL}, "nbformat": 4, "nbformat_minor": 5}))
    try:
        run(f"jupyter execute --inplace {path.name}", folder, environment)
        read = json.loads(path.read_text("utf-8"))["cells"]
    finally:
        path.unlink()
    return [
        "".join("".join(output.get("text") or output["data"].get("text/plain", "")) for output in cell["outputs"])
        for cell in read
    ]


def exercise_of_course() -> tuple[str, list[str]]:
    """Return the name of the first exercise of the course, and the cells down to its solution."""
    cells: list[str] = []
    teacher = json.loads((ROOT / "solutions" / "1-queries.ipynb").read_text("utf-8"))
    for cell in teacher["cells"]:
        text = "".join(cell["source"])
        if text.startswith("%%exercise "):
            answer = "\n".join(line for line in text.splitlines()[1:] if not line.startswith("--"))
            name = text.split()[1]
            return name, [*cells, f"%%check {name}\n{answer}"]
        if cell["cell_type"] == "code":
            cells.append(re.sub(r"^%config PipeMagic.exercises.*\n", "", text, flags=re.MULTILINE))
    sys.exit("the first notebook has no exercise")


def other_program(address: str, token: str, sql: str) -> list[list[str]]:
    """Return the rows of a query as a program reads them that knows only HTTP and JSON."""
    body = {"requests": [{"type": "execute", "stmt": {"sql": sql}}, {"type": "close"}]}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    host, port = address.removeprefix("http://").split(":")  # which not every system resolves
    headers["Host"] = f"{host}:{port}"
    request = Request(f"http://127.0.0.1:{port}/v2/pipeline", json.dumps(body).encode(), headers)
    with urlopen(request, timeout=60) as response:
        (first, _) = json.load(response)["results"]
    return [[value["value"] for value in row] for row in first["response"]["result"]["rows"]]


def main(work: Path) -> None:
    """Take the time in an empty folder."""
    home, data = work / "home", work / "data"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "PIPEMAGIC_DATA": str(data), "IPYTHONDIR": str(home / "ipython"),
                   "PATH": f"{work}/.venv/bin:{os.environ['PATH']}", "VIRTUAL_ENV": f"{work}/.venv"}  # fmt: skip
    clock = Clock()
    run(command_with("venv", README).partition("&&")[0].replace("python3", sys.executable), work, environment)
    run(installs("tour"), work, environment)
    with (work / "sales.csv").open("w", newline="") as file:
        csv.writer(file).writerows(SALES)
    shown = outputs_of(CELLS.findall(README)[:2], work, environment)[1]
    rows = [line.split()[1:] for line in shown.splitlines() if re.match(r"\d", line)]
    assert rows == [["north", "2", "4.75"], ["west", "1", "4.00"]], shown
    clock.lap("the first result of an own CSV file")

    run(installs("notebooks"), work, environment)
    name, cells = exercise_of_course()
    shown = outputs_of(cells, ROOT / "notebooks", environment)[-1]
    assert f"{name}: passed" in shown, shown
    clock.lap("the first solved exercise")

    program = work / ".venv" / "bin" / "pipemagic"
    service = subprocess.Popen([program, "serve", "--port", "0"], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert service.stdout
        assert "http://" in service.stdout.readline()  # it is ready; without it, `db create` would start another one
        run("pipemagic db create shop", work, environment)
        run(
            'pipemagic db shell shop "CREATE TABLE sale (n INTEGER); INSERT INTO sale VALUES (40), (2)"',
            work,
            environment,
        )
        token = run("pipemagic db tokens create shop --read-only", work, environment).strip()
        address = run("pipemagic db show shop --http-url", work, environment).strip()
        assert other_program(address, token, "SELECT sum(n) FROM sale") == [["42"]]
    finally:
        service.terminate()
        service.wait(30)
    clock.lap("rows of the service in another program")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        main(Path(folder))
