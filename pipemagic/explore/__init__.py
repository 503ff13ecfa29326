"""List, profile, check, compare and plot tables in few round trips; without IPython."""
