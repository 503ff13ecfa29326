"""SQLite files: connections and what they may do, the write lock, the databases that are open."""
