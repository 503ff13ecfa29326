"""``pipemagic class``: databases for the students of a class, hand-outs, progress and resets."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from string import Template

import click

from pipemagic.cli import console, serving
from pipemagic.cli.api import api_command
from pipemagic.cli.groups import with_group_hint
from pipemagic.cli.shell import encryption_key_in
from pipemagic.client.address import parse_address
from pipemagic.client.names import problem
from pipemagic.client.pasted import strip_quotes
from pipemagic.config import write_private
from pipemagic.errors import SessionError
from pipemagic.management_api.client import Management
from pipemagic.teaching.classes import creation, model, status
from pipemagic.teaching.classes.model import Class, Seat
from pipemagic.teaching.classes.roster import Roster, folded, read_roster, slug
from pipemagic.teaching.classes.serve import serve
from pipemagic.text import escape_controls, list_names, parse_duration, plural, shorten

class_ = click.Group("class", help="Create and run a class: a database for each student.", commands=[serve])

_CLASS = click.argument("name", required=False, default="", metavar="[CLASS]")
YEAR = 366 * 86400
"""Seconds; tokens are valid for at most that time."""

_HANDOUT_COLUMNS = ("student", "email", "database", "address", "token", "expires", "link", "code", "line")
_HANDOUT_PAGE = Path(__file__).with_name("handouts.html")

MOST_RENAMED = 3
"""The most names of students that a roster changes without ``--rename``."""

template_key_option = click.option(
    "--encryption-key-env", metavar="VAR",
    help="The environment variable with the key of an encrypted template; the students' databases are not encrypted.",
)  # fmt: skip

_NEW_TOKENS = "Use --new-tokens to create new tokens and codes for all students."


def duration(text: str) -> float:
    """Convert a duration to seconds."""
    seconds = parse_duration(text)
    if not seconds or seconds > YEAR:
        raise click.BadParameter(f"{text!r} is not a duration of at most a year, such as 90m, 2h or 1d12h")
    return seconds


def size_limit(text: str) -> str:
    """Check a size; an empty one removes the limit."""
    if text:
        serving.size(text)
    return text


def address(text: str) -> str:
    """Check an address, and add the scheme that it lacks; an empty one removes it."""
    if not text:
        return ""
    endpoint, pasted = parse_address(text), strip_quotes(text)
    return pasted if "://" in pasted else endpoint.address


def folder(text: str) -> Path:
    """Check that a folder exists."""
    path = console.absolute_path(text)
    if not path.is_dir():
        raise click.BadParameter(f"folder {path} does not exist")
    return path


@api_command(class_, "create", click.argument("file", type=console.absolute_path, metavar="ROSTER"))
@click.option("--group", required=True, metavar="G", help="An existing group.")
@click.option("--from", "template", default="", metavar="DB", help="Give each student a copy of this database.")
@template_key_option
@click.option(
    "--expires", type=duration, default="2h", metavar="TIME", help="How long the lesson lasts.  [default: 2h]"
)
@click.option("--name", default="", help="The name of the class.  [default: the name of the roster]")
@click.option("--size-limit", type=size_limit, metavar="SIZE", help="Maximum size of each database, for example 100mb.")
@click.option("--address", type=address, metavar="URL", help="The address that students use, if it is another one.")
@click.option("--link", metavar="URL", help="A link on the hand-outs, for example to the notebook.")
@click.option("--record", is_flag=True, help="Record wrong answers to exercises, without their literals.")
@click.option("--rename", is_flag=True, help="Adopt the names of the roster if more than three have changed.")
@click.option("--new-tokens", is_flag=True, help="Create new tokens and codes for all students, with a new expiration.")
@click.option("--output", type=folder, default=".", metavar="DIR", help="The folder for the hand-outs.")
def create(
    api: Management, file: Path, group: str, template: str, expires: float, name: str, record: bool, rename: bool,
    new_tokens: bool, output: Path, encryption_key_env: str | None, **others: str | None,
) -> None:  # fmt: skip
    """Create a database for each student, and write the hand-outs.

    ROSTER is a CSV file with the columns name, email and id. Repeat the command to continue after an interrupt, or
    after students were added to the file. Databases, valid tokens and codes stay as they are.
    """
    roster, key = read_roster(file), encryption_key_in(encryption_key_env)
    name = name or slug(file.stem)
    if wrong := problem("database", f"{name}-x" if name else "", api.slug):
        text = f"invalid class name {shorten(repr(name), 40)}: {wrong}"
        raise SessionError(text, hint="choose another one with --name")
    with model.locked(name):
        lesson = _class_of(api, name, {"group": group, "template": template}, others)
        _set_record(lesson, record=record)
        extended = new_tokens or lesson.expires <= time.time() or not any(seat.token for seat in lesson.seats)
        if extended:
            lesson.expires = time.time() + expires
            lesson.codes = True  # the service may have them by now
        names = {seat.database: seat.student for seat in lesson.seats}
        new = creation.add_students(lesson, roster.students, api.slug)
        _check_names(lesson, names, rename=rename)
        _print_notes(lesson, roster, extended=extended, new=len(new))
        with console.progress_bar("students") as progress, with_group_hint(api, group):
            creation.create(api, lesson, progress=progress, notify=console.print_note, key=key)
        files = _write_handouts(lesson, output)
    console.print_line(f"{name}: {plural(len(lesson.seats), 'student')}, tokens until {_local(lesson.expires)}")
    for path in files:
        console.print_line(str(path))
    if parse_address(_service_of(lesson) if lesson.codes else _address_of(lesson, lesson.seats[0])).loopback:
        console.print_note("The addresses work only on this machine. Use --address URL to name one for other machines.")


def _class_of(api: Management, name: str, fixed: Mapping[str, str], others: Mapping[str, str | None]) -> Class:
    """Return the class of this name, or a new one; raise SessionError if it has another service, group or template."""
    lesson = model.load(name) if name in model.names() else Class(name, api.url, api.slug, fixed["group"])
    _check_service(api, lesson)
    for field, now in fixed.items():
        before = getattr(lesson, field)
        if before != now and any(seat.ready for seat in lesson.seats):
            raise SessionError(
                f"the class {name} has the {field} {before or '(none)'}, not {now or '(none)'}",
                hint="choose another name for a new class with --name",
            )
        setattr(lesson, field, now)
    for field, value in others.items():
        if value is not None:
            setattr(lesson, field, value)
    return lesson


def _set_record(lesson: Class, *, record: bool) -> None:
    """Let a new class record wrong answers; raise SessionError for one that has students already."""
    if record and not lesson.record and any(seat.ready for seat in lesson.seats):
        raise SessionError(
            f"the class {lesson.name} was created without --record",
            hint="choose another name for a new class with --name",
        )
    lesson.record = lesson.record or record


def _check_service(api: Management, lesson: Class) -> None:
    """Raise SessionError if a class belongs to another organization or service; the port of a local one may change."""
    if lesson.organization != api.slug or (lesson.api != api.url and not api.endpoint.loopback):
        raise SessionError(
            f"the class {lesson.name} belongs to the organization {lesson.organization} at {lesson.api}, "
            f"not to {api.slug} at {api.url}",
            hint="use the same PIPEMAGIC_API_URL, --data or --org as when it was created",
        )
    lesson.api = api.url


def _print_notes(lesson: Class, roster: Roster, *, extended: bool, new: int) -> None:
    """Print the notes on the roster, and its differences from a class; raise SessionError if they share no student."""
    for note in roster.notes:
        console.print_note(note)
    earlier, students = len(lesson.seats) - new, {student.key for student in roster.students}
    if not earlier:
        return
    if new == len(students):
        raise SessionError(
            f"none of the {plural(new, 'student')} of {roster.file} is in the class {lesson.name}",
            hint="choose another name for a new class with --name",
        )
    added = plural(new, "student") if new else "no students"
    console.print_note(f"The class {lesson.name} has {plural(earlier, 'student')}. The roster adds {added}.")
    if not extended:
        console.print_note(f"The lesson still ends at {_local(lesson.expires)}. {_NEW_TOKENS}")
    if missing := [lesson.label(seat) for seat in lesson.seats if seat.key not in students]:
        console.print_note(f"These students are in the class but not in the roster: {', '.join(missing)}.")


def _check_names(lesson: Class, before: Mapping[str, str], *, rename: bool) -> None:
    """Print which students have another name than before; raise SessionError for many, unless ``rename`` is set.

    ``before`` are the earlier names by database.
    """
    changes = [
        f"{before[seat.database]} to {seat.student}" for seat in lesson.seats
        if seat.database in before and folded(before[seat.database]) != folded(seat.student)
    ]  # fmt: skip
    if len(changes) > MOST_RENAMED and not rename:
        raise SessionError(
            f"the roster changes the names of {len(changes)} of {len(before)} students, for example {changes[0]}",
            hint="check the columns and the encoding of the file; use --rename if the new names are right",
        )
    if changes:
        console.print_note(f"The roster changes names: {list_names(changes)}.")


@api_command(class_, "reset", click.argument("students", nargs=-1, metavar="[STUDENT]..."), console.yes_option)
@click.option("--class", "name", default="", metavar="CLASS", help="The class.  [default: the only one]")
@click.option("--all", "everyone", is_flag=True, help="Reset the databases of all students.")
@template_key_option
@click.option("--output", type=folder, default=".", metavar="DIR", help="The folder for the hand-outs.")
def reset(
    api: Management, students: Sequence[str], name: str, everyone: bool, yes: bool, output: Path,
    encryption_key_env: str | None,
) -> None:  # fmt: skip
    """Reset the databases of students to the template.

    Addresses, tokens and codes stay valid. If the template has virtual tables, they are new, and so are the hand-outs.
    """
    if bool(students) == everyone:
        raise click.UsageError("Name the students, or use --all.", click.get_current_context())
    key = encryption_key_in(encryption_key_env)
    with model.locked((lesson := model.load(name)).name):
        _check_service(api, lesson)
        seats = lesson.seats if everyone else lesson.find(students)
        whose = plural(len(seats), "student") if everyone else ", ".join(map(lesson.label, seats))
        console.confirm(f"Discard everything in the databases of {whose}?", yes=yes)
        with console.progress_bar("students") as progress:
            renewed = creation.reset(api, lesson, seats, progress, console.print_note, key)
    for seat in seats:
        console.print_line(lesson.label(seat))
    if renewed:
        console.print_note("The databases, tokens and codes are new because the template has virtual tables.")
        for path in _write_handouts(lesson, output):
            console.print_line(str(path))


@api_command(class_, "code", click.argument("students", nargs=-1, required=True, metavar="STUDENT..."))
@click.option("--class", "name", default="", metavar="CLASS", help="The class.  [default: the only one]")
def renew_codes(api: Management, students: Sequence[str], name: str) -> None:
    """Print new codes for students, and the line to type.

    Earlier codes of these students are no longer valid. Tokens that they gave stay valid until the end of the lesson.
    """
    with model.locked((lesson := model.load(name)).name):
        _check_service(api, lesson)
        seats = lesson.find(students)
        creation.renew_codes(api, lesson, seats, console.print_note)
    for seat in seats:
        console.print_line(f"{lesson.label(seat)}: {_line_of(lesson, seat)}")
    console.print_note(f"Each code is valid once, until {_local(lesson.expires)}.")


@api_command(class_, "status", _CLASS, console.json_option)
def show_status(api: Management, name: str, as_json: bool) -> None:
    """Show the progress of the students and of the exercises.

    For each student: time of connection, last activity, cells, errors and passed exercises. For each exercise: how many
    students tried and passed it, the mean number of attempts and points, and with `class create --record` the wrong
    answers that at least three students have now.
    """
    lesson = model.load(name)
    _check_service(api, lesson)
    creation.refresh(lesson, creation.existing(api))
    access = creation.Access(api, lesson, read_only=True)
    rows = status.read_progress(lesson, status.with_own_token(access))
    exercises = status.exercise_progress(rows)
    if as_json:
        students = [{key: value for key, value in asdict(row).items() if key != "answers"} for row in rows]
        console.print_json({
            "class": lesson.name, "expires": lesson.expires, "students": students,
            "exercises": [asdict(row) for row in exercises],
        })  # fmt: skip
        return
    table = status.table_of(rows, time.time())
    console.print_table(status.HEADERS, [
        (shorten(student, 40), *numbers, shorten(escape_controls(error), 60)) for student, *numbers, error in table
    ])  # fmt: skip
    if exercises:
        console.print_line("")
        console.print_table(status.EXERCISE_HEADERS, status.exercise_table(exercises))
    if answers := status.answer_table(exercises):
        console.print_line("")
        console.print_table(status.ANSWER_HEADERS, [
            (name, students, shorten(answer, 80), shorten(reason, 60)) for name, students, answer, reason in answers
        ])  # fmt: skip
    end = "ended" if lesson.expires <= time.time() else "ends"
    console.print_note(f"{lesson.name}: {status.summary(rows)}. The lesson {end} at {_local(lesson.expires)}.")


@api_command(class_, "close", _CLASS)
@click.option("--confirm", default="", metavar="CLASS", help="The name of the class again, instead of the question.")
def close(api: Management, name: str, confirm: str) -> None:
    """Delete the databases of all students of a class."""
    with model.locked((lesson := model.load(name)).name):
        _check_service(api, lesson)
        count = plural(len(lesson.seats), "database")
        console.confirm_name(f"Permanently delete {count} and all work of the students?", lesson.name, confirm)
        with console.progress_bar("students") as progress:
            foreign = creation.close(api, lesson, progress, console.print_note)
    for seat in foreign:
        console.print_note(f"The database {seat.database} was not deleted because it does not belong to the class.")
    console.print_line(lesson.name)


def _local(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


# -- hand-outs: a CSV file for programs and mail merges, and an HTML page to print and cut


def _write_handouts(lesson: Class, folder: Path) -> tuple[Path, Path]:
    """Write ``NAME-handouts.csv`` and ``NAME-handouts.html``, readable by their owner only; return their paths."""
    table, page = (folder / f"{lesson.name}-handouts.{suffix}" for suffix in ("csv", "html"))
    write_private(table, handouts_csv(lesson).encode("utf-8-sig"))  # spreadsheets detect UTF-8 by the mark
    write_private(page, handouts_html(lesson).encode())
    return table, page


def handouts_csv(lesson: Class) -> str:
    """Return the CSV text (RFC 4180), with `_HANDOUT_COLUMNS`; times are local, in ISO 8601."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_HANDOUT_COLUMNS)
    students = lesson.labels()
    for seat in lesson.seats:
        writer.writerow([
            students[seat.key], seat.email, seat.database, _address_of(lesson, seat), seat.token,
            time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(seat.expires)), lesson.link, seat.one_time_code,
            _line_of(lesson, seat),
        ])  # fmt: skip
    return text.getvalue()


