"""The dialect of SQLAlchemy on an address: transactions, levels, values, and what a URL may have."""

from __future__ import annotations

import datetime as dt
import tomllib
from contextlib import suppress
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa
from ended_streams import end_own_stream
from magic_shell import make_database
from sqlalchemy.dialects import registry
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from tls_terminator import TlsAuthority

from pipemagic import dbapi
from pipemagic.client.address import parse_address
from pipemagic.client.database import Database
from pipemagic.dbapi.sqlalchemy import PipemagicDialect
from pipemagic.errors import SessionError

ROOT = Path(__file__).parents[2]
NAMES = sa.Table("names", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.Text))


@pytest.fixture(autouse=True)
def dialect():
    """The entry point; that of the installed package may be older."""
    registry.register("sqlite.pipemagic", PipemagicDialect.__module__, PipemagicDialect.__name__)


@pytest.fixture
def url(address, monkeypatch):
    """The URL of the database; its token is in the environment."""
    http, token = address
    monkeypatch.setenv("PIPEMAGIC_TOKEN", token)
    return f"sqlite+pipemagic://{http.partition('://')[2]}"


def test_an_engine_over_https_as_for_a_hosted_database(tmp_path, monkeypatch, service_of_its_own):
    """The host name is that of the proxy, so the token names the database."""
    http, token = make_database(service_of_its_own, "hosted")
    authority = TlsAuthority(tmp_path)
    tls = authority.terminator(service_of_its_own.url)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    monkeypatch.setenv("PIPEMAGIC_TOKEN", token)
    engine = sa.create_engine(f"sqlite+pipemagic://{tls.url.partition('://')[2]}/?tls=1")
    try:
        NAMES.create(engine)
        pd.DataFrame({"id": [1, 2], "name": ["x", None]}).to_sql("names", engine, index=False, if_exists="append")
        with engine.connect() as connection:
            assert connection.execute(sa.select(NAMES)).all() == [(1, "x"), (2, None)]
        with Database(http, token) as database:
            assert database.execute("SELECT count(*) FROM names").rows == [(2,)]
    finally:
        engine.dispose()
        tls.close()


@pytest.fixture
def make_engine(url):
    """Return a function that creates an engine for the database; all are disposed of at the end."""
    engines = []

    def make(**options):
        engines.append(sa.create_engine(url, **options))
        return engines[-1]

    yield make
    for engine in engines:
        engine.dispose()


@pytest.fixture
def engine(make_engine):
    engine = make_engine()
    NAMES.create(engine)
    return engine


@pytest.fixture
def names(connect):
    """Return a function that reads the names on another connection."""
    other = connect()
    return lambda: [name for (name,) in other.execute("SELECT name FROM names ORDER BY id")]


def in_transaction(connection):
    return connection.connection.dbapi_connection.in_transaction


# -- transactions


def test_a_block_commits_or_rolls_back(engine, names):
    with engine.begin() as connection:
        connection.execute(NAMES.insert(), [{"name": "Ada"}, {"name": "Bob"}])
        assert names() == []
    assert names() == ["Ada", "Bob"]
    with suppress(ZeroDivisionError), engine.begin() as connection:
        connection.execute(NAMES.insert(), {"name": "Cy"})
        raise ZeroDivisionError
    assert names() == ["Ada", "Bob"]


def test_many_rows_are_written_or_none(engine, names):
    """`DataFrame.to_sql` of an engine commits after an error."""
    with engine.connect() as connection:
        connection.execute(NAMES.insert(), {"name": "Ada"})
        with pytest.raises(IntegrityError, match="UNIQUE"):
            connection.execute(NAMES.insert(), [{"id": 5, "name": "Bob"}, {"id": 1, "name": "Cy"}])
        result = connection.execute(NAMES.insert(), [{"id": 5, "name": "Di"}, {"id": 6, "name": "Ed"}])
        assert result.rowcount == 2
        connection.commit()
    assert names() == ["Ada", "Di", "Ed"]


def test_definitions_of_tables_belong_to_the_transaction(engine):
    with engine.connect() as connection:
        connection.execute(sa.text("CREATE TABLE other(a)"))
        connection.rollback()
    assert sa.inspect(engine).get_table_names() == ["names"]


