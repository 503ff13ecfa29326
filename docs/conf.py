"""Settings of Sphinx: `sphinx-build -W -b html docs docs/_build/html`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

from pipemagic.version import __version__  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "pipemagic"
author = "The pipemagic developers"
project_copyright = author
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "cell_lexer",
    "reference",
]
exclude_patterns = ["_build", "extensions", "static"]

# The course is written and run in notebooks/; its pages show the outputs of that run.
_course = HERE / "tutorial" / "course"
shutil.rmtree(_course, ignore_errors=True)
_course.mkdir(parents=True)
for _notebook in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
    _content = json.loads(_notebook.read_text("utf-8"))
    _content["metadata"]["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}  # cells have magics
    (_course / _notebook.name).write_text(json.dumps(_content), "utf-8")

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_excludepatterns = ["tutorial/course/*"]
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True
suppress_warnings = ["mystnb.unknown_mime_type"]  # diagrams also have a form as text
# Panels are shown as they are in a saved notebook: the widgets would need scripts of another site.
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
nb_mime_priority_overrides = [
    ("html", kind, None) for kind in ("application/vnd.jupyter.widget-view+json", "text/vnd.mermaid")
]

default_role = "py:obj"
smartquotes = False  # it changes the dashes of options and the quotes of JSON
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"

html_theme = "furo"
html_title = f"pipemagic {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
copybutton_prompt_text = r"^\$ "
copybutton_prompt_is_regexp = True


def setup(app: Sphinx) -> None:
    """Have the cells of pages run: the pages have no header for it, which a notebook would show (`%pipedb help`)."""
    app.connect("source-read", _mark_as_notebook)


def _mark_as_notebook(_app: Sphinx, _name: str, source: list[str]) -> None:
    if "\n```{code-cell}" in source[0]:
        source[0] = f"---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n\n{source[0]}"
