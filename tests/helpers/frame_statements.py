"""Statements over the frames of `oracle_frames`, which mean the same in SQLite and DuckDB.

A pair is one question in the words of each: integer division, arithmetic of dates, ``x IN name``. A statement that ends
in ORDER BY has a total order.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

import numpy as np
import pandas as pd


class Both(NamedTuple):
    """A question in the SQL of SQLite and of DuckDB."""

    sqlite: str
    duckdb: str


STATEMENTS: dict[str, list[str | Both]] = {
    "columns": [
        "SELECT * FROM sales",
        "SELECT * FROM sales ORDER BY id",
        "SELECT id, shop, total FROM sales WHERE total > 5 ORDER BY id",
        "SELECT s.* FROM sales AS s WHERE s.id = 3",
        "SELECT s.day, s.sold, s.paid FROM sales s ORDER BY s.id DESC",
        "SELECT sales.shop FROM sales WHERE sales.shop IS NULL",
        'SELECT "id", "shop" FROM "sales" WHERE "total" = 12.5 ORDER BY "id"',
        "SELECT id AS number, total * 2 AS double FROM sales ORDER BY number",
        "SELECT total + amount, total - amount, total * amount, -total, amount % 3 FROM sales WHERE "
        "total > 0 ORDER BY id",
        "SELECT amount / 2.0, total / 4 FROM sales ORDER BY id",
        Both("SELECT amount / 2 FROM sales ORDER BY id", "SELECT amount // 2 FROM sales ORDER BY id"),
        "SELECT shop || '-' || grade FROM sales ORDER BY id",
        "SELECT id || ':' || day FROM sales ORDER BY id",
        "SELECT sold || '' FROM sales WHERE id IN (1, 2, 10) ORDER BY id",
        "SELECT coalesce(shop, '?'), ifnull(total, 0.0), nullif(amount, 3) FROM sales ORDER BY id",
        "SELECT CASE WHEN total > 10 THEN 'much' WHEN total IS NULL THEN 'none' ELSE 'little' END FROM "
        "sales ORDER BY id",
        "SELECT CASE grade WHEN 'a' THEN 1 WHEN 'b' THEN 2 END FROM sales ORDER BY id",
        "SELECT iif(paid, shop, note) FROM sales ORDER BY id",
        "SELECT length(note), substr(note, 2, 3), replace(note, 'b', '*') FROM sales ORDER BY id",
        "SELECT upper(grade), instr(note, 'e'), trim(note) FROM sales ORDER BY id",
        "SELECT abs(total), round(total, 1), abs(amount) FROM sales ORDER BY id",
        "SELECT amount & 3, amount | 8, amount << 2, ~amount FROM sales WHERE amount >= 0 ORDER BY id",
        "SELECT total > 5, total IS NULL, NOT paid, paid AND total > 5, paid OR total > 5 FROM sales ORDER BY id",
        "SELECT paid = true, paid IS NOT true, paid IS false FROM sales ORDER BY id",
        "SELECT hex(data), data FROM kinds WHERE data IS NOT NULL ORDER BY id",
        "SELECT * FROM kinds ORDER BY id",
        "SELECT DISTINCT shop FROM sales ORDER BY shop",
        "SELECT DISTINCT paid, grade FROM sales ORDER BY paid, grade",
        "SELECT DISTINCT sold FROM sales",
        "SELECT 1 FROM sales LIMIT 0",
        "SELECT count(*) FROM sales",
        "SELECT 5",
    ],
    "filters": [
        "SELECT id FROM sales WHERE shop = 'Rome'",
        "SELECT id FROM sales WHERE shop <> 'Rome'",
        "SELECT id FROM sales WHERE shop = 'Łódź' OR shop = '東京'",
        "SELECT id FROM sales WHERE shop IS DISTINCT FROM 'Rome'",
        "SELECT id FROM sales WHERE shop IS NOT DISTINCT FROM NULL",
        "SELECT id FROM sales WHERE note = ''",
        "SELECT id FROM sales WHERE note = 'it''s' OR note = 'a \"b\"' OR note = 'line\nbreak'",
        "SELECT id FROM sales WHERE note LIKE '%🐘' OR note GLOB 'Z*'",
        "SELECT id FROM sales WHERE note LIKE '100\\%' ESCAPE '\\' OR note LIKE 'a\\_b' ESCAPE '\\'",
        "SELECT id FROM sales WHERE shop IN ('Rome', 'Oslo', '') ORDER BY id",
        "SELECT id FROM sales WHERE shop NOT IN ('Rome', 'Oslo') ORDER BY id",
        "SELECT id FROM sales WHERE amount BETWEEN 1 AND 3 ORDER BY id",
        "SELECT id FROM sales WHERE total NOT BETWEEN 0 AND 10",
        "SELECT id FROM sales WHERE paid",
        "SELECT id FROM sales WHERE NOT paid OR paid IS NULL",
        "SELECT id FROM sales WHERE paid AND NOT (amount > 2 AND total < 50)",
        "SELECT id FROM sales WHERE (shop, grade) = ('Rome', 'b')",
        "SELECT id FROM sales WHERE (shop, amount) IN (VALUES ('Rome', 3), ('Oslo', 2))",
        "SELECT id FROM sales WHERE shop < 'P' COLLATE NOCASE ORDER BY id",
        "SELECT id FROM sales WHERE shop > 'M' ORDER BY id",
        "SELECT id FROM sales WHERE total = 1000000 OR total = 100.125 OR total = -4.5",
        "SELECT id FROM kinds WHERE data = x'00ff' OR data = x''",
        "SELECT id FROM kinds WHERE clock < '12:00:00' OR clock = '23:59:59.999999'",
        "SELECT id, price * 2, price + 1 FROM kinds WHERE price > 1 ORDER BY id",
        "SELECT id, single * 2, small + 1 FROM kinds WHERE flag ORDER BY id",
        "SELECT id FROM kinds WHERE missing IS NULL",
        "SELECT id FROM kinds WHERE label > 'y'",
    ],
    "dates": [
        "SELECT id FROM sales WHERE day = '2024-01-01'",
        "SELECT id FROM sales WHERE day >= '2024-02-01' AND day < '2024-03-01' ORDER BY day, id",
        "SELECT id FROM sales WHERE day BETWEEN '2023-12-31' AND '2024-01-31'",
        "SELECT id FROM sales WHERE sold < '2024-01-01 08:30:00'",
        "SELECT id FROM sales WHERE sold = '2024-01-01 08:30:00'",
        "SELECT id FROM sales WHERE sold IN ('2024-02-01 07:00:00', '2024-02-01 07:00:01')",
        "SELECT min(day), max(day), count(day), count(DISTINCT day) FROM sales",
        "SELECT min(sold), max(sold) FROM sales WHERE paid",
        "SELECT min(instant), max(instant) FROM kinds",
        "SELECT day, count(*) FROM sales GROUP BY day ORDER BY day",
        "SELECT strftime('%Y', day) AS year, sum(total) FROM sales GROUP BY year ORDER BY year",
        "SELECT strftime('%Y-%m', sold) AS month, count(*) FROM sales GROUP BY 1 ORDER BY 1",
        "SELECT strftime('%H:%M', sold), strftime('%w', day), strftime('%j', day) FROM sales ORDER BY id",
        "SELECT id, date(sold) FROM sales ORDER BY id",
        "SELECT id FROM sales WHERE date(sold) = day ORDER BY id",
        Both(
            "SELECT id, date(day, '+1 month') FROM sales WHERE strftime('%d', day) = '01' ORDER BY id",
            "SELECT id, CAST(day + INTERVAL 1 MONTH AS DATE) FROM sales WHERE strftime('%d', day) = '01' ORDER BY id",
        ),
        Both(
            "SELECT id, date(day, 'start of month') FROM sales ORDER BY id",
            "SELECT id, CAST(date_trunc('month', day) AS DATE) FROM sales ORDER BY id",
        ),
        Both(
            "SELECT CAST(julianday(max(day)) - julianday(min(day)) AS INTEGER) FROM sales",
            "SELECT date_diff('day', min(day), max(day)) FROM sales",
        ),
        "SELECT s.id, c.shop FROM sales AS s JOIN city AS c ON s.day = c.opened",
        "SELECT s.id, c.shop FROM sales AS s JOIN city AS c ON s.day > c.opened AND c.shop = 'Oslo' ORDER BY s.id",
        "SELECT opened FROM city UNION SELECT day FROM sales",
        "SELECT opened FROM city WHERE opened IN (SELECT day FROM sales) ORDER BY opened",
        "SELECT coalesce(day, '2000-01-01') FROM sales ORDER BY id",
        "SELECT since, lag(since) OVER (ORDER BY id) FROM staff ORDER BY id",
        "SELECT nullif(day, '2024-01-01'), CASE WHEN paid THEN day END FROM sales ORDER BY id",
    ],
    "aggregates": [
        "SELECT count(*), count(total), count(DISTINCT shop) FROM sales",
        "SELECT sum(total), avg(total), min(total), max(total), total(total) FROM sales",
        "SELECT sum(amount), avg(amount), min(amount), max(amount) FROM sales",
        "SELECT min(shop), max(shop), min(note), max(grade) FROM sales",
        "SELECT sum(paid), count(*) FILTER (WHERE paid), count(*) FILTER (WHERE NOT paid) FROM sales",
        "SELECT shop, sum(total) FROM sales GROUP BY shop ORDER BY shop",
        "SELECT shop, grade, count(*), sum(amount) FROM sales GROUP BY shop, grade ORDER BY shop, grade",
        "SELECT grade, count(*) AS n FROM sales GROUP BY grade HAVING count(*) > 2 ORDER BY n DESC, grade",
        "SELECT paid, avg(total) FROM sales GROUP BY paid ORDER BY paid",
        "SELECT count(*) FROM sales GROUP BY grade",
        "SELECT total > 5 AS much, count(*) FROM sales GROUP BY much ORDER BY much",
        "SELECT sum(DISTINCT total), count(DISTINCT total) FROM sales",
        "SELECT group_concat(grade, '') FROM (SELECT grade FROM sales ORDER BY id)",
        "SELECT shop, max(total) - min(total) FROM sales GROUP BY shop HAVING max(total) > min(total)",
        "SELECT sum(total) FROM sales WHERE id > 100",
        "SELECT count(*), max(total) FROM sales WHERE false",
        "SELECT shop FROM sales GROUP BY shop HAVING count(*) > 1 ORDER BY shop",
        "SELECT sum(total) FILTER (WHERE shop = 'Rome'), sum(amount) FILTER (WHERE paid) FROM sales",
        "SELECT avg(amount), sum(amount) / 2.0 FROM sales GROUP BY paid ORDER BY 1",
        "SELECT upper(substr(shop, 1, 1)) AS letter, count(*) FROM sales GROUP BY letter ORDER BY letter",
        "SELECT count(*) FROM (SELECT DISTINCT shop, paid FROM sales)",
        "SELECT sum(price), avg(price), max(price) FROM kinds",
        "SELECT min(clock), max(clock), min(data), max(data) FROM kinds",
        "SELECT label, sum(small), sum(single) FROM kinds GROUP BY label ORDER BY label",
        "SELECT sum(flag), sum(missing IS NULL) FROM kinds",
    ],
    "joins": [
        "SELECT s.id, c.country FROM sales AS s JOIN city AS c ON s.shop = c.shop ORDER BY s.id",
        "SELECT id, country FROM sales JOIN city USING (shop) ORDER BY id",
        "SELECT shop, sum(total) FROM sales JOIN city USING (shop) GROUP BY shop ORDER BY shop",
        "SELECT * FROM sales JOIN city USING (shop) ORDER BY id",
        "SELECT s.id, c.seats FROM sales s LEFT JOIN city c ON c.shop = s.shop ORDER BY s.id",
        "SELECT s.id, c.shop FROM sales s RIGHT JOIN city c ON c.shop = s.shop ORDER BY c.seats, c.shop, s.id",
        "SELECT s.id, c.shop FROM sales s FULL JOIN city c ON c.shop = s.shop ORDER BY s.id, c.shop",
        "SELECT count(*) FROM sales CROSS JOIN city",
        "SELECT count(*) FROM sales, city WHERE sales.shop = city.shop",
        "SELECT id, country FROM sales NATURAL JOIN city ORDER BY id",
        "SELECT id, country FROM sales NATURAL LEFT JOIN city ORDER BY id",
        "SELECT s.id, c.shop FROM sales s JOIN city c ON s.total = c.rent ORDER BY s.id",
        "SELECT s.id, c.shop FROM sales s JOIN city c ON s.amount < c.seats AND c.country = 'PL' ORDER BY s.id",
        "SELECT s.id FROM sales s LEFT JOIN city c ON c.shop = s.shop WHERE c.shop IS NULL ORDER BY s.id",
        "SELECT a.name, b.name FROM staff a JOIN staff b ON a.boss = b.id ORDER BY a.id",
        "SELECT a.name, b.name, c.name FROM staff a LEFT JOIN staff b ON a.boss = b.id "
        "LEFT JOIN staff c ON b.boss = c.id ORDER BY a.id",
        "SELECT a.id, b.id FROM staff a JOIN staff b ON a.pay = b.pay AND a.id < b.id ORDER BY a.id, b.id",
        "SELECT a.id, b.id FROM staff a, staff b WHERE a.name = b.name AND a.id <> b.id ORDER BY a.id",
        "SELECT s.id, f.name, c.country FROM sales s JOIN city c USING (shop) JOIN staff f ON f.shop = s.shop "
        "ORDER BY s.id, f.id",
        "SELECT s.id, x.n FROM sales s JOIN (SELECT shop, count(*) AS n FROM staff GROUP BY shop) x "
        "ON x.shop = s.shop ORDER BY s.id",
        "SELECT c.shop, count(s.id), sum(s.total) FROM city c LEFT JOIN sales s ON s.shop = c.shop AND s.paid "
        "GROUP BY c.shop ORDER BY c.shop",
        "SELECT s.id, k.label FROM sales s JOIN kinds k ON k.id = s.amount ORDER BY s.id",
        "SELECT s.id, v.w FROM sales s JOIN (SELECT 'a' AS g, 10 AS w UNION ALL SELECT 'b', 20) v ON v.g = s.grade "
        "ORDER BY s.id",
        "SELECT s.id, e.id FROM sales s LEFT JOIN empty e ON e.shop = s.shop ORDER BY s.id",
        "SELECT s.id FROM sales s JOIN city c ON s.shop IS NOT DISTINCT FROM c.shop ORDER BY s.id",
        "SELECT s.id, c.shop FROM sales s JOIN city c ON lower(s.shop) = lower(c.shop) ORDER BY s.id, c.shop",
    ],
    "subqueries": [
        "SELECT id FROM sales WHERE shop IN (SELECT shop FROM city WHERE seats > 20) ORDER BY id",
        "SELECT id FROM sales WHERE shop NOT IN (SELECT shop FROM shops) ORDER BY id",
        "SELECT id FROM sales WHERE shop NOT IN (SELECT shop FROM holes) ORDER BY id",
        "SELECT shop FROM city WHERE EXISTS (SELECT 1 FROM sales WHERE sales.shop = city.shop) ORDER BY shop",
        "SELECT shop FROM city c WHERE NOT EXISTS (SELECT * FROM sales s WHERE s.shop = c.shop) ORDER BY seats, shop",
        "SELECT shop, (SELECT count(*) FROM sales s WHERE s.shop = c.shop) FROM city c ORDER BY seats, shop, opened",
        "SELECT id, total - (SELECT avg(total) FROM sales) FROM sales ORDER BY id",
        "SELECT id FROM sales s WHERE total = (SELECT max(total) FROM sales t WHERE t.shop = s.shop) ORDER BY id",
        "SELECT * FROM (SELECT shop, sum(total) AS revenue FROM sales GROUP BY shop) WHERE revenue > 10 ORDER BY shop",
        "SELECT a.n + b.n FROM (SELECT count(*) AS n FROM sales) a, (SELECT count(*) AS n FROM city) b",
        "SELECT (SELECT max(seats) FROM city), (SELECT count(*) FROM staff)",
        "SELECT id FROM sales ORDER BY (SELECT country FROM city WHERE city.shop = sales.shop), id",
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM empty) THEN 'some' ELSE 'none' END",
        "SELECT shop FROM sales GROUP BY shop HAVING sum(total) > (SELECT avg(total) FROM sales) ORDER BY shop",
        "SELECT id FROM sales WHERE (shop, total) IN (SELECT shop, rent FROM city) ORDER BY id",
        "SELECT id FROM sales LIMIT (SELECT count(*) FROM empty)",
        "SELECT id FROM sales WHERE total > coalesce((SELECT max(total) FROM empty), 10) ORDER BY id",
        "SELECT name FROM staff s WHERE 1 < (SELECT count(*) FROM staff t WHERE t.shop = s.shop) ORDER BY id",
        "SELECT name FROM staff s WHERE pay > (SELECT avg(pay) FROM staff t WHERE t.shop = s.shop) ORDER BY id",
        "SELECT id, (SELECT country FROM city c WHERE c.shop = (SELECT shop FROM sales t WHERE t.id = s.id)) "
        "FROM sales s ORDER BY id",
        Both(
            "SELECT id FROM sales WHERE shop IN shops ORDER BY id",
            "SELECT id FROM sales WHERE shop IN (FROM shops) ORDER BY id",
        ),
        Both(
            "SELECT id FROM sales WHERE shop NOT IN shops ORDER BY id",
            "SELECT id FROM sales WHERE shop NOT IN (FROM shops) ORDER BY id",
        ),
        Both("SELECT id FROM sales WHERE shop NOT IN holes", "SELECT id FROM sales WHERE shop NOT IN (FROM holes)"),
        Both("SELECT id, id IN ids FROM sales ORDER BY id", "SELECT id, id IN (FROM ids) FROM sales ORDER BY id"),
        Both('SELECT 5 IN "ids", 6 IN ids', "SELECT 5 IN (FROM ids), 6 IN (FROM ids)"),
    ],
    "WITH": [
        "WITH rich AS (SELECT * FROM sales WHERE total > 10) SELECT id, shop FROM rich ORDER BY id",
        "WITH a AS (SELECT shop FROM sales), b AS (SELECT shop FROM a WHERE shop > 'M') SELECT count(*) FROM b",
        "WITH sums(place, revenue) AS (SELECT shop, sum(total) FROM sales GROUP BY shop) "
        "SELECT place, revenue, country FROM sums LEFT JOIN city ON city.shop = place ORDER BY place",
        "WITH city AS (SELECT 'X' AS shop, 7 AS seats) SELECT * FROM city",
        "WITH city AS (SELECT shop, 1 AS seats FROM sales) SELECT count(*), sum(seats) FROM city",
        "WITH x AS (SELECT * FROM city) SELECT (WITH city AS (SELECT 1 AS one) SELECT one FROM city), count(*) FROM x",
        "SELECT id FROM sales WHERE shop IN (WITH big AS (SELECT shop FROM city WHERE seats > 30) SELECT "
        "shop FROM big) "
        "ORDER BY id",
        "SELECT * FROM (WITH sales AS (SELECT 1 AS a) SELECT a FROM sales) CROSS JOIN (SELECT count(*) FROM sales)",
        "WITH RECURSIVE chain(id, name, level) AS (SELECT id, name, 0 FROM staff WHERE boss IS NULL UNION ALL "
        "SELECT s.id, s.name, level + 1 FROM staff s JOIN chain c ON s.boss = c.id) SELECT * FROM chain "
        "ORDER BY level, id",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) "
        "SELECT i, name FROM n LEFT JOIN staff ON staff.id = i ORDER BY i",
        "WITH m AS MATERIALIZED (SELECT shop, count(*) AS n FROM sales GROUP BY shop) "
        "SELECT a.shop FROM m a JOIN m b ON a.n = b.n AND a.shop < b.shop ORDER BY a.shop, b.shop",
        "WITH v(a, b) AS (VALUES (1, 'x'), (2, 'y')) SELECT v.b, s.shop FROM v JOIN sales s ON s.id = v.a ORDER BY v.a",
        "WITH t AS (SELECT sum(total) AS whole FROM sales) SELECT id, total / whole FROM sales, t ORDER BY id",
    ],
    "sets": [
        "SELECT shop FROM sales UNION SELECT shop FROM city ORDER BY shop",
        "SELECT shop FROM sales UNION ALL SELECT shop FROM city",
        "SELECT shop FROM sales INTERSECT SELECT shop FROM city ORDER BY shop",
        "SELECT shop FROM sales EXCEPT SELECT shop FROM city",
        "SELECT shop FROM city EXCEPT SELECT shop FROM sales ORDER BY shop",
        "SELECT id, shop FROM sales WHERE paid UNION SELECT id, shop FROM staff ORDER BY id, shop",
        "SELECT 'sale' AS kind, id FROM sales UNION ALL SELECT 'staff', id FROM staff ORDER BY kind, id",
        "SELECT id FROM sales UNION SELECT id FROM empty ORDER BY id DESC LIMIT 3",
        "SELECT * FROM shops UNION ALL SELECT * FROM holes",
        "SELECT count(*) FROM (SELECT shop, seats FROM city UNION SELECT shop, amount FROM sales)",
        "SELECT day FROM sales UNION ALL SELECT since FROM staff UNION ALL SELECT opened FROM city",
        "SELECT shop FROM sales WHERE id < 3 UNION SELECT country FROM city WHERE seats > 30",
        "SELECT max(n) FROM (SELECT count(*) AS n FROM sales UNION ALL SELECT count(*) FROM city)",
        "VALUES ('x') UNION SELECT shop FROM shops",
        # In FROM, SQLite takes the declared types of the last term.
        "SELECT x FROM (SELECT day AS x FROM sales UNION ALL SELECT note FROM sales)",
        "WITH w AS (SELECT shop AS x FROM sales UNION ALL SELECT day FROM sales WHERE id < 4) SELECT * FROM w",
        "WITH w AS (SELECT day || '' AS x FROM sales UNION ALL SELECT day FROM sales) SELECT max(x), x "
        "FROM w GROUP BY x",
        "WITH RECURSIVE c(day, n) AS (SELECT day, 0 FROM sales WHERE id < 3 UNION ALL SELECT day, n + 1 "
        "FROM c WHERE n < 2) "
        "SELECT day, n FROM c ORDER BY n, day",
    ],
    "windows": [
        "SELECT id, row_number() OVER (ORDER BY total, id) FROM sales ORDER BY id",
        "SELECT id, rank() OVER (ORDER BY shop), dense_rank() OVER (ORDER BY shop) FROM sales ORDER BY id",
        "SELECT id, sum(total) OVER (ORDER BY id) FROM sales ORDER BY id",
        "SELECT id, sum(total) OVER (PARTITION BY shop ORDER BY id) FROM sales ORDER BY id",
        "SELECT id, sum(amount) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM sales ORDER BY id",
        "SELECT id, max(total) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM sales ORDER BY id",
        "SELECT id, count(*) OVER (ORDER BY amount RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM sales ORDER BY id",
        "SELECT id, count(*) OVER (ORDER BY grade GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM sales ORDER BY id",
        "SELECT id, count(amount) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW "
        "EXCLUDE CURRENT ROW) FROM sales ORDER BY id",
        "SELECT id, lag(total) OVER (ORDER BY id), lead(shop, 2, 'end') OVER (ORDER BY id) FROM sales ORDER BY id",
        "SELECT id, first_value(id) OVER w, last_value(id) OVER w, nth_value(id, 2) OVER w FROM sales "
        "WINDOW w AS (PARTITION BY grade ORDER BY id) ORDER BY id",
        "SELECT id, ntile(4) OVER (ORDER BY id), percent_rank() OVER (ORDER BY grade), cume_dist() OVER "
        "(ORDER BY grade) "
        "FROM sales ORDER BY id",
        "SELECT * FROM (SELECT shop, id, row_number() OVER (PARTITION BY shop ORDER BY total DESC, id) "
        "AS n FROM sales) "
        "WHERE n = 1 ORDER BY shop",
        "SELECT shop, sum(total), rank() OVER (ORDER BY sum(total) DESC) FROM sales GROUP BY shop ORDER BY 3, 1",
        "SELECT id, total - lag(total) OVER (PARTITION BY shop ORDER BY day, id) FROM sales ORDER BY id",
        "SELECT id, count(*) FILTER (WHERE paid) OVER (ORDER BY id) FROM sales ORDER BY id",
        "SELECT c.shop, sum(s.total) OVER (PARTITION BY c.country ORDER BY s.id) FROM sales s JOIN city c USING (shop) "
        "ORDER BY s.id",
        "SELECT name, pay - avg(pay) OVER (PARTITION BY shop) FROM staff ORDER BY id",
    ],
    "order and limits": [
        "SELECT id FROM sales ORDER BY shop, id",
        "SELECT id FROM sales ORDER BY shop DESC, id",
        "SELECT id FROM sales ORDER BY shop NULLS LAST, id",
        "SELECT id FROM sales ORDER BY total DESC NULLS FIRST, id DESC",
        "SELECT id FROM sales ORDER BY paid, grade DESC, id",
        "SELECT id FROM sales ORDER BY day, sold, id",
        "SELECT id, total FROM sales ORDER BY 2, 1 LIMIT 4",
        "SELECT id FROM sales ORDER BY id LIMIT 3 OFFSET 5",
        "SELECT id FROM sales ORDER BY id LIMIT 100 OFFSET 10",
        "SELECT id FROM sales ORDER BY abs(total) DESC, id LIMIT 5",
        "SELECT shop AS s FROM sales ORDER BY s COLLATE NOCASE, id",
        "SELECT id FROM kinds ORDER BY clock, id",
        "SELECT id FROM kinds ORDER BY instant DESC",
        "SELECT id FROM kinds ORDER BY data, id",
        "SELECT id FROM (SELECT id FROM sales ORDER BY total DESC, id LIMIT 3) ORDER BY id",
        "SELECT text FROM extremes ORDER BY text",
    ],
    "extremes": [
        "SELECT id, whole, real, fine, zero, text FROM extremes ORDER BY id",
        "SELECT whole FROM extremes WHERE whole = 9007199254740993 OR whole = -9223372036854775808",
        "SELECT id FROM extremes WHERE whole > 9007199254740992 ORDER BY id",
        "SELECT min(whole), max(whole), min(real), max(real), min(fine), max(fine) FROM extremes",
        "SELECT id, real * 1, fine + 0, -fine FROM extremes ORDER BY id",
        "SELECT DISTINCT fine FROM extremes",
        "SELECT real, count(*) FROM extremes GROUP BY real",
        "SELECT a.id, b.id FROM extremes a JOIN extremes b ON a.real = b.real AND a.whole = b.whole ORDER BY a.id",
        "SELECT a.id FROM extremes a JOIN extremes b ON a.fine = b.fine ORDER BY a.id",
        "SELECT id FROM extremes WHERE zero = 0 ORDER BY id",
        "SELECT id, zero FROM extremes ORDER BY zero, id",
        "SELECT id, zero FROM extremes WHERE zero < 1 ORDER BY id",
        "SELECT id FROM extremes WHERE endless > 1e308 ORDER BY id",
        "SELECT id FROM extremes WHERE text = 'é' OR text = 'e\u0301' OR length(text) = 500 ORDER BY id",
        "SELECT id, length(text), text || '!' FROM extremes ORDER BY id",
        "SELECT count(*), count(whole), count(real), count(endless), count(zero) FROM extremes",
    ],
    "infinities": [
        "SELECT * FROM extremes ORDER BY id",
        "SELECT endless, count(*) FROM extremes GROUP BY endless ORDER BY endless",
        "SELECT max(endless), min(endless) FROM extremes",
        "SELECT a.id, b.id FROM extremes a JOIN extremes b ON a.endless = b.endless ORDER BY a.id, b.id",
        "SELECT id, -endless FROM extremes ORDER BY endless DESC, id",
    ],
    "names": [
        'SELECT "a b", "select", "qu""ote", "Größe" FROM odd ORDER BY "a b"',
        'SELECT "group", sum("it\'s") FROM odd GROUP BY "group" ORDER BY "group"',
        'SELECT o."a.b", o."x?", o.":y", o."%" FROM odd AS o ORDER BY o."a b"',
        'SELECT * FROM odd WHERE ":y" = 5 AND "x?" <> \'$1\' ORDER BY 1',
        'SELECT * FROM "order" ORDER BY "from"',
        'SELECT "order"."where" FROM "order" WHERE "order"."from" > 1',
        "SELECT größe, 名 FROM Größen ORDER BY größe",
        'SELECT "Größen".* FROM "Größen" JOIN ids ON id = größe ORDER BY 1',
        "SELECT * FROM wide ORDER BY c3",
        "SELECT c0, c50, c99, c1 || c4 FROM wide ORDER BY c3",
        "SELECT sum(c3), sum(c2), count(c1), max(c97) FROM wide",
        "SELECT a.c3, b.c6 FROM wide a JOIN wide b ON a.c3 = b.c3 ORDER BY a.c3",
    ],
    "no rows": [
        "SELECT * FROM empty",
        "SELECT count(*), sum(id), max(day), min(shop) FROM empty",
        "SELECT id, shop FROM empty WHERE ok",
        "SELECT shop, count(*) FROM empty GROUP BY shop",
        "SELECT s.id FROM sales s JOIN empty e USING (id)",
        "SELECT id FROM empty UNION ALL SELECT id FROM ids ORDER BY id",
        Both(
            "SELECT id FROM sales WHERE id NOT IN (SELECT id FROM empty) ORDER BY id",
            "SELECT id FROM sales ORDER BY id",
        ),
        "SELECT row_number() OVER (ORDER BY id) FROM empty",
    ],
}
"""Statements by subject."""

DAY = dt.date(2024, 2, 29)
VARIABLES: dict[str, Any] = {
    "day": DAY,
    "midnight": dt.datetime(2024, 2, 29),
    "stamp": pd.Timestamp(DAY),
    "as_text": "2024-02-29",
    "as_numpy": np.datetime64("2024-02-29"),
    "moment": dt.datetime(2024, 1, 1, 8, 30),
    "least": 3,
    "share": 0.25,
    "place": "Rome",
    "city_name": "Łódź",
    "yes": True,
    "nothing": None,
    "blob": b"\x00\xff",
    "instant": dt.datetime(2024, 6, 30, 22, tzinfo=dt.UTC),
    "places": ["Rome", "Oslo"],
    "limit": 2,
}
WITH_PARAMETERS: list[str | Both] = [
    "SELECT id FROM sales WHERE day = :day ORDER BY id",
    "SELECT id FROM sales WHERE day = :midnight ORDER BY id",
    "SELECT id FROM sales WHERE day = :stamp ORDER BY id",
    "SELECT id FROM sales WHERE day = :as_text ORDER BY id",
    Both("SELECT id FROM sales WHERE day = :as_numpy ORDER BY id", "SELECT id FROM sales WHERE day = :day ORDER BY id"),
    "SELECT id FROM sales WHERE day >= :day ORDER BY id",
    "SELECT id FROM sales WHERE day < :midnight ORDER BY id",
    "SELECT id FROM sales WHERE day BETWEEN '2024-01-31' AND :stamp ORDER BY id",
    "SELECT id FROM sales WHERE day IN (:day, :moment) ORDER BY id",
    "SELECT id FROM sales WHERE :stamp > day ORDER BY id",
    "SELECT s.id FROM sales s JOIN city c USING (shop) WHERE c.opened <= :stamp ORDER BY s.id, c.opened",
    "SELECT id FROM (SELECT id, day AS d FROM sales) WHERE d = :stamp ORDER BY id",
    "WITH x AS (SELECT id, day FROM sales) SELECT id FROM x WHERE day = :midnight ORDER BY id",
    "SELECT id FROM sales WHERE sold = :moment ORDER BY id",
    "SELECT id FROM sales WHERE sold >= :moment AND paid = :yes ORDER BY id",
    "SELECT id FROM sales WHERE sold > :stamp ORDER BY id",
    Both(
        "SELECT id FROM kinds WHERE instant = :instant", "SELECT id FROM kinds WHERE instant = '2024-06-30 22:00:00+00'"
    ),
    "SELECT id FROM sales WHERE amount >= :least AND total > :share ORDER BY id",
    "SELECT id, total * :share FROM sales WHERE shop = :place ORDER BY id",
    "SELECT id FROM sales WHERE shop = :city_name OR shop IS NOT DISTINCT FROM :nothing ORDER BY id",
    Both(
        "SELECT id FROM sales WHERE shop IN :places ORDER BY id",
        "SELECT id FROM sales WHERE list_contains(:places, shop) ORDER BY id",
    ),
    "SELECT id FROM kinds WHERE data = :blob",
    "SELECT id FROM sales ORDER BY id LIMIT :limit OFFSET :least",
    "SELECT shop, count(*) FROM sales WHERE day < :day GROUP BY shop HAVING count(*) >= :limit ORDER BY shop",
]

SCRIPTS: list[list[str]] = [
    [
        "CREATE TABLE kept(id INTEGER, shop TEXT, total DOUBLE)",
        "INSERT INTO kept SELECT id, shop, total FROM sales WHERE paid",
        "SELECT * FROM kept ORDER BY id",
    ],
    [
        "CREATE TABLE kept(shop TEXT, n INTEGER)",
        "INSERT INTO kept(n, shop) SELECT count(*), shop FROM sales GROUP BY shop",
        "INSERT INTO kept SELECT shop, seats FROM city WHERE seats > 30",
        "SELECT * FROM kept ORDER BY shop, n",
    ],
    [
        "CREATE TABLE kept AS SELECT shop, seats FROM city",
        "SELECT * FROM kept JOIN sales USING (shop) ORDER BY sales.id",
    ],
    [
        "CREATE TABLE kept AS SELECT id, total FROM sales",
        "DELETE FROM kept WHERE id IN (SELECT id FROM ids)",
        "SELECT * FROM kept ORDER BY id",
    ],
    [
        "CREATE TABLE kept AS SELECT id, total FROM sales",
        "UPDATE kept SET total = (SELECT pay FROM staff WHERE staff.id = kept.id) WHERE id < 5",
        "SELECT * FROM kept ORDER BY id",
    ],
    [
        "CREATE TABLE kept AS SELECT id, total FROM sales",
        "UPDATE kept SET total = staff.pay FROM staff WHERE staff.id = kept.id",
        "SELECT * FROM kept ORDER BY id",
    ],
    [
        "CREATE TABLE kept(id INTEGER PRIMARY KEY, day DATE)",
        "INSERT INTO kept SELECT id, day FROM sales",
        "SELECT id FROM kept WHERE day IN (SELECT opened FROM city) ORDER BY id",
    ],
]
"""Statements that run one after the other; only the rows of the last one are compared."""

COUNT = sum(map(len, STATEMENTS.values())) + len(WITH_PARAMETERS) + len(SCRIPTS)
