"""Read local files into DataFrames: CSV, TSV, JSON, Excel and Parquet.

| file | reader | types |
|---|---|---|
| ``.csv``, ``.tsv`` | pandas, all fields as text | `pipemagic.frames.inference` |
| ``.json``, ``.jsonl``, ``.ndjson`` | `json`: numbers, texts and booleans are those of JSON | ISO texts are moments |
| ``.xlsx``, ``.xlsm`` | pandas with openpyxl | those of the cells: a text stays text |
| ``.parquet`` | pyarrow | those of Arrow |

CSV, TSV and JSON may be compressed (``.csv.gz``, ``.zip``, ``.bz2``, ``.xz``). An empty field, cell or null is NULL;
"NA" and "nan" are texts.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipemagic.errors import LoadError
from pipemagic.frames.file_options import (
    COUNT,
    DTYPE,
    ENCODING,
    FLAG,
    HEADER,
    NAMES,
    READING,
    ROWS,
    Reading,
    ValueType,
    parse_options,
)  # fmt: skip
from pipemagic.sql import quote
from pipemagic.suggestions import did_you_mean, nearest
from pipemagic.text import list_names, mask_passwords

if TYPE_CHECKING:
    import pandas as pd

    from pipemagic.frames import inference

_SUFFIXES = {
    "csv": "csv", "tsv": "tsv", "tab": "tsv", "json": "json", "jsonl": "jsonl", "ndjson": "jsonl", "parquet": "parquet",
    "xlsx": "excel", "xlsm": "excel",
}  # fmt: skip
"""The formats by suffix."""

_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(?!\d)", re.ASCII)

_CURRENCIES = "AUD BRL CAD CHF CNY CZK DKK EUR GBP HUF INR JPY KRW MXN NOK NZD PLN SEK TRY USD ZAR Fr. Rs. kr z\u0142"
_MINUS = "\u2212"
_SIGN = "|".join(["[$\u00a3\u00a5\u20a0-\u20bf%\u2030]", *map(re.escape, _CURRENCIES.split())])
_DECORATED = re.compile(
    rf"(?P<open>\(?)(?P<minus>[-{_MINUS}]?)\s*(?P<before>(?:{_SIGN})?)\s*(?P<number>[-+\d.][\deE+.,'\u2019\s-]*?)\s*"
    rf"(?P<after>(?:{_SIGN})?)(?P<close>\)?)"
)
"""A number with a sign of a currency or of per cent, in parentheses if it is negative, or with the true minus sign."""

_DIGITS = re.compile(r"[\d.,'\u2019\seE+-]+")
"""The characters of numbers."""

_POINTS = {".": "decimal point", ",": "decimal comma"}

_DATE = re.compile(
    r"\d{1,2}(?P<mark>[./-])\d{1,2}(?P=mark)(?P<year>\d{4}|\d{2})(?: \d{1,2}:\d{2}(?::\d{2})?)?", re.ASCII
)
"""A date that is not in ISO format; the day or the month comes first."""

_COMPRESSED = ("gz", "bz2", "xz", "zip")
_OF_TEXT = ("csv", "tsv", "json", "jsonl")
_LISTED = ".csv, .tsv, .json, .jsonl, .xlsx or .parquet, and .csv.gz or .csv.zip"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a Path has one slash; C:/ is a drive


def is_file_name(name: str) -> bool:
    """Return True if a name has the suffix of a file that `read_file` reads, or is an address of one."""
    return _format(name) is not None or _URL.match(name) is not None


def read_file(path: Path | str, options: Sequence[str] = ()) -> pd.DataFrame:
    """Return the rows of a local file, with the types that their values prove.

    ``options`` are parameters of the reader, each with a literal as its value: ``sep=';'``, ``skiprows=2``. Raise
    LoadError for a file that cannot be read without a loss.
    """
    if _URL.match(str(path)):
        address = mask_passwords(re.sub(r":/+", "://", str(path), count=1))
        raise LoadError(
            "load reads local files, not URLs",
            hint=f"import urllib.request\nurllib.request.urlretrieve({address!r}, {_last_part(address)!r})",
        )
    file = Path(path).expanduser()
    file_format = _format(file.name)
    if file_format is None:
        _check_exists(file)
        raise _unknown_format(file)
    kind, compression = file_format
    reader, kinds = _readers()[kind]
    values = parse_options(options, kinds, kind)
    _check_exists(file)
    try:
        return reader(_File(file, kind, compression), values)
    except OSError as error:
        raise LoadError(f"cannot read {file.name}: {error.strerror or error}") from None
    except MemoryError:
        raise LoadError(f"{file.name} does not fit in the memory of the kernel", hint="add -- nrows=100000") from None


class LeftAsText(NamedTuple):
    """Columns of a file that stay text, why, the options that read them, and what the options read.

    One of several ``options`` has to be chosen; without any, none reads these columns together with the others.
    """

    columns: list[str]
    reason: str
    options: Sequence[str] = ()
    reads: str = ""
    expression: str = ""
    """The number in SQL, for the first of the columns."""

    def __str__(self) -> str:
        names = ", ".join(self.columns)
        subject = f"Column {names} was" if len(self.columns) == 1 else f"Columns {names} were"
        because = f"{subject} left as text because {self.reason}."
        if self.expression:
            return f"{because} In SQL, {self.expression} is the number."
        if len(self.options) == 1:
            return f"{because} Add -- {self.options[0]} to read {self.reads}."
        lines = [f"-- {options}" for options in self.options]
        return "\n".join([f"{because} Add one of these to read {self.reads}:" if lines else because, *lines])


class _Number(NamedTuple):
    """A text of a column of numbers that has a thousands separator, '' for none, and the decimal mark, '' for none."""

    text: str
    thousands: str
    decimal: str


class _Date(NamedTuple):
    """A text of a column of dates, and the formats that fit all of them."""

    text: str
    formats: Sequence[str]


def columns_left_as_text(frame: pd.DataFrame, path: Path) -> Iterator[LeftAsText]:
    """Yield the columns of a CSV or TSV file that options of its reader would make numbers or dates."""
    kind, _ = _format(path.name) or ("", "")
    if kind not in ("csv", "tsv"):  # the readers of others have no such options
        return
    reading: Reading = frame.attrs[READING]
    names = [name for name in frame.columns[frame.dtypes == "string"] if name not in reading.typed]
    columns = {name: frame[name].dropna().drop_duplicates() for name in names}
    marked = {name: marks for name, texts in columns.items() if (marks := _marks_of_missing_values(texts))}
    if marked:
        marks = list(dict.fromkeys(mark for found in marked.values() for mark in found))
        because = " and ".join(map(repr, marks)) + (
            " is not a number or date" if len(marks) == 1 else " are not numbers or dates"
        )
        others = [name for name, texts in columns.items() if name not in marked and texts.isin(marks).any()]
        also = f", also in column{'s' * (len(others) > 1)} {', '.join(others)}" if others else ""  # where NA is Namibia
        yield LeftAsText(list(marked), because, [f"na_values={marks!r}"], f"missing values{also}")
    rest = {name: texts[~texts.isin(marked.get(name, []))] for name, texts in columns.items()}
    if dates := {name: date for name, texts in rest.items() if (date := _date(texts)) is not None}:
        yield _of_dates(dates)
    numbers = {name: number for name, texts in rest.items() if (number := _number(texts)) is not None}
    plain = {name: number for name, number in numbers.items() if not number.thousands}
    decimals = {reading.decimal, *(number.decimal for number in plain.values())}
    for name, texts in rest.items():
        if name not in dates and name not in numbers:
            other = _inexact(name, texts, reading) or _decorated(name, texts, reading) or _mixed_dates(name, texts)
            # The expression would make 0 of the marks.
            yield from [other._replace(expression="") if name in marked else other] if other else []
    for thousands in dict.fromkeys(number.thousands for number in numbers.values()):
        if thousands:
            alike = {name: number for name, number in numbers.items() if number.thousands == thousands}
            yield _of_numbers(alike, thousands, decimals, reading)
    # Without an option they are only beside marks of missing values, and will be read without these.
    unread = {name: number for name, number in plain.items() if number.decimal != (reading.decimal or ".")}
    if unread and not reading.detected:
        yield _of_numbers(unread, "", decimals, reading)


def _of_numbers(
    columns: Mapping[str, _Number], thousands: str, decimals: Iterable[str], reading: Reading
) -> LeftAsText:
    """Return columns of numbers with the same thousands separator; ``decimals`` are the decimal marks of the others.

    The options are those that the whole file needs.
    """
    number = max(columns.values(), key=lambda number: bool(number.decimal))
    first = next(iter(columns.values()))
    decimals = {*decimals, *(number.decimal for number in columns.values())} - {""}
    reason = f"{first.text!r} has a {'thousands separator' if thousands else _POINTS[number.decimal]}"
    if thousands in decimals:
        return LeftAsText(list(columns), f"{reason}, which is the decimal mark of other numbers")
    if len(decimals) > 1:
        return LeftAsText(list(columns), f"{number.text!r} has another decimal mark than other numbers")
    options = [f"thousands={thousands!r}"] if thousands else []
    options += [f"decimal={mark!r}" for mark in decimals if mark != "." and not reading.is_set]
    return LeftAsText(list(columns), reason, [" ".join(options)], "numbers")


def _of_dates(columns: Mapping[str, _Date]) -> LeftAsText:
    """Return columns of dates: one line of options reads all of them, whatever their formats."""
    firsts = dict[str, str]()
    for date in columns.values():
        firsts.setdefault(date.formats[0], date.text)
    texts = list(dict.fromkeys(firsts.values()))
    reason = f"{' and '.join(map(repr, texts))} {'is not an ISO date' if len(texts) == 1 else 'are not ISO dates'}"
    count = max(len(date.formats) for date in columns.values())
    options = []
    for choice in range(count):
        formats = {name: date.formats[min(choice, len(date.formats) - 1)] for name, date in columns.items()}
        shown = formats if len(set(formats.values())) > 1 else next(iter(formats.values()))
        options.append(f"parse_dates={list(columns)!r} date_format={shown!r}")
    doubt = ", and the day or the month may come first" if count > 1 else ""
    return LeftAsText(list(columns), reason + doubt, options, "dates")


def _marks_of_missing_values(texts: pd.Series[str]) -> list[str]:
    """Return the texts that usually mean a missing value, if all others are numbers, booleans or dates in any form."""
    from pipemagic.frames import inference

    is_mark = texts.str.strip().str.lower().isin(inference.MARKS)
    others = texts[~is_mark]
    if others.empty or not is_mark.any():
        return []
    column = inference.TextColumn.of(others, ())
    proven = any(
        inference.typed_texts(column, inference.NumberFormat(decimal)).dtype != column.as_text().dtype
        for decimal in (".", ",")
    )
    reading = Reading("", is_set=False, detected=True, typed=())
    are_numbers = proven or _number(others) or _inexact("a", others, reading) or _decorated("a", others, reading)
    return texts[is_mark].tolist() if are_numbers or _date(others) else []


def _number(texts: pd.Series[str]) -> _Number | None:
    """Return how numbers are written that stay text; None if they are no numbers in any format."""
    from pipemagic.frames import inference

    values = texts.tolist()
    for numbers in _formats(values):
        if inference.as_numbers(values, numbers) is None:
            continue
        text = next(text for text in values if numbers.thousands in text.strip())
        shown = next((text for text in values if numbers.decimal in text), "")
        if shown or numbers.thousands:
            return _Number(text if numbers.thousands else shown, numbers.thousands, numbers.decimal if shown else "")
    return None


def _formats(values: Sequence[str]) -> Iterator[inference.NumberFormat]:
    """Yield the formats that numbers may have, with each thousands separator that is in one of the texts."""
    formats = _formats_of_first(values)
    if formats and all(map(_DIGITS.fullmatch, values)):
        characters = {"", *"".join(map(str.strip, values))}
        yield from (numbers for numbers in formats if numbers.thousands in characters)


def _formats_of_first(values: Sequence[str]) -> list[inference.NumberFormat]:
    """Return the formats of the first texts. Most columns are no numbers: it would be slow to try all of them."""
    from pipemagic.frames import inference

    marks = ((mark, thousands) for thousands in (*".,'\u2019", *inference.SPACES, "") for mark in ".,")
    formats = [inference.NumberFormat(mark, thousands) for mark, thousands in marks if mark != thousands]
    return [numbers for numbers in formats if inference.plain_numbers(values[:100], numbers) is not None]


def _inexact(name: str, texts: pd.Series[str], reading: Reading) -> LeftAsText | None:
    """Return why a column of numbers is no column of integers or floats: one is not exact there; None if it is not."""
    from pipemagic.frames import inference

    values = texts.tolist()
    for numbers in _formats(values):
        text, kind = inference.inexact_number(values, numbers)
        if not text:
            continue
        reason = f"{text[:40]!r} is not exact as a 64-bit {kind}"
        is_integer = all(numbers.decimal not in text for text in values)
        is_plain = not numbers.thousands and (is_integer or numbers.decimal == (reading.decimal or "."))
        return LeftAsText([name], reason, [f"dtype={{{name!r}: 'float'}}"] if is_plain else [], "the nearest floats")
    return None


def _decorated(name: str, column: pd.Series[str], reading: Reading) -> LeftAsText | None:
    """Return a column of numbers with signs of a currency, of per cent and the like; None for another one."""
    from pipemagic.frames import inference

    texts = column.tolist()
    first, _ = _without_signs(texts[:100])
    values, signs = _without_signs(texts) if _formats_of_first(first) else ([], {})
    found = {
        form: numbers.tolist()
        for form in _formats(values)
        if reading.decimal in ("", form.decimal) and (numbers := inference.as_numbers(values, form)) is not None
    }
    if not found or not signs:
        return None
    shown = next(text for text in texts if any(sign in text for sign in signs))
    reason = f"{shown!r} has {list_names([repr(sign) for sign in signs])} beside the number"
    form, numbers = next(iter(found.items()))
    if any(others != numbers for others in found.values()):  # $1,234 may be 1.234
        return LeftAsText([name], reason)
    spaces = [space for space in inference.SPACES if any(space in text for text in texts)]
    changes = signs | dict.fromkeys([*spaces, form.thousands], "") | ({",": "."} if form.decimal == "," else {})
    changes = {old: new for old, new in changes.items() if old and any(old in text for text in texts)}
    expression, plain = quote(name), texts
    for old, new in changes.items():
        expression = f"replace({expression}, {quote(old, chr(39))}, '{new}')"
        plain = [text.replace(old, new) for text in plain]
    converted = inference.as_numbers(plain, inference.NumberFormat())
    if converted is None or converted.tolist() != numbers:
        return LeftAsText([name], reason)
    return LeftAsText([name], reason, expression=f"CAST({expression} AS REAL)")


def _without_signs(texts: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return numbers without their signs, and what to write for each sign; nothing if one of the texts is another."""
    values, signs = [], dict[str, str]()
    for text in texts:
        parts = _DECORATED.fullmatch(text.strip())
        if parts is None or bool(parts["open"]) != bool(parts["close"]):
            return [], {}
        values.append(("-" if parts["open"] or parts["minus"] else "") + parts["number"])
        signs |= dict.fromkeys(filter(None, (parts["before"], parts["after"])), "")
        signs |= {"(": "-", ")": ""} if parts["open"] else {}
        signs |= {_MINUS: "-"} if _MINUS in text else {}
    return values, signs


