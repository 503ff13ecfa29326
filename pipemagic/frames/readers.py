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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipemagic.errors import LoadError
from pipemagic.frames.file_options import COUNT, DTYPE, ENCODING, FLAG, HEADER, NAMES, ROWS, ValueType, parse_options
from pipemagic.suggestions import did_you_mean, nearest
from pipemagic.text import mask_passwords

if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = {
    "csv": "csv", "tsv": "tsv", "tab": "tsv", "json": "json", "jsonl": "jsonl", "ndjson": "jsonl", "parquet": "parquet",
    "xlsx": "excel", "xlsm": "excel",
}  # fmt: skip
"""The formats by suffix."""

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
