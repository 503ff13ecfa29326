"""The protocol (Hrana over HTTP) as data and pure functions, for both sides of the wire."""
