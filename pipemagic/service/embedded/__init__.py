"""The embedded engine: SQLite files of this process behind the database interface."""
