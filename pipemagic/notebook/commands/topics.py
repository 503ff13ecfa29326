"""The words of %pipedb help: topics, and examples for each subcommand. A test runs every example through its parser."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "connect": (
        "%pipedb connect",
        "%pipedb connect --temporary",
        "%pipedb connect libsql://flights-acme.example.com --token-env FLIGHTS_TOKEN --as flights",
        "%pipedb connect flights --read-only",
        "%pipedb connect --keep-alive 10m",
    ),
    "use": ("%pipedb use flights",),
    "connections": ("%pipedb connections",),
    "keep-alive": ("%pipedb keep-alive 10m", "%pipedb keep-alive off --on flights"),
    "close": ("%pipedb close", "%pipedb close flights"),
    "stop": ("%pipedb stop",),
    "profiles": (
        "%pipedb profiles",
        "%pipedb profiles --save flights",
        "%pipedb profiles --delete flights",
        "%pipedb profiles --trust flights",
    ),
    "begin": ("%pipedb begin", "%pipedb begin immediate"),
    "commit": ("%pipedb commit",),
    "rollback": ("%pipedb rollback",),
    "retry": ("%pipedb retry",),
    "status": ("%pipedb status",),
    "version": ("%pipedb version",),
    "health": ("%pipedb health --on flights",),
    "tables": ("%pipedb tables", "%pipedb tables fl* --rows"),
    "columns": ("%pipedb columns flights", '%pipedb columns "my table"'),
    "schema": ("%pipedb schema flights", "%pipedb schema"),
    "profile": (
        "%pipedb profile flights",
        "%pipedb profile flights --columns origin,air_time",
        """%pipedb profile flights --where "delay > 15 AND origin = 'JFK'" """.rstrip(),
    ),
    "check": (
        "%pipedb check flights --not-null origin,dest --unique id",
        "%pipedb check flights --range month=1..12 --references carrier=airlines.carrier --foreign-keys",
    ),
    "diff": ("%pipedb diff flights flights_of_july --key id", "%pipedb diff flights --to copy_of_it"),
    "plot": ("%pipedb plot histogram flights --x air_time", "%pipedb plot bar flights --x carrier"),
    "copy": ("%pipedb copy flights --to other",),
    "diagram": ("%pipedb diagram", "%pipedb diagram flights --columns keys --to schema.svg"),
    "load": (
        "%pipedb load frame --table flights",
        "%pipedb load frame --table flights --append",
        "%pipedb load frame --table flights --upsert id",
        '%pipedb load frame --table "my table" --replace --types "price=DECIMAL(10,2)"',
    ),
    "snippets": ("%pipedb snippets", "%pipedb snippets late", "%pipedb snippets --delete late"),
    "wire": ("%pipedb wire on", "%pipedb wire last --stable", "%pipedb wire off"),
    "stats": ("%pipedb stats", "%pipedb stats --reset"),
    "organization": (
        "%pipedb organization",
        "%pipedb organization acme --at https://api.example.com --token-env API_TOKEN",
    ),
    "locations": ("%pipedb locations",),
    "groups": ("%pipedb groups",),
    "databases": ("%pipedb databases",),
    "create-group": ("%pipedb create-group europe --location ams --if-not-exists",),
    "create-database": (
        "%pipedb create-database flights --group europe",
        "%pipedb create-database flights --group europe --from-file flights.db",
    ),
    "add-location": ("%pipedb add-location europe fra",),
    "overages": ("%pipedb overages off",),
    "delete-group": ("%pipedb delete-group europe --confirm",),
    "delete-database": ("%pipedb delete-database flights --confirm",),
    "remove-location": ("%pipedb remove-location europe fra",),
    "organizations": ("%pipedb organizations",),
    "usage": ("%pipedb usage", "%pipedb usage --databases"),
    "create-token": (
        "%pipedb create-token flights --expiration 7d --read-only --to-env FLIGHTS_TOKEN",
        "%pipedb create-token flights --to-file ~/flights.token",
    ),
    "invalidate-tokens": ("%pipedb invalidate-tokens flights --confirm",),
    "panel": ("%pipedb panel", "%pipedb panel databases"),
}
"""What one types, for each subcommand."""

SQL = """\
A cell may hold several statements. They go to the server in one request and stop at the first error. The value is the
DataFrame of the last statement that returns columns.

    %%sql
    SELECT origin, count(*) AS n FROM flights GROUP BY origin
    %%sql --on flights -o delays --limit 1000
    SELECT * FROM flights WHERE dep_delay > :minutes
    %sql SELECT count(*) FROM flights
    delays = %sql SELECT * FROM flights WHERE dep_delay > 60"""

PARAMETERS = """\
:name, @name and $name take the value of the notebook's variable; nothing is pasted into the statement. A list expands
after IN. {name} puts in the name of a table or column, quoted. An undefined name is an error that tells the close
ones.

    %%sql
    SELECT * FROM flights WHERE origin IN :airports AND month = :month
    %%sql --params values
    SELECT :a + :b
    %sql --params '{"month": 7}' SELECT count(*) FROM flights WHERE month = :month
    %sql --file routes.sql
    %%sql --save late
    SELECT * FROM flights WHERE dep_delay > 60
    %%sql --with late
    SELECT carrier, count(*) FROM late GROUP BY carrier

