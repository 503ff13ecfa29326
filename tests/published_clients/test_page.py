"""The examples of docs/operators/clients.md: each is a program that prints what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from published_clients import PUBLISHED

PAGE = Path(__file__).parents[2] / "docs" / "operators" / "clients.md"
EXAMPLE = re.compile(
    r"^### (?P<title>[^\n]+)\n(?:(?!^#)[^\n]*\n)*?```(?P<language>js|python)\n(?P<code>.*?)```\n"
    r"(?:\n<!-- illustration -->\n)?```text\n(?P<output>.*?)```",
    re.MULTILINE | re.DOTALL,
)
TIMEOUT = 120  # seconds
ABORTS_AT_EXIT = {"aiolibsql"}
"""A thread of these packages may still run when Python ends, which then aborts the process after all of its output.

aiolibsql 0.3.0: 16 of 400 programs on a busy machine, none of 400 that wait for 0.1 s before they end, as the page's
program does. A wait makes it rare, not impossible.
"""


class Example(NamedTuple):
    """A program on the page, and what it prints."""

    title: str
    language: str
    code: str
    output: str


def examples() -> list[Example]:
    text = PAGE.read_text("utf-8")
    return [Example(*found.group("title", "language", "code", "output")) for found in EXAMPLE.finditer(text)]


@pytest.fixture
def command(request, tmp_path):
    """Return the command that runs an example; its script is removed afterwards."""
    written = []

    def command_of(example: Example) -> list[str | Path]:
        if example.language == "js":  # node finds packages in the folders above the script only
            folder = request.getfixturevalue("npm_folder") / tmp_path.name
            folder.mkdir(exist_ok=True)
            script = folder / "example.mjs"
            program: str | Path = "node"
        else:
            script = tmp_path / "example.py"
            program = request.getfixturevalue("clients_python")
        script.write_text(example.code, "utf-8")
        written.append(script)
        return [program, script]

    yield command_of
    for script in written:
        shutil.rmtree(script.parent)


@pytest.mark.parametrize(
    "example", examples(), ids=lambda example: f"{example.language}-{example.title.rpartition('/')[2]}"
)
def test_an_example_prints_what_the_page_shows(example, command, target, served, authority):
    needs_tls = any(client.tls and client.package == example.title for client in PUBLISHED)
    trust = dict.fromkeys(("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"), str(authority.file))
    own = {
        "DATABASE_URL": target.tls.url if needs_tls else target.url,
        "DATABASE_TOKEN": target.database.token,
        "SERVICE_URL": served.address,
        "PLATFORM_TOKEN": served.platform_token,
        "PYTHONPATH": "",
        **trust,
    }
    done = subprocess.run(
        command(example), env={**os.environ, **own}, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT
    )
    ends = {0, -signal.SIGABRT} if example.title in ABORTS_AT_EXIT else {0}
    assert done.returncode in ends, done.stderr
    assert done.stdout == example.output


def test_every_tested_package_has_an_example():
    shown = "\n".join(example.code for example in examples())
    for package in {client.package for client in PUBLISHED} - {
        "libsql-experimental"
    }:  # which takes the lines of libsql
        assert package in shown or package.replace("-", "_") in shown, package
    fences = re.findall(r"^```(?:js|python)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(examples()) == len(fences)
