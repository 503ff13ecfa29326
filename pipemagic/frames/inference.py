"""Find the type of a column that was read from a file: of its texts (CSV), or of its values (JSON, Excel).

A column gets a type only if each of its values has exactly one meaning in it, and keeps this meaning; otherwise it
stays text. So ``0012``, ``+49151234``, integers beyond 64 bits, ``05.01.2024``, and numbers in a column with ``n/a``
are texts.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pipemagic.errors import LoadError
from pipemagic.hrana.values import MAX_INTEGER, MIN_INTEGER

TRUE, FALSE = frozenset({"true", "True", "TRUE"}), frozenset({"false", "False", "FALSE"})

MARKS = frozenset({
    "na", "n/a", "#n/a", "n.a.", "nan", "null", "none", "<na>", "nil", "-", "--", ".", "?", "missing", "unknown", "",
})  # fmt: skip
"""Texts in lower case, without blanks around them, that mean a missing value where the others are numbers or dates."""

SPACES = " \u00a0\u202f\u2009"
"""Spaces between thousands: the plain one, those that do not break a line, and the thin one."""

_BLANKS = " \t"
_WHOLE = r"(?:0|[1-9]\d*)"
_EXPONENT = r"(?:[eE][+-]?\d+)"
_INTEGER = re.compile(rf"-?{_WHOLE}", re.ASCII)
# A sign + is that of a number only beside a point: +49151234 is a telephone number.
_FLOAT = re.compile(rf"-?{_WHOLE}{_EXPONENT}?|[+-]?(?:{_WHOLE}?\.\d+|{_WHOLE}\.){_EXPONENT}?", re.ASCII)
_INFINITE = r"inf(?:inity)?"
_INFINITY = re.compile(rf"[+-]?{_INFINITE}", re.IGNORECASE | re.ASCII)
_ANY_NUMBER = re.compile(rf"[+-]?(?:(?:\d+\.?\d*|\.\d+){_EXPONENT}?|{_INFINITE})", re.IGNORECASE | re.ASCII)
_ZERO = re.compile(r"[-+0.]+(?:[eE].*)?", re.ASCII)
_EXACT = 2**53
"""Below it, floats hold all integers."""
_MOMENT = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)(?:[ T](?P<time>\d\d:\d\d(?::\d\d(?:\.(?P<fraction>\d{1,9}))?)?)"
    r" ?(?P<zone>Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?)?",
    re.ASCII,
)

_DTYPES = {
    "int": "Int64", "int64": "Int64", "Int64": "Int64", "float": "Float64", "float64": "Float64", "Float64": "Float64",
    "bool": "boolean", "boolean": "boolean", "str": "string", "string": "string", "object": "string",
}  # fmt: skip
"""The types that the option dtype accepts, and those of the columns."""


@dataclass(frozen=True)
class NumberFormat:
    """The decimal mark and the thousands separator of numbers in a text ('' for none)."""

    decimal: str = "."
    thousands: str = ""

    def plain(self, text: str) -> str:
        """Return the text of a number without thousands separators and with a decimal point; '' if it has others."""
        text = text.strip(_BLANKS)
        if self.thousands and any(mark in text for mark in self._marks):
            if not self._grouped.fullmatch(text):
                return ""
            for mark in self._marks:
                text = text.replace(mark, "")
        if self.decimal == ".":
            return text
        return "" if "." in text else text.replace(self.decimal, ".")

    @cached_property
    def _marks(self) -> str:
        return SPACES if self.thousands in SPACES else self.thousands

    @cached_property
    def _grouped(self) -> re.Pattern[str]:
        marks, point = f"[{re.escape(self._marks)}]", re.escape(self.decimal)
        return re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:{marks}\d{{3}})+(?:{point}\d*)?", re.ASCII)


class TextColumn(NamedTuple):
    """A column of texts: its distinct ``values``, and the index of the value in each row, -1 for a missing one."""

    codes: Any
    values: list[str]

    @classmethod
    def of(cls, column: Any, missing: Collection[str]) -> TextColumn:
        """Return the texts of an array of objects; those in ``missing`` are no values."""
        codes, uniques = pd.factorize(np.asarray(column, dtype=object))
        values = uniques.tolist()
        mask = [text not in missing for text in values]
        if not all(mask):
            places = np.where(mask, np.cumsum(mask) - 1, -1)
            codes = np.where(codes < 0, -1, places[codes])
            values = [text for text, keep in zip(values, mask, strict=True) if keep]
        return cls(codes, values)

    def take(self, values: Any, dtype: str = "") -> Any:
        """Return an array with the converted value of each row."""
        array: Any = pd.array(values, dtype=dtype) if dtype else values
        return array.take(self.codes, allow_fill=True)

    def items(self) -> list[str | None]:
        """Return the text of each row, None for a missing one."""
        return [None if code < 0 else self.values[code] for code in self.codes.tolist()]

    def as_text(self) -> Any:
        """Return the texts as they are; without any value, a column of no type."""
        return self.take(self.values, "string") if self.values else pd.array([None] * len(self.codes), dtype=object)


def typed_texts(
    texts: TextColumn,
    numbers: NumberFormat,
    *,
    true: Collection[str] = TRUE,
    false: Collection[str] = FALSE,
    dates: bool = True,
) -> Any:
    """Return a column with the type that its texts prove: integers, floats, booleans, moments, otherwise text."""
    if not texts.values:
        return texts.as_text()
    if (parsed_numbers := as_numbers(texts.values, numbers)) is not None:
        return texts.take(parsed_numbers, "Int64" if parsed_numbers.dtype.kind == "i" else "Float64")
    stripped = [text.strip(_BLANKS) for text in texts.values]
    if all(text in true or text in false for text in stripped):
        return texts.take([text in true for text in stripped], "boolean")
    if dates and (moments := as_moments(texts.values)) is not None:
        return texts.take(moments)
    return texts.as_text()


def as_numbers(texts: Iterable[str], numbers: NumberFormat) -> Any | None:
    """Return texts as an array of int64 or float64; None if one is no number, or would not be exact."""
    plain = plain_numbers(texts, numbers)
    if plain is None:
        return None
    if all(map(_INTEGER.fullmatch, plain)):
        integers = list(map(int, plain))
        return np.array(integers, np.int64) if all(map(_fits_64_bits, integers)) else None
    if all(map(_INFINITY.fullmatch, plain)) or not all(map(is_exact, plain)):
        return None
    return np.array(list(map(float, plain)))


def inexact_number(texts: Sequence[str], numbers: NumberFormat) -> tuple[str, str]:
    """Return the first of the texts that the type of such numbers cannot hold, and the type; '' if there is none."""
    plain = plain_numbers(texts, numbers) or []
    kind, is_exact_in = "float", is_exact
    if all(map(_INTEGER.fullmatch, plain)):
        kind, is_exact_in = "integer", lambda text: _fits_64_bits(int(text))
    return next(((text, kind) for text, digits in zip(texts, plain, strict=False) if not is_exact_in(digits)), ("", ""))


def plain_numbers(texts: Iterable[str], numbers: NumberFormat) -> list[str] | None:
    """Return numbers without thousands separators and with a decimal point; None if one of the texts is no number."""
    plain = []
    for text in texts:
        plain.append(numbers.plain(text))
        if not (_FLOAT.fullmatch(plain[-1]) or _INFINITY.fullmatch(plain[-1])):
            return None
    return plain


def _fits_64_bits(integer: int) -> bool:
    return MIN_INTEGER <= integer <= MAX_INTEGER


def is_exact(text: str) -> bool:
    """Return False for a number that a float cannot hold: 1e400, 1e-400, 2**53 + 1, and 12345678901234567.89.

    Below 2**53 only digits behind the point are rounded, and an exponent is that of a float.
    """
    if _INFINITY.fullmatch(text):
        return True
    number = float(text)
    if not math.isfinite(number) or number == 0:
        return number == 0 and _ZERO.fullmatch(text) is not None
    if abs(number) < _EXACT or "e" in text.lower():
        return True
    return decimal.Decimal(text) == decimal.Decimal(number)


def as_moments(texts: Iterable[str]) -> Any | None:
    """Return ISO dates or datetimes as ``datetime64``, in UTC if all have an offset; None if one is another text."""
    moments, offsets, finest = [], [], "us"
    for text in texts:
        match = _MOMENT.fullmatch(text.strip(_BLANKS))
        if match is None or match["day"] < "0001":
            return None
        digits = (match["fraction"] or "").rstrip("0")
        finest = "ns" if len(digits) > 6 else finest
        time = (match["time"] or "00:00").partition(".")[0]
        moments.append(f"{match['day']}T{time}{f'.{digits}' if digits else ''}")
        offsets.append(_minutes(match["zone"]))
    if len({offset is None for offset in offsets}) != 1:
        return None
    if finest == "ns" and not all("1678" <= moment[:4] <= "2261" for moment in moments):
        return None  # outside the range of nanoseconds
    try:
        times = np.array(moments, f"datetime64[{finest}]")
    except ValueError:  # 30 February
        return None
    if offsets[0] is None:
        return pd.DatetimeIndex(times).array
    times -= np.array(offsets, "timedelta64[m]")
    if (times < np.datetime64("0001-01-01")).any() or (times >= np.datetime64("10000-01-01")).any():
        return None
    return pd.DatetimeIndex(times).tz_localize("UTC").array


def _minutes(zone: str | None) -> int | None:
    """Return the minutes of an offset, None without one."""
    if zone is None or zone == "Z":
        return None if zone is None else 0
    minutes = int(zone[1:3]) * 60 + int(zone[3:].strip(":") or 0)
    return -minutes if zone[0] == "-" else minutes


def typed_values(values: Sequence[Any], *, dates: bool, doubles: bool = False) -> Any:
    """Return a column of Python values with their type if they have one in common; otherwise of objects.

    Texts stay texts, but with ``dates`` ISO texts are moments. ``doubles`` marks integers that were stored as floats.
    """
    missing = np.array([value is None or value != value for value in values], bool)
    kinds = {type(value) for value, empty in zip(values, missing, strict=True) if not empty}
    if kinds == {bool}:
        return pd.array(_or_none(values, missing), dtype="boolean")
    if kinds == {int} and all(_fits_64_bits(value) for value in values if type(value) is int):
        return pd.array(_or_none(values, missing), dtype="Int64")
    if kinds == {float} or (kinds == {int, float} or (doubles and kinds == {int})):
        wide = [float(value) if _fits_double(value) else None for value in values]
        if kinds == {float} or all(number is not None or empty for number, empty in zip(wide, missing, strict=True)):
            return pd.array(_or_none(wide, missing), dtype="Float64")
    if kinds == {str}:
        texts = TextColumn.of(_or_none(values, missing), ())
        moments = as_moments(texts.values) if dates else None
        return texts.as_text() if moments is None else texts.take(moments)
    if kinds == {datetime.datetime} and all(value is None or value.tzinfo is None for value in values):
        return pd.DatetimeIndex(np.array(_or_none(values, missing), "datetime64[us]")).array
    objects = np.empty(len(values), dtype=object)
    objects[:] = _or_none(values, missing)
    return objects


def _fits_double(value: Any) -> bool:
    try:
        return value is not None and float(value) == value
    except OverflowError:
        return False


def _or_none(values: Iterable[Any], missing: Iterable[Any]) -> list[Any]:
    return [None if empty else value for value, empty in zip(values, missing, strict=True)]


def converted(name: str, values: Sequence[Any], dtype: object, numbers: NumberFormat) -> Any:
    """Return a column as the type of the option dtype; raise LoadError for a value that has none."""
    wanted = _DTYPES.get(dtype) if isinstance(dtype, str) else None
    if wanted is None:
        listed = ", ".join(dict.fromkeys(_DTYPES))
        raise LoadError(f"column {name}: dtype {dtype!r} is not supported", hint=f"dtype can be {listed}")
    items: list[Any] = []
    for row, value in enumerate(values, start=1):
        try:
            items.append(None if value is None or value != value else _convert(value, wanted, numbers))
        except (ValueError, OverflowError):
            raise LoadError(f"column {name}: row {row} contains {str(value)[:40]!r}, which is not {dtype}") from None
    return pd.array(items, dtype=wanted)  # type: ignore[call-overload]


def _convert(value: Any, dtype: str, numbers: NumberFormat) -> Any:
    if dtype == "string":
        return str(value)
    if dtype == "boolean":
        if isinstance(value, bool) or str(value) in TRUE | FALSE:
            return value is True or str(value) in TRUE
        raise ValueError
    plain = numbers.plain(value) if isinstance(value, str) else value
    if isinstance(plain, str) and not _ANY_NUMBER.fullmatch(plain):  # Python reads 1_000 and nan, too
        raise ValueError
    if dtype == "Float64":
        return float(plain)
    integer = int(plain)
    if integer != plain and not isinstance(plain, str):
        raise ValueError
    if not _fits_64_bits(integer):
        raise OverflowError
    return integer