A SELECT that was saved is used only where --with names it; %pipedb snippets lists what is saved. --jinja renders the
text as a template first: {{ value | bind }} makes a parameter, {{ name | name }} a quoted name."""

TRANSACTIONS = """\
The connection stays open between cells: BEGIN in one, COMMIT in another. A line under the cell says that a
transaction is open. The server gives a transaction 5 s and closes a connection that was idle for 10 s. If a
transaction is lost, the error lists the statements that were undone, and nothing more runs until BEGIN, ROLLBACK or
%pipedb retry, which runs them again, all or nothing, if the rollback is certain. A cell that fails between its own
BEGIN and COMMIT is rolled back at once.

    %pipedb begin
    %sql INSERT INTO flights (id) VALUES (1)
    %pipedb commit
    %%sql --atomic
    INSERT INTO a VALUES (1);
    INSERT INTO b VALUES (2)
    %sql --clock SELECT 1
    %pipedb status
    %pipedb retry

With --atomic all of the cell is applied or nothing, in one round trip: use it where 5 s are short."""

RESULTS = """\
The last rows are the value of the cell, a DataFrame; a strip above it lists the statements, if there are several.

    %%sql -o flights_of_july
    SELECT * FROM flights WHERE month = 7
    %%sql -o a,b
    SELECT 1; SELECT 2
    %sql --limit 100 SELECT * FROM flights
    %sql --type arrow SELECT * FROM flights
    %sql --to-csv flights.csv SELECT * FROM flights
    %sql --to-parquet flights.parquet SELECT * FROM flights
    %sql --time SELECT 1
    %sql --explain SELECT * FROM flights WHERE origin = 'JFK'
    %sql --dry-run DELETE FROM flights WHERE month = 7

A comment `-- name: x` before a statement stores its result as x. An UPDATE or DELETE without WHERE wants --confirm."""

LOAD = """\
A DataFrame becomes rows, all of them or none. Without --append, --replace or --upsert the table must not be there.

    %pipedb load frame --table flights
    %pipedb load frame --table flights --append
    %pipedb load frame --table flights --upsert id"""

EXPLORE = """\
What is there, what a table looks like, and whether it is as it should be. Each is a request of its own beside the
cells: it sees what is committed.

    %pipedb tables
    %pipedb columns flights
    %pipedb schema flights
    %pipedb profile flights
    %pipedb check flights --unique id --not-null origin
    %pipedb plot histogram flights --x air_time
    %pipedb diagram"""

WIRE = """\
The requests and answers of a cell as JSON, without tokens, and where the time went; counts for the whole notebook.

    %pipedb wire on
    %pipedb wire last
    %pipedb wire off
    %pipedb stats"""

CONFIG = """\
Settings are traits of PipeMagic: quiet, display_limit, type, connection, confirm, notes, progress, read_ahead.

    %config PipeMagic
    %config PipeMagic.display_limit = 20