def _date(texts: pd.Series[str]) -> _Date | None:
    """Return how dates are written that stay text; None if they are no dates."""
    import pandas as pd

    first = _DATE.fullmatch(texts.iloc[0]) if len(texts) else None
    if first is None:
        return None
    year = "%Y" if len(first["year"]) == 4 else "%y"
    time = {0: "", 1: " %H:%M", 2: " %H:%M:%S"}[texts.iloc[0].count(":")]
    fitting: dict[str, pd.Series[pd.Timestamp]] = {}
    for order in (("%d", "%m", year), ("%m", "%d", year)):
        form = first["mark"].join(order) + time
        moments = pd.to_datetime(texts, format=form, errors="coerce")
        if moments.notna().all() and not any(moments.equals(others) for others in fitting.values()):
            fitting[form] = moments
    return _Date(texts.iloc[0], list(fitting)) if fitting else None


def _mixed_dates(name: str, texts: pd.Series[str]) -> LeftAsText | None:
    """Return a column of dates in several forms, which are in no order as text; None for another one."""
    from pipemagic.frames import inference

    forms: dict[str, str] = {}
    for text in texts.tolist():
        match = _DATE.match(text) or _ISO_DATE.match(text)
        if match is None:
            return None
        month, day = sorted(map(int, re.findall(r"\d+", text)[:2])) if match.re is _DATE else (1, 1)
        if not (1 <= month <= 12 and day <= 31):
            return None
        forms.setdefault(re.sub(r"\d", "", text), text)
    if not forms or inference.as_moments(texts.tolist()) is not None:  # beside marks of missing values
        return None
    first, *others = [*forms.values(), *texts.iloc[1:2]]
    shown = " and ".join(map(repr, [first, *others[:1]]))
    return LeftAsText([name], f"its dates have several forms: {shown}") if others else None


