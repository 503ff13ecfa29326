"""The magics, their display and the panels: the only code that imports IPython or ipywidgets."""

from pipemagic.notebook.extension import load as load_ipython_extension
from pipemagic.notebook.extension import unload as unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
