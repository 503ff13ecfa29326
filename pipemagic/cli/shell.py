"""``pipemagic db shell``: SQL from the terminal, an argument, or standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import click

from pipemagic import sql as sqltext
from pipemagic.cli import console
from pipemagic.cli.api import command_line, data_option, management, org_option
from pipemagic.client import transfer
from pipemagic.client.address import is_address, refuse_without_scheme
from pipemagic.client.database import Database
from pipemagic.client.pasted import strip_quotes
from pipemagic.client.result import Result
from pipemagic.client.secrets import EncryptionKey
from pipemagic.client.stream import ClientStream
from pipemagic.config import config_folder, make_config_folder
from pipemagic.errors import PipemagicError, SessionError, StatementError, TransactionLost
from pipemagic.hrana.messages import Stmt
from pipemagic.hrana.stream import Tx
from pipemagic.management_api.client import Management, archived_error
from pipemagic.text import plural

HISTORY = "shell_history"
HISTORY_LENGTH = 1000  # lines
TOKEN_EXPIRATION = "2d"
HELP = """\
Statements end with a semicolon and may span several lines. Ctrl-C cancels a statement, or the lines typed so far.
.tables              list tables and views
.schema [NAME]       print their CREATE statements
.dump                print the database as SQL text
.mode table|csv|json set the output format
.help                print this text
.quit                exit; an open transaction is rolled back"""

_TABLES = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite^_%' ESCAPE '^'"
_SCHEMA = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL"


def no_option(text: str) -> str:
    """Return an argument, which may be SQL that begins with a comment; refuse unknown options."""
    if text.startswith("-") and not any(map(str.isspace, text)):
        raise click.NoSuchOption(text)
    return text


key_option = click.option(
    "--encryption-key-env", metavar="VAR", help="The environment variable with the key of an encrypted database."
)


def encryption_key_in(variable: str | None, cipher: str | None = None) -> EncryptionKey | None:
    """Return the encryption key in an environment variable; None if none is named."""
    from pipemagic.session.tokens import Environment, set_in_terminal

    return Environment(os.environ, how_to_set=set_in_terminal).encryption_key_in(variable, cipher)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", type=no_option, metavar="DB|URL")
@click.argument("sql", type=no_option, required=False, metavar="[SQL]")
@click.option(
    "--mode", type=click.Choice(list(console.FORMATS)), default="table", show_default=True, help="The output format."
)
@click.option("--token-env", metavar="VAR", help="The environment variable with the token for a URL.")
@key_option
@click.option("--follow", metavar="HOST", help="Another host to which the server at a URL may refer.")
@org_option
@data_option
def shell(
    name: str, sql: str | None, mode: str, token_env: str | None, encryption_key_env: str | None, follow: str | None,
    org: str | None, data: Path | None,
) -> None:  # fmt: skip
    """Run SQL from an argument, standard input, or the terminal."""
    target = open_target(name, token_env, encryption_key_env, follow, org, data)
    with target as database, database.open_stream() as stream:
        opened = Shell(database, stream, name.rpartition("/")[2], mode)
        if sql is not None:
            opened.run_script([sql])
        elif sys.stdin.isatty():
            opened.interact()
        else:
            from pipemagic.session.database_files import decode

            opened.run_script(decode(sys.stdin.buffer))


@contextmanager
def open_target(
    name: str, token_env: str | None, key_env: str | None, follow: str | None, org: str | None, data: Path | None
) -> Iterator[Database]:
    """Open a database of the organization, or the one at a URL."""
    from pipemagic.session.tokens import DATABASE_TOKENS, Environment, set_in_terminal

    name = strip_quotes(name)
    refuse_without_scheme(name)
    key = encryption_key_in(key_env)
    if is_address(name):
        if org is not None:
            raise click.UsageError("--org cannot be used with an address.", click.get_current_context())
        environment = Environment(os.environ, how_to_set=set_in_terminal)
        token = environment.token(token_env, DATABASE_TOKENS)
        with Database(name, token, encryption_key=key, follow=follow) as database:
            yield database
    else:
        for option, value in (("--token-env", token_env), ("--follow", follow)):
            if value is not None:
                raise click.UsageError(f"{option} requires an address.", click.get_current_context())
        with management(data, org) as api, open_database(api, name, TOKEN_EXPIRATION, key=key) as database:
            yield database


@contextmanager
def open_database(
    api: Management, name: str, expiration: str = "1d", *, only_reads: bool = False, key: EncryptionKey | None = None
) -> Iterator[Database]:
    """Open a database of the organization with a new token, and its encryption key if it has one.

    With ``only_reads`` the token is read-only if the database accepts such tokens.
    """
    info = api.database(name)
    if info.archived:
        raise archived_error(info, command_line)
    create = api.create_reading_token if only_reads else api.create_token
    token = create(name, expiration=expiration)
    with Database(api.endpoint.refer(info.url), token, read_only=only_reads, encryption_key=key) as database:
        yield database


def print_dump(database: Database) -> None:
    """Write a database as SQL text to standard output."""
    with transfer.dumped(database) as chunks:
        sys.stdout.buffer.writelines(chunks)
    sys.stdout.buffer.flush()


class Shell:
    """Runs statements and dot commands on one stream, and prints their results."""

    def __init__(self, database: Database, stream: ClientStream, name: str, mode: str) -> None:
        self._database, self._stream, self._name, self._mode = database, stream, name, mode
        self._interactive = False

    def run_script(self, chunks: Iterable[str]) -> None:
        """Run a script; raise its first error, or `TransactionLost` if it leaves a transaction open."""
        with suppress(EOFError):
            for text in sqltext.statements_of(chunks):
                self._run(text)
        if self._in_transaction:
            raise TransactionLost(
                "the script ended inside a transaction, which was rolled back", hint="end the transaction with COMMIT"
            )

    def interact(self) -> None:
        """Run statements from the terminal until the user leaves."""
        self._interactive = True
        version = self._database.version()
        console.print_note(f"{self._name}: {version}. Statements end with ; - .help lists commands, .quit exits.")
        with _history():
            while True:
                try:
                    self._run(self._read())
                except EOFError:  # Ctrl-D or .quit
                    break
                except KeyboardInterrupt:
                    console.print_note("")
                except PipemagicError as error:
                    console.print_error(error)
        if self._in_transaction:
            console.print_note("The open transaction was rolled back.")

    def _read(self) -> str:
        """Read lines until a statement is complete, or one line with a dot command."""
        prompt = f"{self._name}{'*' if self._in_transaction else ''}> "
        lines = [input(prompt)]
        if lines[0].startswith("."):
            return lines[0]
        while not (_may_end(lines[-1]) and sqltext.is_complete("\n".join(lines))):
            lines.append(input("...> ".rjust(len(prompt))))
        return "\n".join(lines)

    def _run(self, text: str) -> None:
        """Run a statement, and the dot commands on the lines before it."""
        while text.startswith("."):
            line, _, text = text.partition("\n")
            self._run_command(line)
            text = text.lstrip()
        for statement in sqltext.split(text):
            self._run_statement(statement.text)

    # -- statements

    @property
    def _in_transaction(self) -> bool:
        return self._stream.transaction.state is Tx.OPEN

    def _run_statement(self, statement: str) -> None:
        keyword = sqltext.parse(statement).keyword
        if self._stream.transaction.state is Tx.LOST and keyword in ("BEGIN", "ROLLBACK"):
            self._stream.transaction.acknowledge()  # the loss was reported
            if keyword == "ROLLBACK":
                return
        result = self._execute(statement)
        if result.columns:
            columns = [sqltext.without_comments(name, statement) for name in result.columns]
            for line in console.FORMATS[self._mode](columns, result.rows):
                console.print_line(line)
            if self._interactive and self._mode == "table":
                console.print_note(f"({plural(len(result.rows), 'row')})")
        elif self._interactive and result.affected_row_count:
            console.print_note(f"{plural(result.affected_row_count, 'row')} changed")

    def _execute(self, statement: str) -> Result:
        batch = self._stream.run([Stmt(statement)])
        if batch.error is not None:
            raise _with_position(batch.error, statement)
        return Result(batch.results[0], statement)

    # -- dot commands

    def _run_command(self, line: str) -> None:
        match line.rstrip(" ;\r").split():
            case [".tables"]:
                self._print_column(f"{_TABLES} ORDER BY name")
            case [".schema"]:
                self._print_column(f"{_SCHEMA} ORDER BY rowid", sqltext.terminated)
            case [".schema", name]:
                quoted = name.replace("'", "''")
                self._print_column(
                    f"{_SCHEMA} AND lower(tbl_name) = lower('{quoted}') ORDER BY rowid", sqltext.terminated
                )
            case [".dump"]:
                print_dump(self._database)
            case [".mode", mode] if mode in console.FORMATS:
                self._mode = mode
            case [".mode", mode]:
                raise SessionError(f"unknown format: {mode}", hint=f"the formats are {', '.join(console.FORMATS)}")
            case [".help"]:
                console.print_line(HELP)
            case [".quit" | ".exit"]:
                raise EOFError
            case [command, *_] if command[1:] in sqltext.SHELL_SETTINGS and not self._interactive:
                pass  # in a script for SQLite's shell
            case _:
                raise SessionError(f"unknown command: {line}", hint=".help lists the commands and their arguments")

    def _print_column(self, query: str, convert: Callable[[str], str] = str) -> None:
        for (text,) in self._execute(query).rows:
            console.print_line(convert(str(text)))


def _may_end(line: str) -> bool:
    """Return False if no statement ends in this line, so that the lines before it need not be parsed again."""
    return ";" in line or not line.strip() or line.lstrip().startswith("--")


def _with_position(error: StatementError, statement: str) -> StatementError:
    """Add the line of the statement to an error, with a caret below its position."""
    from pipemagic.explore.hints.corrections import correction
    from pipemagic.explore.hints.syntax_errors import is_correctable
    from pipemagic.session.messages import excerpt, locate

    fault = locate(error, statement)
    message = fault.message
    if fault.offset is not None:
        if fault.of_line:
            message = f"line {sqltext.position(statement, fault.offset)[0]}: {message}"
        message = "\n  ".join([message, *excerpt(statement, fault.offset).split("\n")])
    hint = error.hint or (correction(statement) if is_correctable(fault.message) else "")
    return error.replace(message=message, hint=hint, sql=statement)


@contextmanager
def _history() -> Iterator[None]:
    """Keep the lines of earlier shells for the arrow keys, on platforms with readline."""
    if sys.platform == "win32" or find_spec("readline") is None:
        yield
        return
    import readline

    folder = config_folder()
    make_config_folder(folder)
    path = folder / HISTORY
    with suppress(OSError):
        path.touch(0o600)
        readline.read_history_file(path)
    readline.set_history_length(HISTORY_LENGTH)
    try:
        yield
    finally:
        with suppress(OSError):
            readline.write_history_file(path)
