"""The panel of the session: connections, clocks of transactions, requests."""
