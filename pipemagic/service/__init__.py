"""The whole service, embedded: management API and database HTTP API over SQLite files."""
