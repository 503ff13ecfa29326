"""Signatures and descriptions of SQLite's functions, for help in the editor."""

from __future__ import annotations

# https://www.sqlite.org/lang_corefunc.html and its neighbours. Each line: the signature, what the function returns.
_CORE = """
abs(X) | Return the absolute value of X.
changes() | Return the number of rows changed by the last INSERT, UPDATE or DELETE.
char(X1, X2, ...) | Return the text of the characters with these Unicode code points.
coalesce(X, Y, ...) | Return the first argument that is not NULL.
concat(X, ...) | Return the arguments as one text; NULL counts as empty.
concat_ws(SEP, X, ...) | Return the arguments that are not NULL as one text, with SEP between them.
format(FORMAT, ...) | Return text built from a format as that of printf() in C.
glob(X, Y) | Return 1 if Y matches the pattern X with * and ?, else 0; the same as Y GLOB X.
hex(X) | Return the bytes of X as upper-case hexadecimal text.
ifnull(X, Y) | Return X, or Y if X is NULL.
iif(X, Y [, Z]) | Return Y if X is true, else Z, which is NULL by default.
instr(X, Y) | Return the position of Y in X counted from 1, or 0 if X does not contain Y.
last_insert_rowid() | Return the rowid of the last row that this connection inserted.
length(X) | Return the number of characters of a text, or of bytes of a blob.
like(X, Y [, ESC]) | Return 1 if Y matches the pattern X with % and _, else 0; the same as Y LIKE X.
likelihood(X, P) | Return X; tell the query planner that X is true with probability P.
likely(X) | Return X; tell the query planner that X is usually true.
lower(X) | Return X with ASCII letters in lower case.
ltrim(X [, CHARS]) | Return X without spaces, or without these characters, at its start.
nullif(X, Y) | Return NULL if X equals Y, else X.
octet_length(X) | Return the number of bytes of X as text.
printf(FORMAT, ...) | Return text built from a format as that of printf() in C; the same as format().
quote(X) | Return X as an SQL literal.
random() | Return a random integer of 64 bits.
randomblob(N) | Return a blob of N random bytes.
replace(X, Y, Z) | Return X with each occurrence of Y replaced by Z.
round(X [, N]) | Return X rounded to N digits after the decimal point, by default 0, as a float.
rtrim(X [, CHARS]) | Return X without spaces, or without these characters, at its end.
sign(X) | Return -1, 0 or 1 for a negative number, zero or a positive number.
soundex(X) | Return the Soundex code of a text.
sqlite_source_id() | Return the version of the source code that SQLite was built from.
sqlite_version() | Return the version of SQLite.
substr(X, START [, LENGTH]) | Return part of X from position START, counted from 1 or, if negative, from the end.
substring(X, START [, LENGTH]) | Return part of X from position START; the same as substr().
total_changes() | Return the number of rows changed since the connection was opened.
trim(X [, CHARS]) | Return X without spaces, or without these characters, at both ends.
typeof(X) | Return the storage class of X: 'null', 'integer', 'real', 'text' or 'blob'.
unhex(X [, IGNORED]) | Return the blob that hexadecimal text stands for, or NULL if X is not hexadecimal.
unicode(X) | Return the Unicode code point of the first character of X.
unlikely(X) | Return X; tell the query planner that X is usually false.
upper(X) | Return X with ASCII letters in upper case.
zeroblob(N) | Return a blob of N zero bytes.
"""

_DATES = """
date(TIME, MODIFIER, ...) | Return a date as YYYY-MM-DD: date('now', '+1 month').
datetime(TIME, MODIFIER, ...) | Return a date and time as YYYY-MM-DD HH:MM:SS, in UTC.
julianday(TIME, MODIFIER, ...) | Return the Julian day, a number of days with a fraction.
strftime(FORMAT, TIME, MODIFIER, ...) | Return a date and time in a format: strftime('%Y-%m', day).
time(TIME, MODIFIER, ...) | Return a time as HH:MM:SS.
timediff(A, B) | Return the time from B to A as text: (+|-)YYYY-MM-DD HH:MM:SS.SSS.
unixepoch(TIME, MODIFIER, ...) | Return the seconds since 1970-01-01 00:00:00 UTC.
"""

_MATH = """
acos(X) | Return the arc cosine of X in radians.
acosh(X) | Return the inverse hyperbolic cosine of X.
asin(X) | Return the arc sine of X in radians.
asinh(X) | Return the inverse hyperbolic sine of X.
atan(X) | Return the arc tangent of X in radians.
atan2(Y, X) | Return the arc tangent of Y/X in radians, in the quadrant of the point (X, Y).
atanh(X) | Return the inverse hyperbolic tangent of X.
ceil(X) | Return the smallest integer that is not less than X.
ceiling(X) | Return the smallest integer that is not less than X; the same as ceil().
cos(X) | Return the cosine of X, which is in radians.
cosh(X) | Return the hyperbolic cosine of X.
degrees(X) | Return X, which is in radians, in degrees.
exp(X) | Return e to the power of X.
floor(X) | Return the largest integer that is not greater than X.
ln(X) | Return the natural logarithm of X.
log(X) or log(B, X) | Return the logarithm of X to base 10, or to base B.
log10(X) | Return the logarithm of X to base 10.
log2(X) | Return the logarithm of X to base 2.
mod(X, Y) | Return the remainder of X divided by Y, also for floats.
pi() | Return pi.
pow(X, Y) | Return X to the power of Y; the same as power().
power(X, Y) | Return X to the power of Y.
radians(X) | Return X, which is in degrees, in radians.
sin(X) | Return the sine of X, which is in radians.
sinh(X) | Return the hyperbolic sine of X.
sqrt(X) | Return the square root of X.
tan(X) | Return the tangent of X, which is in radians.
tanh(X) | Return the hyperbolic tangent of X.
trunc(X) | Return the integer part of X.
"""

