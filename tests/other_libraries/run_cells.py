"""Run cells in an IPython shell, as a notebook does, in the environment beside, which does not have pytest.

Standard input is a JSON list of cells. The first line of standard output is one of outputs: whether the cell succeeded,
and its text.
"""

from __future__ import annotations

import json
import sys

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

config = Config()
config.HistoryManager.enabled = False
config.InteractiveShell.colors = "nocolor"
shell = InteractiveShell.instance(config=config)
outputs = []
for cell in json.load(sys.stdin):
    with capture_output(display=False) as captured:
        success = shell.run_cell(cell).success
    outputs.append([success, captured.stdout + captured.stderr])
print(json.dumps(outputs), flush=True)  # more lines can follow: JupySQL prints what it closes
