"""The panel Explore: a table by pages, sorted and filtered by the server; profiles; export."""
