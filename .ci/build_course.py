"""Build the course: run the teachers' notebooks, release the students' notebooks from them, and run these.

Run it as ``python .ci/build_course.py [NAME...]`` after a change of a notebook in ``solutions/``; a NAME is the start
of a file's name, such as ``3-``. It needs the extra ``course``.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

from pipemagic.teaching.exercises.release import release_file

ROOT = Path(__file__).resolve().parent.parent
PORT = r"(localhost):\d+"


def run(path: Path) -> None:
    """Run a notebook in its folder and save it with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as data:
        os.environ["PIPEMAGIC_DATA"] = data
        client = NotebookClient(notebook, resources={"metadata": {"path": str(path.parent)}}, store_widget_state=False,
                                record_timing=False, extra_arguments=["--log-level=ERROR"])  # fmt: skip
        client.execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [without_port(output) for output in joined(cell.outputs)]
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    nbformat.write(notebook, path)


def joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Join consecutive outputs to the same stream, whose pieces depend on the time; drop empty ones."""
    found: list[nbformat.NotebookNode] = []
    for output in outputs:
        stream = output.get("name")
        if stream and found and found[-1].get("name") == stream:
            found[-1].text += output.text
        elif output.output_type != "display_data" or output.data:
            found.append(output)
    return found


def without_port(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Replace the port of the service, which differs between runs, in text; tests/nbval.cfg does so, too."""
    if output.output_type == "error":
        output.evalue = re.sub(PORT, r"\1:PORT", output.evalue)
        output.traceback = [re.sub(PORT, r"\1:PORT", line) for line in output.traceback]
    elif "text" in output:
        output.text = re.sub(PORT, r"\1:PORT", output.text)
    return output


def main(names: list[str]) -> None:
    """Build the notebooks whose names begin with one of these, by default all."""
    for teacher in sorted((ROOT / "solutions").glob("*.ipynb")):
        if names and not teacher.name.startswith(tuple(names)):
            continue
        print(teacher.name)
        run(teacher)
        student = ROOT / "notebooks" / teacher.name
        release_file(teacher, student)
        run(student)


if __name__ == "__main__":
    main(sys.argv[1:])
