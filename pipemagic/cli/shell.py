"""``pipemagic db shell``: SQL typed in, given as an argument, or read from standard input."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pipemagic import sql as sqltext
from pipemagic.cli.base import Commands, note, say
from pipemagic.cli.platform import management
from pipemagic.cli.rows import MODES
from pipemagic.configuration import config_folder
from pipemagic.counts import plural
from pipemagic.errors import PipemagicError, SessionError, StatementError, TransactionLost

if TYPE_CHECKING:
    from pipemagic.client.database import Database, Result
    from pipemagic.client.stream import ClientStream

HISTORY = "shell_history"
HISTORY_LENGTH = 1000  # lines
TOKEN_LIFE = "2d"
HELP = """\
Statements end with a semicolon and may take several lines. Ctrl-C stops a statement, or what you type.
.tables              the names of tables and views
.schema [NAME]       how they were created
.dump                the database as SQL text
.mode table|csv|json how rows are shown
.help                this text
.quit                leave; an open transaction is rolled back"""

_TABLES = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite^_%' ESCAPE '^'"
_SCHEMA = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL"


class Quit(Exception):
    """The user wants to leave."""


def add_command(db: Commands) -> None:
    """Declare the command."""
    shell = db.add("shell", _shell, "run SQL: typed in, given here, or from standard input", organization=True)
    shell.add_argument("database", metavar="DB|URL", help="a database of the organization, or an address")
    shell.add_argument("sql", nargs="?", metavar="SQL")
    shell.add_argument("--mode", choices=sorted(MODES), default="table", help="how rows are shown (default: table)")
    shell.add_argument("--token-env", metavar="VAR", help="the variable with the token for an address")


def _shell(options: argparse.Namespace) -> None:
    with _opened(options) as database, database.open_stream() as stream:
        shell = Shell(database, stream, options.database.rpartition("/")[2], options.mode)
        if options.sql is not None:
            shell.run_all([options.sql])
        elif sys.stdin.isatty():
            shell.talk()
        else:
            shell.run_all(sys.stdin)


@contextmanager
def _opened(options: argparse.Namespace) -> Iterator[Database]:
    from pipemagic.client.database import Database
    from pipemagic.session.secrets import DATABASE_TOKENS, Environment

    if "://" in options.database:
        token = Environment(os.environ).token(options.token_env, DATABASE_TOKENS)
        with Database(options.database, token) as database:
            yield database
        return
    with management(options) as api:
        info = api.database(options.database)
        with Database(info.url, api.create_token(info.name, expiration=TOKEN_LIFE)) as database:
            yield database


class Shell:
    """Runs statements and dot commands on one stream, and prints what they give."""

    def __init__(self, database: Database, stream: ClientStream, name: str, mode: str) -> None:
        self._database, self._stream, self._name, self._mode = database, stream, name, mode
        self._talks = False

    # -- without a terminal

    def run_all(self, chunks: Iterator[str] | list[str]) -> None:
        """Run a script up to its first error, which is raised; so is a transaction that it leaves open."""
        with suppress(Quit):
            for text in sqltext.statements_of(chunks):
                self._run_text(text)
        if self._in_transaction:
            raise TransactionLost(
                "the script left a transaction open, which was rolled back", hint="end it with COMMIT"
            )

    def _run_text(self, text: str) -> None:
        """Run a statement, and the dot commands on the lines before it."""
        while text.startswith("."):
            line, _, text = text.partition("\n")
            self._command(line)
            text = text.lstrip()
        for statement in sqltext.split(text):
            self._run(statement.text)

    # -- with a terminal

    def talk(self) -> None:
        """Read statements from the terminal and run them until the user leaves."""
        self._talks = True
        note(f"{self._name}: {self._database.version()}. Statements end with ; - .help lists commands, .quit leaves.")
        with _history():
            while True:
                try:
                    self._run_text(self._read())
                except (Quit, EOFError):
                    break
                except KeyboardInterrupt:
                    note("")
                except PipemagicError as error:
                    note(f"Error: {error.message}")
                    if error.hint:
                        note(f"Hint: {error.hint}")
        if self._in_transaction:
            note("The open transaction was rolled back.")

    def _read(self) -> str:
        """Read lines until a statement is whole, or one with a dot command."""
        mark = "*" if self._in_transaction else ""
        lines = [input(f"{self._name}{mark}> ")]
        if lines[0].startswith("."):
            return lines[0]
        while not (_may_end(lines[-1]) and sqltext.is_complete("\n".join(lines))):
            lines.append(input(f"{' ' * (len(self._name) + len(mark) - 3)}...> "))
        return "\n".join(lines)

    # -- both

    @property
    def _in_transaction(self) -> bool:
        from pipemagic.hrana.stream import Tx

        return self._stream.transaction.state is Tx.OPEN

    def _run(self, statement: str) -> None:
        from pipemagic.hrana.stream import Tx

        if self._stream.transaction.state is Tx.LOST and sqltext.keyword(statement) in ("BEGIN", "ROLLBACK"):
            self._stream.settle()  # the user has seen that it is gone
            if sqltext.keyword(statement) == "ROLLBACK":
                return
        result = self._ask(statement)
        if result.columns:
            self._show(result)
        elif self._talks and result.affected_row_count:
            count = result.affected_row_count
            note(f"{plural(count, 'row')} changed")

    def _ask(self, statement: str) -> Result:
        from pipemagic.client.database import Result
        from pipemagic.client.running import run
        from pipemagic.hrana.messages import Stmt

        done = run(self._stream, [Stmt(statement)])
        if done.error is not None:
            raise _placed(done.error, statement)
        return Result(done.results[0], statement)

    def _show(self, result: Result) -> None:
        for line in MODES[self._mode](result.columns, result.rows):
            say(line)
        if self._talks and self._mode == "table":
            note(f"({plural(len(result.rows), 'row')})")

    # -- dot commands

    def _command(self, line: str) -> None:
        name, *arguments = line.rstrip(" ;\r").split()
        commands: dict[str, tuple[Callable[..., None], int, int]] = {
            ".tables": (self._tables, 0, 0), ".schema": (self._schema, 0, 1), ".dump": (self._dump, 0, 0),
            ".mode": (self._set_mode, 1, 1), ".help": (lambda: say(HELP), 0, 0),
            ".quit": (_quit, 0, 0), ".exit": (_quit, 0, 0),
        }  # fmt: skip
        if name not in commands:
            raise SessionError(f"there is no command {name}", hint=".help lists those there are")
        run, fewest, most = commands[name]
        if not fewest <= len(arguments) <= most:
            raise SessionError(f"{name} does not take {len(arguments)} arguments", hint=".help lists commands")
        run(*arguments)

    def _tables(self) -> None:
        for (name,) in self._ask(f"{_TABLES} ORDER BY name").rows:
            say(str(name))

    def _schema(self, name: str | None = None) -> None:
        wanted = "" if name is None else f" AND lower(tbl_name) = lower('{name.replace(chr(39), chr(39) * 2)}')"
        for (text,) in self._ask(f"{_SCHEMA}{wanted} ORDER BY rowid").rows:
            say(str(text) + ";")

    def _dump(self) -> None:
        from pipemagic.client.transfer import dumped

        with dumped(self._database) as pieces:
            for piece in pieces:
                sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()

    def _set_mode(self, mode: str) -> None:
        if mode not in MODES:
            raise SessionError(f"there is no mode {mode}", hint=f"it is one of {', '.join(MODES)}")
        self._mode = mode


def _quit() -> None:
    raise Quit


def _may_end(line: str) -> bool:
    """Tell whether a statement can end in this line, which spares looking at all lines before it."""
    return ";" in line or not line.strip() or line.lstrip().startswith("--")


def _placed(error: StatementError, statement: str) -> StatementError:
    """Draw where in the statement the error is."""
    from pipemagic.session import places

    fault = places.fault_of(error, statement)
    offset = fault.offset
    drawn = "" if offset is None else "".join(f"\n  {line}" for line in places.excerpt(statement, offset).split("\n"))
    line = f"line {sqltext.position(statement, offset)[0]}: " if fault.of_line and offset is not None else ""
    return StatementError(f"{line}{fault.message}{drawn}", hint=error.hint, code=error.code, sql=statement)


@contextmanager
def _history() -> Iterator[None]:
    """Have the arrow keys bring earlier lines back, also those of earlier shells, where the platform can."""
    if sys.platform == "win32":  # the console keeps its own history
        yield
        return
    try:
        import readline
    except ImportError:  # not every Python is built with it
        yield
        return
    from pipemagic.service.files import make_private_folder

    folder = config_folder()
    make_private_folder(folder, "the folder for settings", "name another one with PIPEMAGIC_CONFIG")
    path = folder / HISTORY
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(HISTORY_LENGTH)
    try:
        yield
    finally:
        with suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))  # what was typed is nobody else's
            readline.write_history_file(path)
