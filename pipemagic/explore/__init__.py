"""Questions about a database and its tables, answered in few round trips; without IPython."""
