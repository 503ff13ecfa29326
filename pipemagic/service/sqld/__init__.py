"""The engine of real libSQL servers (sqld): one node for each location, a primary and the replicas that follow it.

Clients send their SQL to the nodes. This package creates and deletes namespaces (what sqld calls a database) through
the admin API of the nodes, creates a signing key for each database, and runs the nodes of ``--local``.
"""
