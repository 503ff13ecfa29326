"""A primary's log of changes, and the replicas that follow it.

`wal` reads what a commit wrote, `changes` keeps it on disk, `pages` writes it into a replica's file, `replica`
is one copy of one database, `followers` are all copies of one database, `replicator` keeps them all going.
"""
