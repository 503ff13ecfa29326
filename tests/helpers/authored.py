"""Exercises as students get them, and their answers to these."""

from __future__ import annotations

from pipemagic.teaching.exercises.authoring import author
from pipemagic.teaching.exercises.checking import check_cell, record
from pipemagic.teaching.exercises.exercise import load, parse_cell

BY_SPECIES = "SELECT species, count(*) AS n FROM penguins GROUP BY species"


def make(session, folder, text, name="one"):
    """Define an exercise and return it as students get it."""
    author(parse_cell(name, text), session.connection(), folder).save(folder)
    return load(name, folder)


def answer(session, exercise, text):
    """Return the recorded check of an answer in SQL."""
    return record(check_cell(exercise, session.read(text), session.connection()))


def state(session):
    """Return the names of the tables, and the number of penguins with the sum of their mass."""
    tables = session.run("SELECT group_concat(name) AS names FROM (SELECT name FROM sqlite_schema ORDER BY name)")
    rows = session.run("SELECT count(*) AS n, total(mass) AS mass FROM penguins")
    return tables.names[0], rows.n[0], rows.mass[0]
