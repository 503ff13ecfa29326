"""What every panel stands on: models that work, views that draw a tree, the widget, the page's own files."""
