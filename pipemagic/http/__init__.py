"""HTTP/1.1 over sockets, as a transport of httpx."""
