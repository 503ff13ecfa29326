"""How fast pipemagic is, beside something that anybody can run. See README.md here."""
