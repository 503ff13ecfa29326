"""Suggest what a wrong name means: a name with a typing error, or the word of another tool for the same thing.

Every suggestion of the package comes from here. A wrong suggestion is worse than none, so names have to be close, and
options that switch a protection off are never suggested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from unicodedata import category, combining, normalize
from unicodedata import name as character_name

PROTECTIONS = frozenset(
    ["--allow-signup", "--confirm", "--force", "--insecure-http", "--overwrite", "--trust", "--yes", "-f", "-y"]
)
"""The options that switch a protection off: who needs one reads about it first."""

MOST = 3
"""The most names to suggest."""

LONG = 7
"""The least letters of a name in which two typing errors are recognized; in a shorter one it is one."""

_LONGEST = 100  # characters of a wrong name that is compared
_SEPARATORS = re.compile(r"[\W_]+")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_LONG_SYNONYM = 5  # letters of a synonym in which typing errors are recognized
_PART = 3  # the least letters of a word that abbreviates another one

_COMMANDS = {
    "api-tokens": "platform-tokens",
    "audit-logs": "audit log logs",
    "close": "disconnect exit quit bye detach logout \\q",
    "columns": "describe desc info dtypes structure fields \\d",
    "connect": "attach open login \\connect",
    "connections": "conns",
    "copy": "clone cp duplicate",
    "create-api-token": "mint create-platform-token",
    "create-database": "createdb create-db new-database mkdb branch fork",
    "create-token": "token tokens",
    "databases": "db dbs \\l show-databases list-databases",
    "delete-database": "drop-database dropdb delete-db destroy destroy-database",
    "delete-group": "drop-group destroy-group",
    "diagram": "erd er relationships",
    "diff": "compare",
    "export-database": "backup dump export-db dump-database vacuum-into",
    "help": "? \\? man commands",
    "load": "import upload write persist insert-into to_sql to-sql \\copy",
    "locations": "regions",
    "organization": "org",
    "organizations": "orgs",
    "panel": "gui ui browse browser explore widget",
    "plot": "chart graph draw hist histogram visualize bar boxplot box scatter line",
    "profile": "summary summarize summarise statistics eda",
    "protect-database": "protect",
    "rollback": "abort undo",
    "rules": "check validate assert expect test constraints",
    "schema": "ddl indexes indices index triggers fullschema show-create sqlschema \\di",
    "snippets": "macro macros saved ctes",
    "status": "health version ping conninfo \\conninfo whoami state timer time-left",
    "stop": "kill shutdown",
    "tables": "show list ls ll dt views relations show-tables list-tables get-tables \\dt \\dv \\dt+ \\d+",
    "unarchive-group": "unarchive wake wakeup",
    "unprotect-database": "unprotect",
    "usage": "quota quotas billing",
    "use": "switch checkout \\c",
    "wire": "stats trace debug log requests",
}
"""The commands of %pipedb, and the words that people type instead of them."""

_TERMINAL = {
    "auth": "account user users",
    "auth login": "login signin",
    "auth logout": "logout signout",
    "auth signup": "signup register",
    "auth whoami": "whoami",
    "create": "new make add init",
    "db": "database databases dbs",
    "db create": "create createdb new",
    "db destroy": "dropdb",
    "db dump": "dump",
    "db export": "export backup",
    "db list": "list ls",
    "db shell": "shell sql query connect psql repl cli open",
    "destroy": "delete rm remove drop del",
    "doctor": "check diagnose verify health",
    "export": "backup download save",
    "group": "groups",
    "invalidate": "revoke rotate",
    "lab": "jupyter jupyterlab notebook notebooks",
    "list": "ls ll all",
    "locations list": "regions",
    "org": "organization organizations orgs",
    "plan": "billing quota quotas",
    "plan show": "usage",
    "serve": "start run server up",
    "shell": "sql query connect console psql repl open",
    "show": "info describe inspect get view status",
    "stop": "kill shutdown down quit",
    "suspend": "pause",
    "tokens": "token",
    "tour": "demo quickstart example examples",
}
"""The commands of the terminal; each is suggested where it exists."""

_OPTIONS = {
    "-- decimal=','": "decimal",
    "-- encoding='latin-1'": "encoding charset",
    "-- na_values=['NA']": "na-values na_values null nulls",
    "-- sep=';'": "sep separator delimiter",
    "-- skiprows=1": "skiprows skip-rows skip",
    "--access-log": "log log-file logfile",
    "--append": "if-exists",
    "--as": "name alias rename",
    "--at": "timestamp as-of point-in-time",
    "--atomic": "transaction single-transaction all-or-nothing rollback 1",
    "--bins": "buckets nbins",
    "--branch-of": "from-db copy-of parent source",
    "--columns": "cols fields column select",
    "--data": "folder dir directory data-dir path",
    "--dry-run": "test check simulate no-exec no-execute pretend n",
    "--encoding": "charset codec",
    "--encryption-key-env": "encryption-key key-env remote-encryption-key",
    "--expiration": "expires expire ttl expiry",
    "--explain": "plan query-plan analyze",
    "--file": "f script input",
    "--from-file": "file from db-file",
    "--group": "by hue color colour split",
    "--host": "address bind listen hostname h",
    "--if-not-exists": "if-exists exist-ok ignore-existing",
    "--jinja": "template",
    "--json": "format",
    "--key": "keys on primary-key by",
    "--limit": "max-rows maxrows nrows head top n row-limit display-limit displaylimit count",
    "--location": "region place",
    "--on": "connection conn connect database db use using d c",
    "--org": "organization organisation",
    "--out": "output result into var variable assign store dataframe df",
    "--params": "vars variables parameters param bind args v",
    "--quiet": "silent no-output",
    "--read-only": "readonly ro",
    "--references": "foreign-key fk",
    "--ssl-certfile": "tls-cert cert certificate certfile ssl-cert",
    "--ssl-keyfile": "tls-key key keyfile ssl-key",
    "--statement-timeout": "timeout",
    "--table": "name into to",
    "--temporary": "temp tmp memory in-memory ephemeral",
    "--time": "timing timer timings stopwatch",
    "--to": "output save file o target dest destination",
    "--to-csv": "csv export",
    "--to-parquet": "parquet",
    "--token-env": "password auth secret env token-var",
    "--type": "polars pandas arrow format result-type engine",
    "--types": "dtype dtypes schema cast",
    "--where": "filter condition",
    "--with": "cte snippet ctes",
}
"""The options of magics and of the terminal; each is suggested where it exists."""

_NOT_COMMANDS = {
    "write SQL after %sql, or in a cell that begins with %%sql": (
        "sql query execute exec run select \\g statement go fetch"
    ),
    "write BEGIN, COMMIT or ROLLBACK after %sql, or in a %%sql cell": "begin commit transaction start-transaction end",
    "%sql SELECT * FROM TABLE LIMIT 5 shows the first rows": "head tail sample peek preview view first cat top limit",
    "%sql SELECT count(*) FROM TABLE counts the rows": "count rows size",
    "%%sql --to-csv FILE writes a result to a file, and x = %sql SELECT ... stores it in a variable": (
        "export save-csv to-csv to_csv download output result results"
    ),
    "%%sql --save NAME saves the SELECT of a cell": "save store",
    "%%sql --file PATH runs the SQL in a file": "read source script \\i",
    "%%sql --explain shows the query plan of the SQL in a cell": "explain plan analyze eqp",
    "%%sql --time shows the time of each statement": "timing \\timing timeit",
    "DROP TABLE in a %%sql cell deletes a table, %pipedb delete-database NAME a database": "drop remove rm",
    "DELETE FROM in a %%sql cell deletes rows, %pipedb delete-database NAME a database": "delete",
    "CREATE TABLE in a %%sql cell creates a table, %pipedb create-database NAME a database": "create new make add",
    "%pipedb connect NAME --keep-alive TIME keeps a connection open": "keep-alive keepalive",
    "%config PipeMagic shows the settings": "config settings set options option mode \\pset \\set headers",
    "pipemagic serve in a terminal starts a service for other programs": "serve start server",
}
"""What to write instead of a word that is no command of %pipedb."""

_NOT_IN_TERMINAL = {
    "pipemagic doctor checks this machine": "status",
    "pipemagic --help lists the commands": "help",
    "pipemagic --version shows the version": "version",
    "pipemagic db create NAME --from-file FILE creates a database from a file": "import load upload restore",
}
"""What to write instead of a word that is no command of the terminal."""

_NAMES = {"command": _COMMANDS, "terminal command": _TERMINAL, "option": _OPTIONS}
_SENTENCES = {"command": _NOT_COMMANDS, "terminal command": _NOT_IN_TERMINAL}


def instead_of(word: str, kind: str, known: Iterable[str]) -> str:
    """Return the hint for a wrong name: what was meant, or what to write instead; '' if that is not clear.

    ``kind`` is ``command`` (of %pipedb), ``terminal command``, ``option``, or any other one, which has no synonyms.
    ``known`` are the names that are valid in the place of the wrong one.
    """
    names = [name for name in known if name not in PROTECTIONS]
    bare = word.lower().lstrip("-" if kind == "option" else "%.")
    if hint := _by_word(bare, kind, names):
        return hint
    if kind == "option" and not word.startswith("--"):
        return ""  # one letter is like any other
    if candidates := closest(word, names):
        return _question(word, candidates)
    synonyms = (synonym for synonym in [*_by_synonym(kind), *_sentences(kind)] if len(synonym) >= _LONG_SYNONYM)
    return next(filter(None, (_by_word(synonym, kind, names) for synonym in closest(bare, synonyms))), "")


def _by_word(word: str, kind: str, names: Sequence[str]) -> str:
    """Return the hint for a word of another tool, '' for an unknown one."""
    name = next((name for name in _by_synonym(kind).get(word, ()) if name.split()[0] in names), "")
    return f"did you mean {name}?" if name else _sentences(kind).get(word, "")


@cache
def _by_synonym(kind: str) -> dict[str, list[str]]:
    """Return the names that a word can stand for."""
    names: dict[str, list[str]] = {}
    for name, synonyms in _NAMES.get(kind, {}).items():
        for synonym in synonyms.split():
            names.setdefault(synonym, []).append(name)
    return names


@cache
def _sentences(kind: str) -> dict[str, str]:
    table = _SENTENCES.get(kind, {})
    return {word: sentence for sentence, words in table.items() for word in words.split()}


# -- names with a typing error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known names that a wrong name of the user's data may mean; '' for none.

    A name with blanks, or with characters that are not seen, is in quotes, and the hint describes them.
    """
    return _question(name, close_names(name, known))


