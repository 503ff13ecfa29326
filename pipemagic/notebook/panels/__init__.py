"""The panels of `%pipedb panel`: ipywidgets that persist and are updated in place, and anywidget components."""
