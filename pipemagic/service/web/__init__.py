"""The service as a process that speaks HTTP: sockets, TLS, limits of the wire, logs, metrics."""
