"""The database HTTP API: streams, pipelines and cursors over HTTP."""