def test_savepoints(engine, names):
    with engine.connect() as connection:
        with connection.begin_nested():  # the first statement of the transaction
            connection.execute(NAMES.insert(), {"name": "Ada"})
        connection.rollback()
        assert names() == []
        connection.execute(NAMES.insert(), {"name": "Bob"})
        savepoint = connection.begin_nested()
        connection.execute(NAMES.insert(), {"name": "Cy"})
        with pytest.raises(IntegrityError):
            connection.execute(NAMES.insert(), {"id": 1})
        savepoint.rollback()
        connection.commit()
    assert names() == ["Bob"]


def test_reading_leaves_no_transaction_open(engine, names):
    with engine.connect() as connection:
        assert connection.execute(sa.select(NAMES)).all() == []
        assert sa.inspect(connection).get_columns("names")[1]["name"] == "name"
        assert connection.in_transaction()
        assert not in_transaction(connection)
        connection.execute(NAMES.insert(), {"name": "Ada"})
        assert in_transaction(connection)
        connection.commit()
        assert not in_transaction(connection)
    assert names() == ["Ada"]


def test_the_pool_rolls_back(make_engine, engine, names):
    with make_engine(pool_size=1, max_overflow=0).connect() as connection:
        connection.execute(NAMES.insert(), {"name": "Ada"})
    with engine.connect() as connection:
        assert connection.execute(sa.select(NAMES)).all() == []
    assert names() == []


@pytest.mark.parametrize("of_engine", [True, False])
def test_autocommit(make_engine, engine, names, of_engine):
    engine = make_engine(isolation_level="AUTOCOMMIT") if of_engine else engine
    level = {} if of_engine else {"isolation_level": "AUTOCOMMIT"}
    with engine.connect().execution_options(**level) as connection:
        assert connection.get_isolation_level() == "AUTOCOMMIT"
        connection.execute(NAMES.insert(), {"name": "Ada"})
        assert names() == ["Ada"]
        connection.rollback()
    assert names() == ["Ada"]
    with engine.connect() as connection:
        assert connection.get_isolation_level() == ("AUTOCOMMIT" if of_engine else "SERIALIZABLE")


@pytest.mark.parametrize("last", ["rollback", "commit"])
def test_a_lost_transaction_says_what_was_lost_until_it_ends(engine, names, last):
    """If it were a disconnect before, the second call, which pandas makes, would be a PendingRollbackError."""
    with engine.connect() as connection:
        connection.execute(NAMES.insert(), {"name": "Ada"})
        end_own_stream(connection.connection.dbapi_connection)
        for _ in range(2):
            with pytest.raises(OperationalError, match="transaction") as caught:
                connection.execute(NAMES.insert(), {"name": "Bob"})
            assert not caught.value.connection_invalidated
        if last == "commit":
            with pytest.raises(OperationalError, match="transaction") as caught:
                connection.commit()
        assert caught.value.orig.code == "TRANSACTION_LOST"
        connection.rollback()
        connection.execute(NAMES.insert(), {"name": "Cy"})
        connection.commit()
    assert names() == ["Cy"]


def test_pandas_reports_that_the_transaction_was_lost(engine, names):
    """It commits after an error: that of the commit is the one that it raises."""

    def write_and_lose(table, connection, columns, rows):
        connection.execute(table.table.insert(), [dict(zip(columns, row, strict=True)) for row in rows])
        end_own_stream(connection.connection.dbapi_connection)

    frame = pd.DataFrame({"name": ["Ada", "Bob"]})
    with pytest.raises(OperationalError, match="transaction") as caught:
        frame.to_sql("names", engine, index=False, if_exists="append", chunksize=1, method=write_and_lose)
    assert caught.value.orig.code == "TRANSACTION_LOST"
    assert names() == []


def test_a_connection_that_was_idle_works(make_engine, engine, names):
    """The server has ended its stream, in which nothing was open."""
    pooled = make_engine(pool_size=1, max_overflow=0)
    with pooled.connect() as connection:
        connection.execute(sa.select(NAMES))
        end_own_stream(connection.connection.dbapi_connection)
    with pooled.begin() as connection:
        connection.execute(NAMES.insert(), {"name": "Ada"})
    assert names() == ["Ada"]


