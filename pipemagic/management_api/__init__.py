"""The client of the management API, for organizations, groups, databases and tokens."""
