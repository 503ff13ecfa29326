"""Output, errors and exit codes of the ``pipemagic`` command."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import click
import httpx
import nbformat
import pytest

import pipemagic
from pipemagic import cli, launcher
from pipemagic.cli import quickstart

WAIT = 20.0
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(pipemagic.__file__).parents[1])}
SLUGS = "NAME   SLUG             TYPE\nlocal  local (current)  personal\n"
COMMAND = [sys.executable, "-m", "pipemagic"]

posix = pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
own = pytest.mark.usefixtures("own_folder")


@contextmanager
def serving(folder, *options):
    """Run ``pipemagic serve`` as a process; yield it and its first line."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "--data", folder, *options], env=ENVIRONMENT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


# -- the data folder


def commands(group):
    """Yield the commands below a group."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield from commands(command) if isinstance(command, click.Group) else [command]


@pytest.mark.skipif(sys.platform != "linux", reason="the default folder is that of Linux")
@pytest.mark.parametrize(
    ("variables", "default"),
    [({}, "~/.local/share/pipemagic"), ({"XDG_DATA_HOME": "/srv/shared"}, "/srv/shared/pipemagic")],
)
def test_the_help_names_the_default_folder_and_the_variable(monkeypatch, variables, default):
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    helps = {
        option.get_help_record(click.Context(command))
        for command in commands(cli.pipemagic)
        for option in command.params
        if "--data" in option.opts
    }
    assert helps == {("--data DIR", f"The data folder.  [default: PIPEMAGIC_DATA, or {default}]")}


# -- serve and stop


@own
def test_a_command_that_starts_the_service_says_when_it_ends_and_how_to_keep_it(run, folder):
    started = (
        "The service was started. It ends 20 s after the last notebook, command or request with a token.\n"
        f"Hint: to keep it running, run `pipemagic stop --data {folder}`, then `pipemagic serve --data {folder}`\n"
    )
    assert run("group", "create", "edge", "--location", "ams") == (0, "edge\n", started)
    assert run("db", "create", "flights", "--group", "edge") == (0, "flights\n", "")
    code, url, err = run("db", "show", "flights", "--http-url")
    assert (code, err) == (0, "")
    assert run("stop")[:2] == (0, "")
    assert run("db", "show", "flights", "--http-url") == (0, url, started)


@posix
@own
def test_the_lines_about_a_started_service_name_the_folder_that_the_command_was_given(tmp_path, monkeypatch, capfd):
    folder = tmp_path / "my data"
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    try:
        assert cli.main(["org", "list", "--data", str(folder)]) == 0
        assert f"run `pipemagic stop --data '{folder}'`, then" in capfd.readouterr().err
        assert cli.main(["org", "list"]) == 0
        assert "run `pipemagic stop`, then `pipemagic serve`\n" in capfd.readouterr().err
    finally:
        launcher.stop(folder)


@posix
@own
def test_serve_prints_its_address_ends_on_a_signal_and_keeps_its_port(folder):
    urls = set()
    for number, options in ((signal.SIGTERM, ["--port", "0"]), (signal.SIGINT, []), (signal.SIGHUP, [])):
        with serving(folder, *options) as (process, line):
            about = json.loads(line)
            assert about == {"url": about["url"], "organization": "local", "pid": process.pid}
            assert httpx.get(f"{about['url']}/health").status_code == 200
            urls.add(about["url"])
            process.send_signal(number)
            out, err = process.communicate(timeout=WAIT)
            assert (process.returncode, out, err) == (0, "", ""), number
    assert len(urls) == 1


@own
def test_serve_on_a_port_that_is_taken(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with serving(folder, "--port", str(port)) as (process, line):
            _, err = process.communicate(timeout=WAIT)
            assert (line, process.returncode) == ("", 1)
            assert err.startswith(f"Error: cannot listen on port {port} of 127.0.0.1: ")
            assert "--port 0" in err


@own
def test_commands_use_a_service_that_serve_started_and_a_second_serve_is_refused(folder, run):
    with serving(folder) as (process, line):
        with serving(folder) as (second, answer):  # in a process of its own, whose memory limits and umask it sets
            _, err = second.communicate(timeout=WAIT)
            assert (second.returncode, answer) == (1, "")
        assert err.startswith("Error: the data folder")
        assert json.loads(line)["url"] in err
        assert run("org", "list") == (0, SLUGS, "")
        assert launcher.find(folder).url == json.loads(line)["url"]
        assert process.poll() is None
        stopped = f"Stopped the service at {json.loads(line)['url']}, which used the data folder {folder}.\n"
        assert run("stop") == (0, "", stopped)
        assert process.wait(WAIT) == 0
    assert run("stop") == (0, "", f"No service is running with the data folder {folder}.\n")


# -- accounts and databases


def test_the_quick_start_of_the_documentation(folder, run):
    """The commands of the seed's quick start in order; the output of each is used unchanged."""
    assert run("org", "list") == (0, SLUGS, "")
    code, platform, _ = run("auth", "token")
    assert code == 0
    base = launcher.find(folder).url
    answer = httpx.get(f"{base}/v1/locations", headers={"Authorization": f"Bearer {platform.strip()}"})
    assert "ams" in answer.json()["locations"]

    assert run("group", "create", "edge", "--location", "ams") == (0, "edge\n", "")
    assert run("db", "create", "flights", "--group", "edge") == (0, "flights\n", "")
    code, url, _ = run("db", "show", "flights", "--http-url")
    assert (code, url) == (0, f"http://flights-local.localhost:{base.rpartition(':')[2]}\n")
    code, token, _ = run("db", "tokens", "create", "flights")
    assert (code, len(token.split("."))) == (0, 3)

    host = url.strip().removeprefix("http://")
    answer = httpx.post(
        f"{base}/v2/pipeline", headers={"Host": host, "Authorization": f"Bearer {token.strip()}"},
        json={"requests": [{"type": "execute", "stmt": {"sql": "CREATE TABLE t (a)"}}, {"type": "close"}]},
    )  # fmt: skip
    assert answer.json()["results"][0]["type"] == "ok"


