"""Complete (Tab) and inspect (Shift+Tab) %%sql cells and magic lines, without requests to a server."""