def _format(name: str) -> tuple[str, str] | None:
    """Return the format of a file and its compression ('' for none) by its name; None if it is unknown."""
    *_, before, last = ["", *name.lower().split(".")]
    if last in _COMPRESSED and _SUFFIXES.get(before) in _OF_TEXT:
        return _SUFFIXES[before], last
    return (_SUFFIXES[last], "") if last in _SUFFIXES and before + last != last else None


def _last_part(address: str) -> str:
    return re.split(r"[?#]", address)[0].rstrip("/").rpartition("/")[2] or "data.csv"


def _check_exists(file: Path) -> None:
    """Raise LoadError if there is no such file."""
    if file.is_dir():
        raise LoadError(f"{file} is a folder", hint="name a file in it")
    if file.is_file():
        return
    if not file.parent.is_dir():
        raise LoadError(f"folder {file.parent} does not exist", hint="%pwd shows the current folder")
    others = [other.name for other in file.parent.iterdir() if _format(other.name) is not None]
    near = nearest(file.name, others)
    hint = f"did you mean {file.with_name(near)}?" if near else "%pwd shows the current folder"
    raise LoadError(f"file {file} does not exist", hint=hint)


def _unknown_format(file: Path) -> LoadError:
    if file.suffix.lower() in (".xls", ".ods"):
        return LoadError(f"{file.name}: {file.suffix} files are not supported", hint="save it as .xlsx or .csv first")
    if file.suffix.lower() in (".db", ".sqlite", ".sqlite3"):
        hint = f"%pipedb create-database {file.stem} --from-file {file} creates a database from it"
        return LoadError(f"{file.name} is a database, not a table", hint=hint)
    return LoadError(f"{file.name} has an unsupported file format", hint=f"its name must end with {_LISTED}")