def test_restricted_tokens(folder, run):
    run("group", "create", "edge", "--location", "ams")
    run("db", "create", "flights", "--group", "edge")
    token = run("db", "tokens", "create", "flights", "--read-only", "--expiration", "7d")[1].strip()
    answer = httpx.post(
        f"{launcher.find(folder).url}/v2/pipeline", headers={"Authorization": f"Bearer {token}"},
        json={"requests": [{"type": "execute", "stmt": {"sql": "CREATE TABLE t (a)"}}, {"type": "close"}]},
    )  # fmt: skip
    assert answer.status_code == 403
    code, out, err = run("db", "tokens", "create", "flights", "--expiration", "soon")
    assert (code, out) == (1, "")
    assert err.startswith("Error: ")
    assert "Invalid expiration format" in err


@pytest.mark.parametrize(("arguments", "words"), [
    (["db", "create", "flights", "--group", "nope"], ["group not found", "pipemagic group create nope"]),
    (["db", "show", "nope", "--http-url"], ["could not find database with name nope"]),
    (["db", "tokens", "create", "nope"], ["could not find database with name nope"]),
    (["db", "create", "../x", "--group", "edge"], ["invalid database name"]),
    (["group", "create", "edge", "--location", "xxx"], ["invalid location: xxx"]),
])  # fmt: skip
def test_an_error_is_one_line_and_exit_code_1(run, arguments, words):
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert err.startswith("Error: ")
    assert "Traceback" not in err
    for word in words:
        assert word in err


def test_a_password_in_an_address_is_not_repeated(run, capsys):
    code, out, err = run("db", "show", "http://user:secret@h")
    assert (code, out) == (1, "")
    assert "http://***@h" in err
    assert "secret" not in err
    assert cli.main(["db", "list", "--nope", "http://user:secret@h"]) == 2
    assert "secret" not in capsys.readouterr().err


@own
@pytest.mark.parametrize(("arguments", "message"), [
    (["db", "show", "x", "--url", "--json"], "--url and --json cannot be used together."),
    (["db", "create", "x", "--group", "g", "--from-db", "y", "--from-dump", "-"],
     "--from-dump and --branch-of cannot be used together."),
    (["db", "shell", "http://127.0.0.1:1", "--org", "x", "SELECT 1"], "--org cannot be used with an address."),
    (["db", "shell", "x", "--token-env", "X", "SELECT 1"], "--token-env requires an address."),
    (["db", "locations", "--org", "x"], "No such option '--org'"), (["org", "list", "--org", "x"], "No such option"),
    (["org", "create", "y", "--org", "x"], "No such option"), (["auth", "whoami", "--org", "x"], "No such option"),
    (["auth", "api-tokens", "mint", "y", "--read-only", "--scope", "read"],
     "--scope and --read-only cannot be used together."),
    (["auth", "api-tokens", "mint", "y", "--scope", "raed"], "'raed' is not one of 'read', 'db:create'"),
])  # fmt: skip
def test_options_without_effect_are_refused_before_a_service_is_started(run, folder, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert not folder.exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_standard_output_is_one_line(folder, unbuffered):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "db", "locations", "--data", str(folder)], env=ENVIRONMENT | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=WAIT,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "Error: No space left on device\n")


