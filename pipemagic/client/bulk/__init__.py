"""Tables written as a whole: from a DataFrame (`load`), or from another database (`copy`); all rows or none."""
