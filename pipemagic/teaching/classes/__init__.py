"""Classes: a database for each student of a roster, hand-outs, progress and resets."""