def test_an_address_without_a_scheme(monkeypatch, capsys):
    monkeypatch.setenv("PIPEMAGIC_API_URL", "nonsense")
    assert cli.main(["db", "list"]) == 1
    assert capsys.readouterr().err.startswith(
        "Error: PIPEMAGIC_API_URL: the address has no scheme\nHint: write libsql://"
    )


def _interrupt(process):
    """Send SIGINT until the process ends: a signal just before a read begins does not end the read."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(WAIT / 10)
            return
    raise AssertionError("the process ignores interrupts")


@posix
def test_prompts_go_to_standard_error_and_ctrl_c_at_one_is_exit_code_130(folder):
    """Standard output is a pipe, as in `name=$(pipemagic auth login)`."""
    control, terminal = os.openpty()
    command = [*COMMAND, "auth", "login", "--data", str(folder)]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdin=terminal, stderr=terminal, stdout=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(terminal)
        for prompt, answer in ((b"username: ", b"ada\n"), (b"password: ", None)):
            shown = b""
            while not shown.endswith(prompt):
                shown += os.read(control, 1000)
            if answer:
                os.write(control, answer)
        _interrupt(process)
        assert process.stdout.read() == b""
        assert process.returncode == 130
    os.close(control)


# -- the quick start


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """Write the quick start as a notebook of these cells; text that begins with # is Markdown."""

    def write(*cells):
        made = [
            nbformat.v4.new_markdown_cell(cell) if cell.startswith("# ") else nbformat.v4.new_code_cell(cell)
            for cell in cells
        ]
        path = tmp_path / "quickstart.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=made), path)
        monkeypatch.setattr(quickstart, "find_notebook", lambda: path)
        return path

    return write


FRAME = """class Frame:  # as a DataFrame, whose import takes longer than the rest
    def __repr__(self): return '   city  n\\n0   Lom  1\\n1  Brno  2'
    def _repr_html_(self): return '<table></table>'
print('printed')"""


def test_the_tour_prints_cells_and_outputs(notebook, capfd):
    path = notebook(
        "# A title",
        FRAME,
        "Frame()",
        "import sys, os; sys.executable, os.getcwd()",
        "None",
    )
    assert cli.main(["tour"]) == 0
    printed, errors = capfd.readouterr()
    assert errors == ""  # no warnings of the kernel either
    assert printed.startswith("# A title\n\n> class Frame:  # ")
    assert "\n> print('printed')\nprinted\n\n> Frame()\n" in printed
    assert "<table>" not in printed.partition("> Frame()")[2]
    assert "   city  n\n0   Lom  1\n1  Brno  2\n" in printed
    assert repr(sys.executable) in printed
    assert "pipemagic-tour-" in printed
    assert nbformat.read(path, as_version=4).cells[1].outputs == []


def test_the_tour_stops_at_an_error(notebook, capsys):
    notebook("print('before')", "1 / 0", "print('after')")
    assert cli.main(["tour"]) == 1
    printed = capsys.readouterr().out
    assert "before" in printed
    assert "ZeroDivisionError: division by zero" in printed
    assert "\x1b[" not in printed
    assert "after" not in printed


def test_the_extra_is_named_when_it_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(quickstart, "find_spec", lambda name: None)
    for command in ("tour", "lab"):
        assert cli.main([command]) == 1
        err = capsys.readouterr().err
        assert err.startswith("Error: the quick start requires ")
        assert 'pip install ".[lab]"' in err


def test_the_copy_for_jupyterlab(tmp_path, notebook):
    packaged = notebook("1 + 1")
    folder = tmp_path / "work"
    folder.mkdir()
    copy = quickstart.writable_copy(folder)
    assert copy == folder / "quickstart.ipynb"
    assert copy.read_bytes() == packaged.read_bytes()
    copy.write_text("mine")
    assert quickstart.writable_copy(folder).read_text() == "mine"


def test_lab_opens_the_copy_and_passes_other_options(tmp_path, notebook, monkeypatch, capfd):
    """A module in the current folder is in the place of JupyterLab, which test_lab.py starts."""
    notebook("1 + 1")
    monkeypatch.setattr(quickstart, "find_spec", lambda name: name)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "jupyterlab.py").write_text("import json, sys; print(json.dumps(sys.argv[1:])); sys.exit(3)")
    monkeypatch.chdir(folder)
    assert cli.main(["lab", "--version"]) == 3
    assert json.loads(capfd.readouterr().out) == [
        str(folder / "quickstart.ipynb"), "--LabApp.default_url=/lab/tree/quickstart.ipynb", "--version",
    ]  # fmt: skip
    assert (folder / "quickstart.ipynb").is_file()