def test_a_failed_statement_is_no_disconnect(engine):
    with engine.connect() as connection:
        with pytest.raises(OperationalError, match="no such table: nope") as caught:
            connection.execute(sa.text("SELECT * FROM nope"))
        assert not caught.value.connection_invalidated
        assert caught.value.orig.sqlite_errorname == "SQLITE_ERROR"
        connection.rollback()
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1


def test_a_server_that_cannot_be_reached_is_a_disconnect():
    engine = sa.create_engine("sqlite+pipemagic://127.0.0.1:9")
    with pytest.raises(OperationalError, match=r"127\.0\.0\.1:9") as caught:
        engine.connect()
    assert engine.dialect.is_disconnect(caught.value.orig, None, None)


# -- rows and values


class Base(DeclarativeBase):
    pass


class Sample(Base):
    __tablename__ = "sample"
    id: Mapped[int] = mapped_column(primary_key=True)
    large: Mapped[int] = mapped_column(sa.BigInteger)
    real: Mapped[float | None]
    flag: Mapped[bool]
    day: Mapped[dt.date]
    moment: Mapped[dt.datetime]
    price: Mapped[Decimal] = mapped_column(sa.Numeric(10, 2, asdecimal=True))
    data: Mapped[bytes | None]
    document: Mapped[dict] = mapped_column(sa.JSON)
    text: Mapped[str]


@pytest.mark.filterwarnings("ignore:Dialect sqlite.* does .not. support Decimal:sqlalchemy.exc.SAWarning")
def test_values_of_all_types(engine):
    Base.metadata.create_all(engine)
    values = {
        "large": 2**63 - 1, "real": 0.1, "flag": True, "day": dt.date(2024, 2, 29), "price": Decimal("12.30"),
        "moment": dt.datetime(2024, 2, 29, 12, 30, 1, 5), "data": bytes(range(256)), "document": {"a": [1, None, "é"]},
        "text": "naïve 東京 🦆 \0 'x'",
    }  # fmt: skip
    with Session(engine) as session, session.begin():
        session.add(Sample(**values))
    with Session(engine) as session:
        sample = session.scalars(sa.select(Sample)).one()
        assert {name: getattr(sample, name) for name in values} == values