def _question(name: str, candidates: Sequence[str]) -> str:
    if not candidates:
        return ""
    shown = " or ".join(map(_shown, candidates))
    return f"did you mean {shown}?{unseen_difference(name, candidates[0]) if len(candidates) == 1 else ''}"


def _shown(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if any(map(_is_unseen, name)) else name


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the only known name that a wrong name of the user's data may mean; '' for none or several."""
    candidates = close_names(name, known)
    return candidates[0] if len(candidates) == 1 else ""


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the names of the user's data that a wrong one may mean, at most `MOST`.

    They are read the same, or differ by a typing error, or have the same words and more: ``delay`` may mean
    ``dep_delay``, and ``departure_delay``, too.
    """
    names = list(dict.fromkeys(known))
    if twin := looks_like(name, names):
        return [twin]
    return closest(name, names) or _at_most(other for other in names if _shares_words(name, other))


def closest(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that differ least from a wrong one by typing errors, at most `MOST`, in their order.

    An error is a letter that is missing, too many or wrong, or two neighbours in the wrong order. Case, blanks and
    signs are not compared.
    """
    typed, by_errors = _letters(name), dict[int, list[str]]()
    if not typed or len(typed) > _LONGEST:
        return []
    for other in dict.fromkeys(known):
        errors = _errors(typed, _letters(other))
        if errors is not None:
            by_errors.setdefault(errors, []).append(other)
    return _at_most(by_errors[min(by_errors)]) if by_errors else []


def _at_most(names: Iterable[str]) -> list[str]:
    """Return the names, none if there are too many of them to mean one."""
    candidates = list(names)
    return candidates if len(candidates) <= MOST else []


def _letters(name: str) -> str:
    return _SEPARATORS.sub("", name.lower())


def _errors(typed: str, meant: str) -> int | None:
    """Return the number of typing errors, None if there are too many for the length of the name that is meant."""
    most = 2 if len(meant) >= LONG else 1
    if abs(len(typed) - len(meant)) > most or not meant:
        return None
    errors = distance(typed, meant)
    if errors > most or errors >= max(len(typed), len(meant)) or (errors == 2 and typed[0] != meant[0]):
        return None
    return errors


def distance(first: str, second: str) -> int:
    """Return the least number of letters to insert, delete, replace or swap with a neighbour to get the second text."""
    above, row = list[int](), list(range(len(second) + 1))
    for index, char in enumerate(first):
        last, above, row = above, row, [index + 1]
        for place, other in enumerate(second):
            errors = min(above[place + 1] + 1, row[place] + 1, above[place] + (char != other))
            if index and place and char == second[place - 1] and first[index - 1] == other:
                errors = min(errors, last[place - 1] + 1)
            row.append(errors)
    return row[-1]


def _shares_words(name: str, other: str) -> bool:
    """Return True if each word of one of the names is a word of the other, or its abbreviation."""
    few, many = sorted([_WORDS.findall(name.replace("_", " ")), _WORDS.findall(other.replace("_", " "))], key=len)
    rest = [word.lower() for word in many]
    for word in few:
        match = next((candidate for candidate in rest if _abbreviates(word.lower(), candidate)), None)
        if match is None:
            return False
        rest.remove(match)
    return bool(few)


def _abbreviates(first: str, second: str) -> bool:
    short, long = sorted([first, second], key=len)
    return long.startswith(short) and (len(short) >= _PART or short == long)


# -- names that look the same

_BLANKS = {" ": "a space", "\t": "a tab", "\n": "a line feed", "\r": "a carriage return"}
_MARKS = {"\ufeff": "byte order mark"}


def looks_like(name: str, known: Iterable[str]) -> str:
    """Return the known name that is read the same as another one but is not the same; '' for none.

    They differ by blanks at an end, by characters that are not seen, or by the Unicode form of an accent.
    """
    form = _seen(name)
    return next((other for other in known if other.lower() != name.lower() and form and _seen(other) == form), "")


def unseen_difference(name: str, other: str) -> str:
    """Return how a name differs from another one that is read the same, as the end of a hint; '' if it is not."""
    if _seen(name) != _seen(other):
        return ""
    parts = []
    for verb, mine, others in zip(("begins", "ends"), _ends(name), _ends(other), strict=True):
        if mine != others:
            parts.append(f"{verb} with {_listed(others)}" if others else f"does not {verb[:-1]} with {_listed(mine)}")
    inside, typed = (set(filter(_is_unseen, text.strip())) - {" "} for text in (other, name))
    ends = {char for end in _ends(other) for char in end}
    if strange := sorted(inside - typed - ends):
        parts.append(f"contains {_listed(strange)}")
    parts += _accents(name, other)
    remedy = "; encoding='utf-8-sig' reads a file without it" if "\ufeff" in other and "\ufeff" not in name else ""
    return f" the name {' and '.join(parts)}{remedy}" if parts else ""


def _seen(name: str) -> str:
    """Return a name as it is read: in lower case and one Unicode form, with each blank as one space inside."""
    visible = "".join(" " if char.isspace() else char for char in name if char.isspace() or not _is_unseen(char))
    return normalize("NFC", visible.strip().lower())


def _is_unseen(char: str) -> bool:
    return char.isspace() or category(char) in ("Cc", "Cf", "Zs", "Zl", "Zp")


def _ends(name: str) -> tuple[str, str]:
    """Return the characters before and after the part of a name that is seen."""
    seen = [place for place, char in enumerate(name) if not _is_unseen(char)]
    return (name[: seen[0]], name[seen[-1] + 1 :]) if seen else ("", "")


def _listed(characters: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(map(_described, characters)))


def _described(char: str) -> str:
    if char in _BLANKS:
        return _BLANKS[char]
    return f"a {_MARKS.get(char) or character_name(char, 'control character').lower()} (U+{ord(char):04X})"


def _accents(name: str, other: str) -> list[str]:
    """Return how the other name writes its accents, if the first one writes them in another form."""
    if normalize("NFC", other) != other and normalize("NFC", name) == name:
        place = next(at for at, char in enumerate(other) if combining(char))
        accent = other[place]
        return [
            f"writes {normalize('NFC', other[place - 1 : place + 1])} as {other[place - 1]} and U+{ord(accent):04X}"
        ]
    if normalize("NFC", name) != name and normalize("NFC", other) == other:
        char = next((char for char in other if normalize("NFD", char) != char), "")
        return [f"writes {char} as one character (U+{ord(char):04X})"] if char else []
    return []
