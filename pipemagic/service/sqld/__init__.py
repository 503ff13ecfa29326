"""Databases on real libSQL servers (sqld): one node a location, a primary and replicas that follow it.

Clients send their SQL to the nodes themselves. This package manages: it makes and deletes namespaces (what sqld
calls a database) through each node's admin API, gives every database a signing key of its own, and, for
``--local``, starts the nodes and keeps them going.

`nodes` says which nodes there are, `admin` speaks to one of them, `keys` makes keys and tokens, `namespaces` notes
what the nodes should hold, `engine` brings the nodes to it, with `removals` for what is to go, `metering` counts rows
and blocks by quotas, `checks` looks for open ports, `cluster` and `processes` run nodes on this machine, `service`
ties it together.
"""
