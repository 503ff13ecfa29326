"""The protocol (Hrana over HTTP) as data and pure functions, for client and server, which use all of its modules."""