@dataclass(frozen=True)
class _File:
    """A file with its format and its compression, '' for none."""

    path: Path
    kind: str
    compression: str

    @property
    def name(self) -> str:
        """The name in messages."""
        return self.path.name


# -- CSV and TSV


def _read_delimited(file: _File, options: Mapping[str, Any]) -> pd.DataFrame:
    from pipemagic.frames import delimited

    text = delimited.decode(_content(file), file.name, options)
    return delimited.read(text, file.name, options, "\t" if file.kind == "tsv" else ",")


def _content(file: _File) -> bytes:
    """Return the bytes of a file, decompressed."""
    data = file.path.read_bytes()
    try:
        match file.compression:
            case "gz":
                return gzip.decompress(data)
            case "bz2":
                return bz2.decompress(data)
            case "xz":
                return lzma.decompress(data)
            case "zip":
                return _only_member(data, file.name)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError) as error:
        raise LoadError(f"cannot decompress {file.name}: {error}") from None
    return data


def _only_member(data: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [
            member for member in archive.namelist() if not member.endswith("/") and not member.startswith("__MACOSX/")
        ]
        if len(members) != 1:
            listed = ", ".join(members[:5]) or "none"
            raise LoadError(f"{name} contains {len(members)} files ({listed})", hint="unpack it and load one of them")
        return archive.read(members[0])


# -- JSON

_JSON = {
    "encoding": ENCODING, "encoding_errors": ValueType((str,), "'replace'"), "lines": FLAG, "nrows": COUNT,
    "dtype": DTYPE, "convert_dates": FLAG,
}  # fmt: skip


def _read_json(file: _File, options: Mapping[str, Any]) -> pd.DataFrame:
    """Return an array of objects, or a line for each object, as rows; a key that is missing is NULL."""
    from pipemagic.frames import delimited

    text = delimited.decode(_content(file), file.name, options)
    records = _records(text, file.name, lines=options.get("lines", True if file.kind == "jsonl" else None))
    records = records[: options.get("nrows")]
    names = list(dict.fromkeys(name for record in records for name in record))
    if not names:
        raise LoadError(f"{file.name} contains no {'values' if records else 'rows'}")
    columns = {name: [record.get(name) for record in records] for name in names}
    return _frame(columns, options, dates=options.get("convert_dates", True))


def _records(text: str, name: str, *, lines: bool | None) -> list[dict[str, Any]]:
    """Return the objects of a JSON file; ``lines`` is None if its form is not known."""
    records: list[tuple[int, Any]] = []
    if not lines:
        try:
            value = _parse(text)
        except json.JSONDecodeError as error:
            if lines is False or not error.msg.startswith("Extra data"):
                raise LoadError(f"{name} is not valid JSON: line {error.lineno}: {error.msg}") from None
        else:
            if isinstance(value, dict) and not any(isinstance(part, list | dict) for part in value.values()):
                value = [value]  # JSON lines with one line
            if not isinstance(value, list):
                hint = f"read it with pandas.read_json({name!r}) and load the DataFrame"
                raise LoadError(f"{name} is not an array of objects", hint=hint)
            records = list(enumerate(value, start=1))
    place = "row"
    if lines or (lines is None and not records and text.strip().startswith("{")):
        place = "line"
        for number, line in enumerate(text.split("\n"), start=1):
            try:
                records += [(number, _parse(line))] if line.strip() else []
            except json.JSONDecodeError as error:
                raise LoadError(f"{name} is not valid JSON: line {number}: {error.msg}") from None
    for number, record in records:
        if not isinstance(record, dict):
            raise LoadError(f"{name}: {place} {number} is not an object: {str(record)[:40]}")
    return [record for _, record in records]


def _parse(text: str) -> Any:
    """Parse JSON; raise LoadError for a key that is twice in an object, or a number that a float cannot hold."""
    from pipemagic.frames.inference import is_exact

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
            raise LoadError(f"an object has the duplicate key {twice!r}")
        return members

    def number(digits: str) -> float:
        if not is_exact(digits):
            raise LoadError(
                f"the number {digits[:40]} does not fit in a 64-bit float", hint="write it as a string in quotes"
            )
        return float(digits)

    try:
        return json.loads(text, object_pairs_hook=unique, parse_float=number)
    except RecursionError:
        raise LoadError("the objects in the file are nested too deeply") from None


def _frame(
    columns: Mapping[str, Sequence[Any]], options: Mapping[str, Any], *, dates: bool, doubles: bool = False
) -> pd.DataFrame:
    """Return columns of Python values with their types."""
    import pandas as pd

    from pipemagic.frames import inference
    from pipemagic.frames.grid import dtypes_of

    dtypes = dtypes_of(options, columns)
    return pd.DataFrame(
        {
            name: inference.converted(name, values, dtypes[name], inference.NumberFormat())
            if name in dtypes
            else inference.typed_values(values, dates=dates, doubles=doubles)
            for name, values in columns.items()
        }
    )


# -- Excel

_EXCEL = {
    "sheet_name": ValueType((str, int), "'Sheet1'"), "header": HEADER, "names": NAMES,
    "usecols": ValueType((str, list, tuple), "['a', 'b']"), "skiprows": ROWS, "nrows": COUNT, "skipfooter": COUNT,
    "na_values": ValueType((str, list, tuple, set), "['NA']"), "dtype": DTYPE,
}  # fmt: skip


def _read_excel(file: _File, options: Mapping[str, Any]) -> pd.DataFrame:
    """Return a sheet, by default the first one; a text stays text, and an empty cell is NULL."""
    import pandas as pd

    from pipemagic.frames.grid import column_names, used

    by_letters = isinstance(options.get("usecols"), str)
    passed = {name: options[name] for name in ("skiprows", "skipfooter") if name in options}
    if by_letters:
        passed["usecols"] = options["usecols"]
    try:
        with pd.ExcelFile(file.path, engine="openpyxl") as book:
            sheet = options.get("sheet_name", 0)
            sheets = [str(name) for name in book.sheet_names]
            if sheet not in sheets if isinstance(sheet, str) else sheet >= len(sheets):
                near = did_you_mean(str(sheet), sheets)
                raise LoadError(
                    f"{file.name} has no sheet {sheet!r}", hint=near or f"the sheets are {', '.join(sheets)}"
                )
            # Without a type for each column, pandas makes the number 12 of the text 0012.
            grid = pd.read_excel(book, sheet_name=sheet, header=None, dtype=object, na_filter=False, **passed)
    except ImportError:
        raise LoadError(f"{file.name}: Excel files require openpyxl", hint="%pip install openpyxl") from None
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise LoadError(f"cannot read {file.name}: {error}") from None
    if grid.empty:
        raise LoadError(f"{file.name}: the sheet is empty")
    header = options.get("header", None if "names" in options else 0)
    names = column_names(grid, header, options, file.name)
    na_values = options.get("na_values", ())
    missing = {"", *([na_values] if isinstance(na_values, str) else na_values)}
    body = grid.iloc[0 if header is None else header + 1 :].iloc[: options.get("nrows")]
    columns = {
        name: [None if isinstance(value, str) and value in missing else value for value in body.iloc[:, place].tolist()]
        for place, name in enumerate(names)
        if name is not None
    }
    return _frame(columns if by_letters else used(columns, options), options, dates=False, doubles=True)


# -- Parquet

_PARQUET = {"columns": NAMES}


def _read_parquet(file: _File, options: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows with the types of Arrow."""
    import pandas as pd

    from pipemagic.frames.grid import unknown_column

    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise LoadError(f"{file.name}: Parquet files require pyarrow", hint="%pip install pyarrow") from None
    try:
        with file.path.open("rb") as opened:
            wanted = options.get("columns")
            opened_file = parquet.ParquetFile(opened)
            for name in wanted or ():
                if name not in opened_file.schema_arrow.names:
                    raise unknown_column("columns", name, opened_file.schema_arrow.names)
            table = opened_file.read(columns=None if wanted is None else list(wanted))
    except pa.ArrowException as error:
        raise LoadError(f"{file.name} is not a valid Parquet file: {str(error).splitlines()[0]}") from None
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def _readers() -> Mapping[str, tuple[Callable[[_File, Mapping[str, Any]], pd.DataFrame], Mapping[str, ValueType]]]:
    """Return the reader of each format, and its options."""
    from pipemagic.frames import delimited

    text, objects = (_read_delimited, delimited.OPTIONS), (_read_json, _JSON)
    return {
        "csv": text, "tsv": text, "json": objects, "jsonl": objects, "excel": (_read_excel, _EXCEL),
        "parquet": (_read_parquet, _PARQUET),
    }  # fmt: skip
