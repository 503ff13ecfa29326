"""Loading DataFrames into tables, and copying tables between databases."""

PREFIX = "_pipemagic_load_"
"""The beginning of the names of staging tables, which no list of tables shows."""
