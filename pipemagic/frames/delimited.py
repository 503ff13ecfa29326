"""Read CSV and TSV: decode the file, find its separator, check the number of fields in each line, find the types.

pandas splits the lines into fields. It reads all of them as text, because its types lose what they cannot hold: 0012
is 12 for it, and a line with too few fields ends with NULLs. `pipemagic.frames.inference` finds the types.
"""

from __future__ import annotations

import codecs
import io
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipemagic.errors import LoadError
from pipemagic.frames import inference
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
    character,
)  # fmt: skip
from pipemagic.frames.grid import column_names, dtypes_of, unknown_column, used
from pipemagic.frames.inference import NumberFormat, TextColumn
from pipemagic.text import plural

OPTIONS = {
    "sep": character(";"), "decimal": character(","), "thousands": character("."), "quotechar": character("'"),
    "escapechar": character("\\"), "comment": character("#"), "encoding": ENCODING,
    "encoding_errors": ValueType((str,), "'replace'"), "header": HEADER, "names": NAMES, "usecols": NAMES,
    "skiprows": ROWS, "nrows": COUNT, "skipfooter": COUNT, "quoting": ValueType((int,), "3"), "doublequote": FLAG,
    "skipinitialspace": FLAG, "skip_blank_lines": FLAG,
    "na_values": ValueType((str, int, float, list, tuple, set, dict), "['NA']"), "keep_default_na": FLAG,
    "true_values": ValueType((list, tuple, set), "['yes']"), "false_values": ValueType((list, tuple, set), "['no']"),
    "dtype": DTYPE, "parse_dates": ValueType((bool, list, tuple), "['day']"), "dayfirst": FLAG,
    "date_format": ValueType((str, dict), "'%d.%m.%Y'"),
}  # fmt: skip
"""The parameters of ``pandas.read_csv`` that a load accepts, with the types of their values."""

