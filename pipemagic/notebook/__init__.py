"""The magics, their display and the panels: the only code that imports IPython or ipywidgets."""
