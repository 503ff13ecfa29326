"""The options of %%sql and %sql, in the groups that help shows them in."""

from __future__ import annotations

from functools import cache

from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Option

PARAMETERS = (
    Option(
        "--params",
        "take the values of :name and {name} from this dict, or from JSON: '{\"year\": 2013}'",
        "NAME",
        code=True,
    ),
    Option("--jinja", "render the text as a Jinja template first"),
    Option("--with", "let the statements read from these saved SELECTs: --with top,late", "NAME"),
    Option("--save", "keep the cell's SELECT under this name for --with", "NAME"),
    Option("--no-execute", "with --save: keep it and do not run it"),
    Option("--file", "run the SQL of this file, which is UTF-8", "PATH"),
)

RUNNING = (
    Option("--on", "run it on this connection, the current one stays", "NAME"),
    Option("--explain", "show the plan of each statement, run nothing"),
    Option("--dry-run", "show what each statement takes, gives, reads and writes, run nothing"),
    Option("--confirm", "run an UPDATE or DELETE that has no WHERE"),
    Option("--atomic", "apply all of the cell or nothing, in one round trip"),
    Option("--clock", "say below the cell how many seconds an open transaction has left"),
    Option("--timeout", "stop waiting after so many seconds, and the server stops, too", "SECONDS"),
    Option("--close", "close the server-side connection afterwards"),
)

RESULTS = (
    Option("--out", "store the frame under this name and show nothing of it; a,b,c for several", "NAME", short="-o"),
    Option("--limit", "fetch at most so many rows of each query, and say whether there are more", "N"),
    Option("--type", "the kind of table to give and to show", "TYPE", choices=("pandas", "polars", "arrow")),
    Option("--to-csv", "write the last result into this file and show nothing of it", "FILE"),
    Option("--to-parquet", "the same as Parquet (needs pyarrow)", "FILE"),
    Option("--time", "show how long each statement and the whole cell took"),
    Option("--quiet", "print no lines and show no frame but the returned one", short="-q"),
)

OPTIONS = (*RUNNING, *PARAMETERS, *RESULTS)


@cache
def sql_usage(cell: bool) -> str:
    """Give the usage line of %%sql or %sql."""
    head = "%%sql" if cell else "%sql"
    return arguments.usage_of(head, (), OPTIONS) + " [NAME <<] " + ("[SQL]" if cell else "SQL")
