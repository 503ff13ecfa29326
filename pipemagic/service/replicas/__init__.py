"""Files that follow a primary database and answer reads.

`primary_pages` determines which pages a commit wrote and reads them, `replica_file` writes them to a replica's file.
`replica` is one replica of a database, `replica_set` all of them, and `replicator` runs the threads that bring them up
to date. `placement` selects the instance for a request.
"""