_SEPARATORS = (",", ";", "\t", "|")
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_LINE_END = re.compile(r"\r\n|\n|\r")
_DEFAULT_NA = (
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL",
    "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
"""The texts that ``keep_default_na=True`` adds, as in pandas."""

# Numbers with a comma: decimals, or groups of thousands if all have this form.
_WITH_COMMA = re.compile(r"[+-]?(?:\d+(?:\.\d{3})*)?,\d+(?:[eE][+-]?\d+)?|[+-]?\d{1,3}(?:,\d{3})+", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_GROUPED = re.compile(r"[+-]?(?:0|[1-9]\d{0,2}(?:,\d{3})*)", re.ASCII)
_GROUPED_BY_POINT = re.compile(r"[+-]?(?:0|[1-9]\d{0,2}(?:\.\d{3})*)", re.ASCII)
_WITH_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?", re.ASCII)


_GROUPS = {
    mark: (
        re.compile(rf"[+-]?\d{{1,3}}(?:(?:[{mark}]\d{{3}}){{2,}}|(?:[{mark}]\d{{3}})+[{point}]\d+)", re.ASCII),
        re.compile(rf"[+-]?(?:\d{{1,3}}(?:[{mark}]\d{{3}})+|\d+)(?:[{point}]\d+)?", re.ASCII),
        re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:[{mark}]\d{{3}})+|[+-]?\d+", re.ASCII),
    )
    for mark, point in (",.", ".,")
}
"""For each thousands separator patterns: a number that proves it, numbers of its column, and ambiguous numbers."""


def decode(data: bytes, name: str, options: Mapping[str, Any]) -> str:
    """Return the text of a file: in the encoding of the options, of its byte order mark, otherwise in UTF-8."""
    encoding = options.get("encoding") or next((codec for mark, codec in _BOMS if data.startswith(mark)), "utf-8")
    try:
        if codecs.lookup(encoding).name == "utf-8":
            encoding = "utf-8-sig"
        text = data.decode(encoding, options.get("encoding_errors") or "strict")
    except LookupError:
        raise LoadError(f"unknown encoding {encoding!r}", hint="for example -- encoding='latin-1'") from None
    except UnicodeDecodeError as error:
        bad, line = data[error.start], data.count(b"\n", 0, error.start) + 1
        hint = f"add -- encoding={_other_encoding(data)!r}"
        shown = "UTF-8" if encoding == "utf-8-sig" else encoding
        raise LoadError(f"{name} is not {shown}: byte 0x{bad:02x} on line {line}", hint=hint) from None
    if "\0" in text:
        hint = f"add -- encoding={_other_encoding(data)!r}" if data.count(0) * 4 > len(data) else ""
        line = text.count("\n", 0, text.index("\0")) + 1
        raise LoadError(f"{name} contains a NUL character on line {line}", hint=hint)
    return text


def _other_encoding(data: bytes) -> str:
    """Return the probable encoding of a file that is not UTF-8."""
    if data.count(0) * 4 > len(data):  # letters of ASCII in two bytes
        return "utf-16-le" if data[1::2].count(0) > data[::2].count(0) else "utf-16-be"
    # Windows has letters and signs at 0x80 to 0x9f, where Latin-1 has control characters.
    return "cp1252" if re.search(b"[\x80-\x9f]", data) else "latin-1"


def read(text: str, name: str, options: Mapping[str, Any], separator: str = ",") -> pd.DataFrame:
    """Return the rows of a text. ``separator`` is the default of the format; the header line may use another one."""
    dialect = _Dialect.of(options)
    lines = _Lines.of(text, name, options)
    sep = options.get("sep") or _separator(lines, dialect, separator)
    counts = lines.field_counts(dialect, sep)
    if not counts:
        raise LoadError(f"{name} is empty")
    _check_counts(counts, name, options)
    if counts[0][1] == 1 and "skip_blank_lines" not in options:
        lines.check_gaps(dialect, sep)
    grid = _split(lines, dialect, sep)
    if grid.shape != (len(counts), counts[0][1]):  # pandas 2 repeats a blank line with the end \r thousands of times
        raise LoadError(
            f"{name}: pandas reads {len(grid)} rows of {grid.shape[1]} fields, but the file has {len(counts)} rows of "
            f"{counts[0][1]}",
            hint="read it with pandas.read_csv and check the rows before you load the DataFrame",
        )
    header = options.get("header", None if "names" in options else 0)
    names = column_names(grid, header, options, name)
    body = grid.iloc[0 if header is None else header + 1 :]
    body = body.iloc[: options.get("nrows")]
    columns = {column: body.iloc[:, place].to_numpy() for place, column in enumerate(names) if column is not None}
    return _typed(used(columns, options), sep, options)


# -- lines


@dataclass(frozen=True)
class _Dialect:
    """How fields are quoted."""

    quote: str = '"'
    escape: str = ""
    doubled: bool = True
    skips_blanks: bool = False
    comment: str = ""
    quoting: int = 0
    keeps_blank_lines: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> _Dialect:
        quoting = options.get("quoting", 0)
        return cls(
            "" if quoting == 3 else options.get("quotechar", '"'), options.get("escapechar") or "",
            options.get("doublequote", True), options.get("skipinitialspace", False), options.get("comment") or "",
            quoting, not options.get("skip_blank_lines", True),
        )  # fmt: skip

    def without_quoted(self, text: str, separators: str) -> str:
        """Return a text in which each field in quotes is one letter, followed by NUL for each line end in it."""
        if not self.quote or self.quote not in text:
            return self._without_escaped(text)
        mark, escape = re.escape(self.quote), re.escape(self.escape)
        inside = rf"[^{mark}{escape}]++" + (f"|{mark}{mark}" if self.doubled else "")
        inside += rf"|{escape}." if self.escape else ""
        field = re.compile(rf"(?<![^{re.escape(separators)}\r\n]){mark}(?:{inside})*+{mark}", re.DOTALL)
        return self._without_escaped(field.sub(lambda match: "q" + "\0" * len(_LINE_END.findall(match[0])), text))

    def _without_escaped(self, text: str) -> str:
        """Return a text with a letter for each escaped character."""
        if not self.escape:
            return text
        return re.sub(rf"{re.escape(self.escape)}.", "e", text)


@dataclass(frozen=True)
class _Lines:
    """The lines of a file that are read, and the number of each in the file."""

    name: str
    texts: Sequence[str]
    numbers: Sequence[int]

    @classmethod
    def of(cls, text: str, name: str, options: Mapping[str, Any]) -> _Lines:
        texts = io.StringIO(text, newline="").readlines()
        skipped = options.get("skiprows") or 0
        numbers = range(skipped, len(texts)) if isinstance(skipped, int) else sorted({*range(len(texts))} - {*skipped})
        numbers = numbers[: max(0, len(numbers) - (options.get("skipfooter") or 0))]
        return cls(name, [texts[line] for line in numbers], [line + 1 for line in numbers])

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "".join(self.texts)

    def records(self, dialect: _Dialect, separators: str) -> Iterable[tuple[int, str]]:
        """Yield the number and the text of each record that pandas reads; quoted fields are letters."""
        for number, content, is_blank in self._records(dialect, separators):
            if not is_blank or dialect.keeps_blank_lines:
                yield number, content

    def check_gaps(self, dialect: _Dialect, sep: str) -> None:
        """Raise LoadError for a blank line between the records of one column: it may be a missing value."""
        is_begun, blank = False, 0
        for number, _, is_blank in self._records(dialect, sep):
            if blank and not is_blank:
                raise LoadError(
                    f"{self.name}: line {blank} is blank: it may be a missing value in the only column",
                    hint="add -- skip_blank_lines=False if it is a row, or -- skip_blank_lines=True if it is not",
                )
            is_begun = is_begun or not is_blank
            if is_blank and is_begun:
                blank = blank or number

    def _records(self, dialect: _Dialect, separators: str) -> Iterable[tuple[int, str, bool]]:
        """Yield the number and the text of each record, and True for a blank one."""
        text = self.text
        if dialect.skips_blanks:
            text = re.sub(f"(?<=[{re.escape(separators)}]) +", "", text)
        bare, at = dialect.without_quoted(text, separators), 0
        blank = " \t\r\n".replace(separators, "")  # several ones are not a part of it
        opened = re.compile(rf"(?<![^{re.escape(separators)}]){re.escape(dialect.quote)}")
        for line in io.StringIO(bare, newline=""):
            content = line.partition(dialect.comment)[0] if dialect.comment else line
            is_blank = not line.strip(blank)
            if is_blank or content.strip(blank):
                if dialect.quote and dialect.quote in content and opened.search(content):
                    raise LoadError(
                        f"{self.name}: line {self.numbers[at]} has an unclosed quotation mark: {dialect.quote}",
                        hint="if quotation marks are part of the values, add -- quoting=3",
                    )
                yield self.numbers[at], content, is_blank
            at += 1 + line.count("\0")

    def field_counts(self, dialect: _Dialect, sep: str) -> list[tuple[int, int]]:
        """Return for each record its line and its number of fields."""
        return [(number, content.count(sep) + 1) for number, content in self.records(dialect, sep)]


def _separator(lines: _Lines, dialect: _Dialect, usual: str) -> str:
    """Return the separator: the usual one, or another one if all records have the same number of fields by it.

    Raise LoadError if several are possible.
    """
    candidates = "".join(dict.fromkeys((usual, *_SEPARATORS)))
    records = lines.records(dialect, candidates)
    header = next((content for _, content in records), "")
    in_header = [mark for mark in candidates if mark in header]
    if in_header in ([], [usual]):
        return usual
    contents = [header, *(content for _, content in records)]
    alike = [mark for mark in in_header if len({content.count(mark) for content in contents}) == 1]
    if len(alike) > 1:
        listed = " or ".join(f"-- sep={mark!r}" for mark in alike)
        raise LoadError(
            f"the separator of {lines.name} is ambiguous: it may be {' or '.join(map(repr, alike))}",
            hint=f"add {listed}",
        )
    if alike:
        return alike[0]
    is_one_column = all(usual not in content for content in contents)
    return usual if usual in in_header or is_one_column else in_header[0]


def _check_counts(counts: Sequence[tuple[int, int]], name: str, options: Mapping[str, Any]) -> None:
    """Raise LoadError for a record with another number of fields than the first one."""
    first, wanted = counts[0]
    other = next(((line, count) for line, count in counts if count != wanted), None)
    if other is not None:
        line, count = other
        hints = [f"add -- skiprows={line - 1} if the header is on line {line}"] if wanted == 1 else []
        hints += ["" if "sep" in options else "add -- sep=';' for another separator"]
        hints += ["put quotation marks around a field that contains the separator"]
        raise LoadError(
            f"{name}: line {line} has {plural(count, 'field')}, but line {first} has {wanted}",
            hint="; ".join(filter(None, hints)),
        )


def _split(lines: _Lines, dialect: _Dialect, sep: str) -> pd.DataFrame:
    """Return the fields as texts."""
    fields: pd.DataFrame
    try:
        fields = pd.read_csv(  # type: ignore[call-overload]
            io.StringIO(lines.text, newline=""), sep=sep, header=None, index_col=False, dtype=object, na_filter=False,
            quotechar=dialect.quote or '"', quoting=dialect.quoting, doublequote=dialect.doubled,
            escapechar=dialect.escape or None, skipinitialspace=dialect.skips_blanks, comment=dialect.comment or None,
            skip_blank_lines=not dialect.keeps_blank_lines, engine="c",
        )  # fmt: skip
    except (ValueError, TypeError) as error:  # also those of the parser
        raise LoadError(f"{lines.name}: {error}") from None
    return fields


# -- columns


def _typed(columns: Mapping[str, Any], sep: str, options: Mapping[str, Any]) -> pd.DataFrame:
    """Return the columns with their types."""
    texts = {name: TextColumn.of(column, _missing(name, options)) for name, column in columns.items()}
    dtypes, dates = dtypes_of(options, columns), _date_columns(options, columns)
    tried = options.get("parse_dates") is not False  # a list does not change the types of the other columns
    numbers = NumberFormat(options.get("decimal") or ".", options.get("thousands") or "")
    detected = "decimal" not in options and "thousands" not in options
    if detected:
        numbers = _number_format({name: column for name, column in texts.items() if name not in dtypes}, sep)
    true, false = (
        usual | set(map(str, options.get(name) or ()))
        for name, usual in (("true_values", inference.TRUE), ("false_values", inference.FALSE))
    )
    arrays: dict[str, Any] = {}
    for name, column in texts.items():
        if name in dtypes:
            arrays[name] = inference.converted(name, column.items(), dtypes[name], numbers)
        elif name in dates:
            arrays[name] = _parsed(name, column, options)
        else:
            arrays[name] = inference.typed_texts(column, numbers, true=true, false=false, dates=tried)
    frame = pd.DataFrame(arrays)
    floats = [texts[name].values for name in frame.columns[frame.dtypes == "Float64"] if name not in dtypes]
    has_decimals = any(numbers.decimal in text for values in floats for text in values)
    used = numbers.decimal if "decimal" in options or has_decimals else ""
    frame.attrs[READING] = Reading(used, "decimal" in options, detected, list(dtypes))
    return frame


def _missing(name: str, options: Mapping[str, Any]) -> set[str]:
    """Return the texts that are NULL in a column: the empty string and the values of the options."""
    values = options.get("na_values")
    if isinstance(values, Mapping):
        values = values.get(name)
    texts = [values] if isinstance(values, str | int | float) else values or ()
    return {"", *map(str, texts), *(_DEFAULT_NA if options.get("keep_default_na") else ())}


def _date_columns(options: Mapping[str, Any], names: Iterable[str]) -> Sequence[str]:
    """Return the columns that the option parse_dates names."""
    columns, names = options.get("parse_dates", True), list(names)
    for option in ("dayfirst", "date_format"):
        if option in options and isinstance(columns, bool):
            raise LoadError(
                f"{option} requires parse_dates, a list of the columns with dates",
                hint=f"add parse_dates=[{names[0]!r}]",
            )
    if isinstance(columns, bool):
        return ()
    for name in columns:
        if name not in names:
            raise unknown_column("parse_dates", name, names)
    return list(columns)


def _parsed(name: str, column: TextColumn, options: Mapping[str, Any]) -> Any:
    """Return a column of the option parse_dates; raise LoadError for a text that is not a date."""
    form, day_first = options.get("date_format"), options.get("dayfirst")
    form = form.get(name) if isinstance(form, Mapping) else form
    moments = inference.as_moments(column.values) if form is None and column.values else None
    if moments is None and column.values:
        if form is None and day_first is None:  # pandas would guess: 05.01.2024 is the 1st of May for it
            bad = next(text for text in column.values if inference.as_moments([text]) is None or len(column.values) > 1)
            raise LoadError(
                f"column {name}: {bad[:40]!r} is not an ISO date",
                hint="add dayfirst=True, or give the format of the dates: date_format='%d.%m.%Y'",
            )
        try:
            with warnings.catch_warnings(record=True) as doubts:  # of a date with another order than dayfirst says
                warnings.simplefilter("always")
                moments = pd.to_datetime(pd.Series(column.values), format=form, dayfirst=bool(day_first)).array
        except (ValueError, OverflowError) as error:
            raise LoadError(f"column {name}: {str(error).splitlines()[0]}") from None
        if doubts:
            hint = "give the format of the dates: date_format='%d.%m.%Y'"
            raise LoadError(f"column {name}: the dates do not have the order that dayfirst sets", hint=hint)
    return column.as_text() if moments is None else column.take(moments)


# -- decimal commas


def _number_format(columns: Mapping[str, TextColumn], sep: str) -> NumberFormat:
    """Return the form of the numbers of a file: with a decimal comma if that is certain.

    Raise LoadError if numbers with a comma have no certain meaning.
    """
    decimals, groups, points, point_groups = (list[tuple[str, str]]() for _ in range(4))
    stripped = {name: [text.strip(" \t") for text in column.values] for name, column in columns.items()}
    for name, texts in stripped.items():
        if any("," in text for text in texts) and all(
            _WITH_COMMA.fullmatch(text) or _INTEGER.fullmatch(text) for text in texts
        ):
            is_grouped = all(map(_GROUPED.fullmatch, texts))
            if not is_grouped or not any(text.count(",") > 1 for text in texts):  # 1,234,567 has no decimals
                (groups if is_grouped else decimals).append((name, next(text for text in texts if "," in text)))
        elif any("." in text for text in texts) and all(
            _WITH_POINT.fullmatch(text) or _INTEGER.fullmatch(text) for text in texts
        ):
            is_grouped = all(map(_GROUPED_BY_POINT.fullmatch, texts))
            (point_groups if is_grouped else points).append((name, next(text for text in texts if "." in text)))
    _check_groups(stripped, sep)
    if point_groups and sep == ";" and not (decimals or groups or points):  # a semicolon goes with a decimal comma
        name, text = point_groups[0]
        raise LoadError(
            f"column {name} is ambiguous: the point in {text} may separate decimals or thousands",
            hint=f"add -- decimal='.' or -- thousands='.'; to keep text, add -- dtype={{{name!r}: 'str'}}",
        )
    points += point_groups
    if not decimals and (not groups or sep == ","):
        return NumberFormat()  # "1,234" between commas stays text
    name, text = (decimals or groups)[0]
    as_is = f"to keep text, add -- dtype={{{name!r}: 'str'}}"
    if decimals and points:
        other, number = points[0]
        raise LoadError(
            f"column {name} has a decimal comma ({text}), but column {other} has a decimal point ({number})",
            hint=f"add -- decimal=',' thousands='.' if the point separates thousands; {as_is}",
        )
    if decimals and sep != ",":
        return NumberFormat(",")
    hints = ["add -- decimal=','", *([] if decimals else ["or -- thousands=','"])]
    raise LoadError(
        f"column {name} is ambiguous: the comma in {text} may separate decimals or thousands",
        hint=f"{' '.join(hints)}; {as_is}",
    )


def _check_groups(texts: Mapping[str, Sequence[str]], sep: str) -> None:
    """Raise LoadError for numbers such as 1,234 that would be decimals, although 1,234,567 is in another column."""
    for mark, (proof, numbers, ambiguous) in _GROUPS.items():
        if mark == sep:  # 1,234 between commas stays text
            continue
        proven = [
            name
            for name, column in texts.items()
            if any(mark in text for text in column)
            and all(numbers.fullmatch(text) or text.lower() in inference.MARKS for text in column)
            and any(map(proof.fullmatch, column))
        ]
        for name, column in texts.items() if proven else ():
            text = next((text for text in column if mark in text), "")
            if text and name not in proven and all(map(ambiguous.fullmatch, column)):
                raise LoadError(
                    f"column {name} is ambiguous: the {'comma' if mark == ',' else 'point'} in {text} may separate "
                    "decimals or thousands",
                    hint=f"add -- thousands={mark!r} or -- decimal={mark!r}; "
                    f"to keep text, add -- dtype={{{name!r}: 'str'}}",
                )
