"""Export and upload of whole databases, as SQLite files or as SQL text."""
