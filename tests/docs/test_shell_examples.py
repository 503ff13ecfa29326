"""The shell commands of README and of each page of docs/ run, and print the output that is shown below them.

The fences ``console`` and ``sh`` of a page run from top to bottom in one bash, whose home and folder are empty. In a
``console`` fence, the lines behind a command are its whole output. A ``sh`` fence must succeed; a ``text`` fence
directly behind it is its output. Hidden commands are comments that begin with ``shell``. A fence below
``<!-- not run: REASON -->`` does not run.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from page_examples import DOCS, GENERATED, OTHER_VARIABLES, PAGES, README, ROOT, Step, name, normalize_commands, steps

from pipemagic import launcher
from pipemagic.cli.doctor import CHECKS
from pipemagic.service.files import RUNTIME_FILE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="bash runs the commands")

HELPERS = ROOT / "tests" / "helpers"
TIMEOUT = 400  # seconds, for all commands of a page
END = "\x1e"
"""Written behind the output of each step."""

INSTALLS = "its commands install packages and open JupyterLab; .ci/run runs the first two of README"
SERVES = "its commands use addresses, certificates and folders of a server; tests/service/test_hosting.py starts some"
NOT_RUN = {
    "README": INSTALLS,
    "tutorial/index": INSTALLS,
    "analysts/speed": "the benchmarks take minutes; .ci/run runs the command",
    "reference/management-api": "the address is that of the reader's service",
    **dict.fromkeys(("operators/serve", "operators/operate"), SERVES),
}
"""Pages whose shell commands do not run. For single fences, the page has a reason."""
NEEDED = {"analysts/scripts": ("jq", "papermill"), "operators/cluster": ("openssl",)}
"""Programs that a page calls and that not every system has."""

SHELL_PAGES = [
    page
    for page in PAGES
    if page not in GENERATED and name(page) not in NOT_RUN and any(not step.not_run for step in steps(page))
]


def test_each_page_of_the_lists_needs_its_entry():
    """A page that runs nowhere has commands that could run, and a page that needs a program calls it."""
    run = {name(page): [step.source for step in steps(page) if not step.not_run] for page in PAGES}
    assert [page for page in NOT_RUN if not run[page]] == []
    assert [
        (page, program)
        for page, programs in NEEDED.items()
        for program in programs
        if not re.search(rf"\b{program}\b", "\n".join(run[page]))
    ] == []


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home folder with the data and the settings; services with folders in it are stopped at the end."""
    folder = tmp_path / "home"
    folder.mkdir()
    for variable in (*OTHER_VARIABLES, "PIPEMAGIC_CONFIG", "PIPEMAGIC_DATA", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    paths = [str(HELPERS), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    yield folder
    for file in folder.rglob(RUNTIME_FILE):
        launcher.stop(file.parent)


def run(given: list[Step], home: Path) -> list[str]:
    """Run steps in one bash; return the output of each one that ended."""
    script, output = home.parent / "script.sh", home.parent / "output.txt"
    script.write_text("".join(map(source, given)), "utf-8")
    with output.open("wb") as file:
        bash = subprocess.Popen(
            ["bash", str(script)],
            cwd=home, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            bash.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(bash.pid, signal.SIGKILL)
            bash.wait()
    return output.read_text("utf-8").split(END)


def source(step: Step) -> str:
    """Return a part of the script; without an expected output, the script ends if a command fails."""
    text = f"{step.source}\n"
    if step.expected is None:
        text = f"set -eo pipefail\n{text}set +eo pipefail\n"
    return f"{text}printf '\\036'\n"


def check(given: list[Step], home: Path, where: str) -> None:
    """Run the steps that have no reason not to run, and compare their outputs."""
    given = [step for step in given if not step.not_run]
    outputs = run(given, home)
    for step, output in zip(given, outputs, strict=False):
        shown = f"{where}, line {step.line}:\n{step.source}\n{output}"
        if step.expected is not None:
            assert normalize_commands(output, str(home)) == normalize_commands(step.expected), shown
    ended = len(outputs) - 1  # behind the last mark, there is nothing
    all_ended = ended == len(given)
    assert all_ended, f"{where}, line {given[ended].line}: failed:\n{given[ended].source}\n{outputs[-1]}"


@pytest.mark.parametrize("page", SHELL_PAGES, ids=name)
def test_the_commands_print_the_output_of_the_page(page, home, request, require_real):
    for program in NEEDED.get(name(page), ()):
        if not shutil.which(program):
            require_real(f"{program} is not installed")
    if page.stem == "cluster":
        request.getfixturevalue("sqld_binary")
    check(steps(page), home, name(page))


def test_the_first_steps_install_as_readme_does():
    first, *_ = steps(DOCS / "analysts" / "start.md")
    commands = [line.strip() for step in steps(README) for line in re.split("&&|\n", step.source)]
    assert set(first.source.splitlines()[2:-1]) <= {*commands}, "besides git clone, cd and pipemagic lab"


def test_the_page_shows_each_check_of_doctor():
    (step,) = [step for step in steps(DOCS / "analysts" / "errors.md") if "pipemagic doctor" in step.source]
    lines = [line for line in step.source.splitlines()[1:] if not line.startswith(" ")]
    assert [line[6:18].rstrip() for line in lines] == list(CHECKS)


PARTS = """\
<!-- shell
x=2
-->
1. A list:
   <!-- not run: it needs an account -->
   ```sh
   pipemagic stop
   ```
   ```console
   $ echo 1 \\
       $x
   1 2
   $ true
   ```
   ```sh
   echo 3
   ```
   ```text
   3
   ```
"""


def test_commands_outputs_and_reasons_are_found_and_run(home):
    page = home / "page.md"
    page.write_text(PARTS, "utf-8")
    found = steps(page)
    assert [(step.source, step.line, step.expected, step.not_run) for step in found] == [
        ("x=2", 2, None, ""),
        ("pipemagic stop\n", 7, None, "it needs an account"),
        ("echo 1 \\\n    $x\n", 10, "1 2\n", ""),
        ("true\n", 13, "", ""),
        ("echo 3\n", 16, "3\n", ""),
    ]
    check(found, home, "page")


FAILURES = {
    "another output": ([Step("echo 1; echo 2", 1, expected="1\n")], "echo 2"),
    "an output that is not shown": ([Step("echo 1", 1, expected="")], "echo 1"),
    "a message that is not shown": ([Step("pipemagic nothing", 1, expected="")], "No such command 'nothing'"),
    "a command that fails": ([Step("false\ntrue\n", 1)], "failed:\n  false"),
    "a failing part of a pipe": ([Step("false | true", 1)], "failed:\n  false"),
    "the end of the shell": ([Step("exit", 1, expected=""), Step("true", 2, expected="")], "failed:\n  exit"),
}


@pytest.mark.parametrize(("given", "message"), FAILURES.values(), ids=FAILURES)
def test_a_page_with_a_mistake_fails(given, message, home):
    with pytest.raises(AssertionError, match=re.escape(message)):
        check(given, home, "page")


def test_a_fence_that_begins_with_an_output_is_refused(tmp_path):
    (tmp_path / "page.md").write_text("```console\nls\n```\n")
    with pytest.raises(ValueError, match="line 2 of a console fence is the output of no command"):
        steps(tmp_path / "page.md")


def test_dates_times_and_the_home_folder_are_not_compared():
    assert normalize_commands("until 2026-11-27 02:18\n00:20  1 min ago\n/tmp/x/a.csv", "/tmp/x") == (
        "until DATE\nHH:MM  1 min ago\n/home/ada/a.csv"
    )