def test_rows_are_received_while_they_are_fetched(engine):
    """Another statement on the connection may run meanwhile."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) SELECT i FROM n"
    with engine.connect() as connection:
        result = connection.execution_options(stream_results=True, yield_per=1000).execute(sa.text(numbers))
        rows = iter(result)
        assert next(rows) == (1,)
        assert result.cursor.connection._runner._receiving is not None
        assert connection.execute(sa.text("SELECT 7")).scalar() == 7
        assert [number for (number,) in rows] == list(range(2, 50001))


DEFINITIONS = [
    "CREATE TABLE a(x INTEGER PRIMARY KEY, y TEXT NOT NULL DEFAULT 'd' UNIQUE, w GENERATED ALWAYS AS (x + 1))",
    "CREATE TABLE b(z INT CONSTRAINT p CHECK (z > 0), FOREIGN KEY(z) REFERENCES a(x) ON DELETE CASCADE)",
    "CREATE INDEX i ON b(z)",
    "CREATE VIEW v AS SELECT 1 AS one",
    'CREATE TABLE "odd ""name"" é"("a b" DECIMAL(10, 2), PRIMARY KEY("a b")) WITHOUT ROWID',
]


def test_reflection(engine):
    """It is that of pysqlite."""
    kinds = ["columns", "pk_constraint", "foreign_keys", "indexes", "unique_constraints", "check_constraints"]
    found = []
    for each in [engine, sa.create_engine("sqlite://")]:
        with each.connect() as connection:
            for definition in DEFINITIONS:
                connection.exec_driver_sql(definition)
            about = sa.inspect(connection)
            tables = [table for table in about.get_table_names() if table != "names"]
            details = [getattr(about, f"get_{kind}")(table) for table in tables for kind in kinds]
            found.append([tables, about.get_view_names(), about.get_view_definition("v"), repr(details)])
        each.dispose()
    assert found[0] == found[1]
    assert found[0][0] == ["a", "b", 'odd "name" é']
    assert "'ondelete': 'CASCADE'" in found[0][3]


def test_the_version_is_that_of_the_server(engine):
    with engine.connect() as connection:
        version = connection.execute(sa.text("SELECT sqlite_version()")).scalar()
    assert ".".join(map(str, engine.dialect.server_version_info)) == version


def test_frames(engine):
    frame = pd.DataFrame({"a": [2**60, 1], "b": ["x", None], "c": pd.to_datetime(["2024-01-02", None])})
    assert frame.to_sql("frame", engine, index=False) == 2
    pd.testing.assert_frame_equal(pd.read_sql_table("frame", engine), frame)


# -- URLs and tokens


def arguments(text):
    return PipemagicDialect(dbapi).create_connect_args(sa.make_url(text))


@pytest.mark.parametrize(
    ("text", "address", "options"),
    [
        ("name-org.turso.io", "https://name-org.turso.io", {}),
        ("first.localhost:8080", "http://first.localhost:8080", {}),
        ("127.0.0.1:8080/", "http://127.0.0.1:8080", {}),
        ("[::1]:8080", "http://[::1]:8080", {}),
        ("db.example:8080/?tls=0", "http://db.example:8080", {}),
        ("127.0.0.1:8080/?tls=1", "https://127.0.0.1:8080", {}),
        ("hub.example/user/ada/db?timeout=2.5", "https://hub.example/user/ada/db", {"timeout": 2.5}),
        ("db.example?read_only=true&token_env=T", "https://db.example", {"read_only": True, "token_env": "T"}),
        (":secret@db.example", "https://db.example", {"token": "secret"}),
    ],
)
def test_urls(text, address, options):
    (found,), keywords = arguments(f"sqlite+pipemagic://{text}")
    assert parse_address(found).address == address
    assert {key: value for key, value in keywords.items() if value is not None} == options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("db.example?authToken=secret", "unknown option authToken"),
        ("ada:secret@db.example", "the URL has a user name"),
        ("/file.db", "the URL has no host"),
        ("?timeout=3", "the URL has no host"),
        ("db.example?timeout=soon", "timeout"),
        ("db.example?read_only=perhaps", "read_only"),
        ("db.example?tls=0&tls=1", "tls"),
    ],
)
def test_urls_with_mistakes(text, message):
    with pytest.raises(ArgumentError, match=message) as caught:
        arguments(f"sqlite+pipemagic://{text}")
    assert "secret" not in str(caught.value)


def test_a_token_is_not_shown(address):
    http, token = address
    host, port = http.partition("://")[2].split(":")
    url = sa.URL.create("sqlite+pipemagic", host=host, port=int(port), password=token)
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
        assert token not in repr(engine) + repr(url) + str(url) + repr(connection.connection.dbapi_connection)
    engine.dispose()


@pytest.mark.parametrize("source", ["variable", "file", "argument"])
def test_sources_of_a_token(url, address, monkeypatch, tmp_path, source):
    monkeypatch.setenv("PIPEMAGIC_TOKEN", "wrong")
    monkeypatch.setenv("MINE", address[1])
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(address[1])
    options = {"variable": "?token_env=MINE", "file": f"?token_file={file}", "argument": ""}[source]
    engine = sa.create_engine(url + options, connect_args={"token": address[1]} if source == "argument" else {})
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
    engine.dispose()


def test_a_wrong_token(url, monkeypatch):
    monkeypatch.setenv("PIPEMAGIC_TOKEN", "wrong")
    with pytest.raises(OperationalError, match="token"):
        sa.create_engine(url).connect()
    with pytest.raises(SessionError, match="NOT_SET is not set"):
        sa.create_engine(f"{url}?token_env=NOT_SET").connect()


def test_without_a_token_the_error_says_where_to_put_it(make_engine, monkeypatch):
    monkeypatch.delenv("PIPEMAGIC_TOKEN")
    with pytest.raises(OperationalError, match=r"a token is required.*\nHint: .*PIPEMAGIC_TOKEN"):
        make_engine().connect()


def test_a_read_only_engine(engine, url):
    reader = sa.create_engine(f"{url}?read_only=1")
    with reader.connect() as connection:
        assert connection.execute(sa.select(NAMES)).all() == []
        with pytest.raises(DBAPIError, match="read-only"):
            connection.execute(NAMES.insert(), {"name": "Ada"})
    reader.dispose()


def test_the_entry_point_names_the_dialect():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    module, name = points["sqlalchemy.dialects"]["sqlite.pipemagic"].split(":")
    assert getattr(import_module(module), name) is PipemagicDialect
