"""The panel of groups, and following a new location until its databases are there."""