_AGGREGATES = """
avg(X) | Return the mean of the values that are not NULL, as a float.
count(*) or count(X) | Return the number of rows, or of values that are not NULL.
group_concat(X [, SEP]) | Return the values as one text, with SEP between them, by default a comma.
max(X) or max(X, Y, ...) | Return the greatest value of a group, or the greatest of several arguments.
min(X) or min(X, Y, ...) | Return the least value of a group, or the least of several arguments.
string_agg(X, SEP) | Return the values as one text, with SEP between them.
sum(X) | Return the sum of the values that are not NULL; NULL if there are none.
total(X) | Return the sum of the values that are not NULL as a float; 0.0 if there are none.
json_group_array(X) | Return a JSON array of the values.
json_group_object(NAME, X) | Return a JSON object of names and values.
"""

_WINDOW = """
cume_dist() | Return the fraction of the partition's rows that are not after the current row.
dense_rank() | Return the rank of the row without gaps after ties.
first_value(X) | Return X of the first row of the frame.
lag(X [, N [, DEFAULT]]) | Return X of the row N rows before, by default 1, or DEFAULT if there is none.
last_value(X) | Return X of the last row of the frame.
lead(X [, N [, DEFAULT]]) | Return X of the row N rows after, by default 1, or DEFAULT if there is none.
nth_value(X, N) | Return X of the row number N of the frame.
ntile(N) | Return the number of the group of the row when the partition is divided into N groups.
percent_rank() | Return (rank - 1) / (rows of the partition - 1).
rank() | Return the rank of the row, with gaps after ties.
row_number() | Return the number of the row in its partition, from 1.
"""

_JSON = """
json(X) | Return JSON text without needless blanks; an error if X is not JSON.
json_array(X, ...) | Return a JSON array of the arguments.
json_array_length(X [, PATH]) | Return the number of elements of a JSON array.
json_error_position(X) | Return the position of the first error in JSON text, or 0.
json_extract(X, PATH, ...) | Return the value at a path of JSON; an array of values for several paths.
json_insert(X, PATH, VALUE, ...) | Return JSON with values added where the path does not exist.
json_object(NAME, X, ...) | Return a JSON object of names and values.
json_patch(X, PATCH) | Return JSON with a merge patch of RFC 7396 applied.
json_pretty(X [, INDENT]) | Return JSON text with line breaks and indentation.
json_quote(X) | Return an SQL number or text as JSON.
json_remove(X, PATH, ...) | Return JSON without the values at these paths.
json_replace(X, PATH, VALUE, ...) | Return JSON with values replaced where the path exists.
json_set(X, PATH, VALUE, ...) | Return JSON with values added or replaced.
json_type(X [, PATH]) | Return the type of a JSON value: 'object', 'array', 'text', 'integer', 'null', ...
json_valid(X [, FLAGS]) | Return 1 if X is JSON, else 0.
jsonb(X) | Return X as binary JSON.
jsonb_array(X, ...) | Return a binary JSON array of the arguments.
jsonb_extract(X, PATH, ...) | Return the value at a path of JSON; objects and arrays as binary JSON.
jsonb_insert(X, PATH, VALUE, ...) | Return binary JSON with values added where the path does not exist.
jsonb_object(NAME, X, ...) | Return a binary JSON object of names and values.
jsonb_patch(X, PATCH) | Return binary JSON with a merge patch of RFC 7396 applied.
jsonb_remove(X, PATH, ...) | Return binary JSON without the values at these paths.
jsonb_replace(X, PATH, VALUE, ...) | Return binary JSON with values replaced where the path exists.
jsonb_set(X, PATH, VALUE, ...) | Return binary JSON with values added or replaced.
json_each(X [, PATH]) | Return a row for each element of a JSON array or object: key, value, type, ...
json_tree(X [, PATH]) | Return a row for each element of JSON at every depth: key, value, type, fullkey, ...
"""


def _read(text: str) -> dict[str, tuple[str, str]]:
    lines = (line.split(" | ") for line in text.strip().splitlines())
    return {signature.partition("(")[0]: (signature, description) for signature, description in lines}


DESCRIPTIONS: dict[str, tuple[str, str]] = {
    name: help_ for text in (_CORE, _DATES, _MATH, _AGGREGATES, _WINDOW, _JSON) for name, help_ in _read(text).items()
}
"""The signature and a line of description of each function in `words.FUNCTIONS`."""