def handouts_html(lesson: Class) -> str:
    """Return the page, with a card for each student; page breaks are between cards only."""
    cards = "\n".join(_card(lesson, seat) for seat in lesson.seats)
    return Template(_HANDOUT_PAGE.read_text("utf-8")).substitute(title=escape(f"{lesson.name}: hand-outs"), cards=cards)


def _card(lesson: Class, seat: Seat) -> str:
    """Return the card of a student: with the code, or with the token if the service has no codes."""
    until = time.strftime("%d %B %Y, %H:%M", time.localtime(seat.expires))
    link = f'<p>Notebook: <a href="{escape(lesson.link)}">{escape(lesson.link)}</a></p>\n' if lesson.link else ""
    lines = f"%load_ext pipemagic\n{_line_of(lesson, seat)}"
    picture, note = "", "The token opens your own database only."
    what = "Cells, errors, points and wrong answers" if lesson.record else "Cells, errors and points"
    cell = "".join(f"<code>{escape(line)}</code>" for line in lines.splitlines())
    if seat.one_time_code:
        cell = cell.replace("--code ", "<span>--code ").removesuffix("</code>") + "</span></code>"
        picture, secret = _qr_code(lines), f'<p class="code">{escape(seat.one_time_code)}</p>'
        note = "The code is valid once, and opens your own database only. The same cell works again on this computer."
    else:
        secret = f"<p>Enter this token when you are asked for it:</p>\n<pre>{escape(seat.token)}</pre>"
    return (
        f"<section>\n{picture}<h2>{escape(lesson.label(seat))}</h2>\n<p>{escape(lesson.name)}, until {until}</p>\n"
        f"{link}<p>In a notebook:</p>\n<pre>{cell}</pre>\n{secret}\n"
        f'<p class="note">{note} {what} are recorded in it for the teacher.</p>\n</section>'
    )


def _qr_code(text: str) -> str:
    """Return a QR code as SVG, '' if segno is not installed."""
    try:
        import segno
    except ImportError:
        return ""
    return f"{segno.make_qr(text, error='m').svg_inline(omitsize=True, border=0, svgclass='qr', lineclass=None)}\n"


def _line_of(lesson: Class, seat: Seat) -> str:
    """Return the line with which a student connects."""
    if seat.one_time_code:
        return f"%pipedb connect {_service_of(lesson)} --code {seat.one_time_code}"
    return f"%pipedb connect {_address_of(lesson, seat)}"


def _address_of(lesson: Class, seat: Seat) -> str:
    """Return the address that a student uses with a token."""
    return lesson.address or seat.url


def _service_of(lesson: Class) -> str:
    """Return the address at which the service exchanges codes."""
    return lesson.address or lesson.api
