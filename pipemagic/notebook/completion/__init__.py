"""Tab in %%sql cells and on the lines of the magics. Nothing here asks a server."""
