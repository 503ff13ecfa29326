"""Databases in and out as a whole: plain SQLite files and SQL text."""
