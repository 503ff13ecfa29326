"""The quick start notebook, run in the terminal (``pipemagic tour``) or opened in JupyterLab (``pipemagic lab``).

Also what an installation of JupyterLab needs for them, and for panels.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import pipemagic
from pipemagic.errors import UnsupportedError

if TYPE_CHECKING:
    from nbclient import NotebookClient

NAME = "quickstart.ipynb"
CELL_TIMEOUT = 300  # seconds; the longest cell takes a few
START_TIMEOUT = 60


@click.command()
def tour() -> int:
    """Run the quick start notebook here and print its results."""
    check_installed("nbclient", "nbformat", "ipykernel")
    import nbformat
    from nbclient import NotebookClient

    document = nbformat.read(find_notebook(), as_version=4)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory(prefix="pipemagic-tour-", ignore_cleanup_errors=True) as folder:
        client = NotebookClient(
            document, timeout=CELL_TIMEOUT, startup_timeout=START_TIMEOUT, kernel_name="python3",
            resources={"metadata": {"path": folder}},
            extra_arguments=["--log-level=ERROR"],  # ipykernel warns about TCP, which it uses on loopback only
        )  # fmt: skip
        with client.setup_kernel():
            return 0 if all(run_cell(client, index, cell) for index, cell in enumerate(document.cells)) else 1


def run_cell(client: NotebookClient, index: int, cell: Any) -> bool:
    """Print a cell; run code and print its outputs; return False if it fails."""
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    if cell.cell_type != "code":
        click.echo(f"{cell.source}\n")
        return True
    click.echo("\n".join(f"> {line}" for line in cell.source.splitlines()))
    failure = None
    try:
        client.execute_cell(cell, index)
    except CellExecutionError:
        failure = ""  # the traceback is among the outputs
    except (CellTimeoutError, DeadKernelError) as error:
        failure = f"{type(error).__name__}: {error}\n"
    for text in filter(None, map(plain_text, cell.outputs)):
        click.echo(text.rstrip("\n"))  # without colours if it is not a terminal
    click.echo(f"\n{failure}" if failure else "")
    return failure is None


def plain_text(output: Any) -> str:
    """Return an output as a terminal shows it."""
    match output.output_type:
        case "stream":
            return str(output.text)
        case "error":
            return "\n".join(output.traceback)
    return str(output.get("data", {}).get("text/plain", ""))


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[JUPYTERLAB OPTIONS]...")
def lab(options: Sequence[str]) -> int:
    """Open the quick start notebook in JupyterLab.

    Other options are passed to JupyterLab.
    """
    check_installed("jupyterlab", "ipykernel")
    notebook = writable_copy(Path.cwd())
    opened = f"--LabApp.default_url=/lab/tree/{NAME}"  # also by the addresses that JupyterLab prints
    command = [sys.executable, "-m", "jupyterlab", str(notebook), opened, *options]
    with subprocess.Popen(command) as process, _passing_sigterm(process):
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # JupyterLab receives it, too, and asks whether to end


@contextmanager
def _passing_sigterm(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass SIGTERM on to a process, which ends its children before it ends; by default it would survive."""
    replaced = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, replaced)


def find_notebook() -> Path:
    """Return the path of the packaged notebook, or of the repository's notebook in a checkout."""
    package = Path(pipemagic.__file__).parent
    for folder in (package / "notebooks", package.parent / "notebooks"):
        if (folder / NAME).is_file():
            return folder / NAME
    raise UnsupportedError(
        f"this installation of pipemagic has no {NAME}",
        hint='reinstall pipemagic, in its checkout: pip install --force-reinstall ".[lab]"',
    )


def writable_copy(folder: Path) -> Path:
    """Copy the notebook to the folder, or to a new folder if that one is read-only; keep an existing copy."""
    if (folder / NAME).exists():
        return folder / NAME
    if not os.access(folder, os.W_OK):
        folder = Path(tempfile.mkdtemp(prefix="pipemagic-lab-"))
    shutil.copyfile(find_notebook(), folder / NAME)
    return folder / NAME


def check_installed(*modules: str, purpose: str = "the quick start") -> None:
    """Raise `UnsupportedError` for missing modules; select the kernel of this environment."""
    if missing := [module for module in modules if find_spec(module) is None]:
        raise UnsupportedError(
            f"{purpose} requires {', '.join(missing)}, which {'are' if missing[1:] else 'is'} not installed",
            hint='in a checkout of pipemagic: pip install ".[lab]"', code="LAB_MISSING",
        )  # fmt: skip
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # not a kernel of the same name that is installed elsewhere


def check_panels(_data: Path | None) -> tuple[str, str]:
    """Check that JupyterLab, which may run in another environment than the kernels, can show panels."""
    lab = shutil.which("jupyter-lab")
    if lab is None:
        return "JupyterLab is not on the PATH", ""
    command = [str(Path(lab).resolve().with_name("jupyter")), "--paths", "--json"]
    try:
        folders = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["data"]
    except (OSError, subprocess.CalledProcessError):
        return f"cannot find the extensions of {lab}", "`jupyter labextension list` there must list anywidget"
    for name in ("@jupyter-widgets/jupyterlab-manager", "anywidget"):
        if not any(Path(folder, "labextensions", name).is_dir() for folder in folders):
            hint = "run pip install anywidget in its environment, then reload the page"
            return f"{lab} shows panels without their buttons: {name} is missing", hint
    return f"{lab} shows panels", ""
