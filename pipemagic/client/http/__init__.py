"""HTTP/1.1 as the client speaks it: by sockets of its own, or through httpx where that is asked for."""
