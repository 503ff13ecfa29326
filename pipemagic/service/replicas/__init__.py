"""Files that follow a primary database and answer reads.

`primary_pages` determines which pages a commit wrote and reads them. `replica` is one replica of a database and its
file, `replica_set` all of them, and `replicator` runs the threads that bring them up to date. `placement` selects the
instance for a request.
"""
