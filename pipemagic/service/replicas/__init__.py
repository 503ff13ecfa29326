"""A primary's log of changes, and the replicas that follow it.

`wal` reads the pages of a commit, `changes` stores them, `pages` writes them into a replica's file. `replica` is one
replica of a database, `followers` all of them, and `replicator` runs the threads that bring them up to date.
"""
