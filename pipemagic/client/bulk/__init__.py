"""Load DataFrames into tables, and copy tables between databases."""

PREFIX = "_pipemagic_load_"
"""The prefix of the names of staging tables, which lists of tables omit."""
