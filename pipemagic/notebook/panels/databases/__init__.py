"""The panel of databases: creating, connecting, a look inside, tokens."""