A project sets them in [tool.pipemagic] of its pyproject.toml, with dashes: display-limit = 20. Connections get names
in profiles, in files without secrets:

    %pipedb profiles --save flights
    %pipedb connect flights"""

TOKENS = """\
A token never goes on the line of a magic or into a cell. %pipedb connect ADDRESS takes it from the variable named
with --token-env, the file named with --token-file (only you may read it), the keyring with --keyring, from
PIPEMAGIC_TOKEN or TURSO_AUTH_TOKEN, or asks for it without showing it; --remember has the keyring keep that. %pipedb
organization takes the platform token from --token-env, PIPEMAGIC_API_TOKEN or TURSO_API_TOKEN. The embedded service
needs none.

    %pipedb connect libsql://flights-acme.example.com --token-env FLIGHTS_TOKEN
    %pipedb connect libsql://flights-acme.example.com --token-file ~/flights.token

A token for somebody else, or for a program, is made without showing it:

    %pipedb create-token flights --expiration 7d --read-only --to-file ~/flights.token

When a token has expired, put the new one where the old one was and connect again under the same name: an open
transaction goes on, unless a rotation ended it. `pipemagic doctor NOTEBOOK` finds tokens in a notebook that is to be
shared."""

LIMITS = """\
A transaction has 5 s (TRANSACTION_TIMEOUT): BEGIN to COMMIT in one cell, or --atomic, or smaller transactions.
A server-side connection may be idle for 10 s; then it is opened anew, and an open transaction is lost. With
%pipedb keep-alive 10m it is kept, for so long.
A statement takes 32766 values. Servers limit the size of an answer (10 MB at libSQL's own server), of a value (5 MB
there) and of a database, some also the time of a statement: the error names the limit and what helps.

    %pipedb keep-alive 10m
    %sql --timeout 20 SELECT count(*) FROM flights
    %sql --limit 1000 SELECT * FROM flights"""

COMPLETION = """\
Tab in a %%sql cell offers tables, columns (after an alias those of its table), conditions of a join after ON,
functions, keywords, and after : @ $ the notebook's variables; names come in the quotes they need. After %pipedb, it
offers subcommands, options and names: connections, groups, locations, databases, tables, frames.

Nothing is asked of a server then. The names are read in the background after connecting, again after your own CREATE,
DROP and ALTER, and after a cell when somebody else has changed the schema (looked at every 10 s at most).
%config PipeMagic.read_ahead = False switches that off.

Shift+Tab in a notebook shows what the name at the cursor means to SQL: the columns of a table, the type of a column,
the signature of a function. On options and subcommands it shows their descriptions.

JupyterLab and Notebook 7 colour %%sql cells and %sql lines as SQL; Ctrl+/ comments with -- below the magic line."""

TOPICS: dict[str, tuple[str, str]] = {
    "sql": ("what a %%sql cell can hold, and its options", SQL),
    "parameters": ("values, names, files, saved SELECTs, templates", PARAMETERS),
    "transactions": ("BEGIN to COMMIT over several cells, all or nothing", TRANSACTIONS),
    "results": ("DataFrames, names for results, files, plans", RESULTS),
    "load": ("from a DataFrame into a table", LOAD),
    "explore": ("tables, profiles, checks, diagrams", EXPLORE),
    "wire": ("requests and answers", WIRE),
    "config": ("settings and profiles", CONFIG),
    "tokens": ("where tokens come from, and what to do when one expires", TOKENS),
    "limits": ("what servers refuse, and how to live with it", LIMITS),
    "completion": ("Tab, Shift+Tab and colours", COMPLETION),
}
"""The topics in the order of the list: what each is about, and its text."""

OTHER_NAMES = {
    "transaction": "transactions", "token": "tokens", "%sql": "sql", "%%sql": "sql", "parameter": "parameters",
    "params": "parameters", "result": "results", "loading": "load", "exploring": "explore", "settings": "config",
    "limit": "limits", "tab": "completion",
}  # fmt: skip
