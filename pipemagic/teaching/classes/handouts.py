"""The hand-outs of a class: a CSV file for programs and mail merges, and an HTML page to print and cut."""

from __future__ import annotations

import csv
import io
import time
from html import escape
from pathlib import Path
from string import Template

from pipemagic.config import write_private
from pipemagic.teaching.classes.model import Class, Seat

COLUMNS = ("student", "email", "database", "address", "token", "expires", "link")

_PAGE = Path(__file__).with_name("handouts.html")


def write_handouts(class_: Class, folder: Path) -> tuple[Path, Path]:
    """Write ``NAME-handouts.csv`` and ``NAME-handouts.html``, readable by their owner only; return their paths."""
    table, page = (folder / f"{class_.name}-handouts.{suffix}" for suffix in ("csv", "html"))
    write_private(table, as_csv(class_).encode("utf-8-sig"))  # spreadsheets detect UTF-8 by the mark
    write_private(page, as_html(class_).encode())
    return table, page


def as_csv(class_: Class) -> str:
    """Return the CSV text (RFC 4180), with `COLUMNS`; times are local, in ISO 8601."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for seat in class_.seats:
        writer.writerow([
            seat.student, seat.email, seat.database, address_of(class_, seat), seat.token,
            time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(seat.expires)), class_.link,
        ])  # fmt: skip
    return text.getvalue()


def as_html(class_: Class) -> str:
    """Return the page, with a card for each student; page breaks are between cards only."""
    cards = "\n".join(_card(class_, seat) for seat in class_.seats)
    return Template(_PAGE.read_text("utf-8")).substitute(title=escape(f"{class_.name}: hand-outs"), cards=cards)


def _card(class_: Class, seat: Seat) -> str:
    until = time.strftime("%d %B %Y, %H:%M", time.localtime(seat.expires))
    link = f'<p>Notebook: <a href="{escape(class_.link)}">{escape(class_.link)}</a></p>\n' if class_.link else ""
    lines = f"%load_ext pipemagic\n%pipedb connect {address_of(class_, seat)}"
    return (
        f"<section>\n<h2>{escape(seat.student)}</h2>\n<p>{escape(class_.name)}, until {until}</p>\n{link}"
        f"<p>In a notebook:</p>\n<pre>{escape(lines)}</pre>\n"
        f"<p>Enter this token when you are asked for it:</p>\n<pre>{escape(seat.token)}</pre>\n"
        '<p class="note">The token opens your own database only. Cells, errors and points are recorded in it for the '
        "teacher.</p>\n</section>"
    )


def address_of(class_: Class, seat: Seat) -> str:
    """Return the address that a student uses."""
    return class_.address or seat.url
