"""The panel of locations, with its map of the world."""
