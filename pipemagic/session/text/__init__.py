"""What becomes of the text of a cell before it is sent: templates, saved statements, names and parameters."""
