"""Summaries for plots, compared with numpy on all rows, on either engine; and their plots."""

import io
import json
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from pipemagic.errors import ParameterError, PlotError, UnsupportedError
from pipemagic.explore import drawing, plots
from pipemagic.explore.plot_query import Rows

mpl.use("Agg")

HOSTILE = """sel'ect "<script>alert(1)</script> é"""


def quoted():
    return '"' + HOSTILE.replace('"', '""') + '"'


RANDOM = np.random.default_rng(4)
NUMBERS = [*RANDOM.normal(50, 12, 900).tolist(), -300.0, 400.0, 0.1 + 0.2, 1e-300, 7.0]


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def fill(database, name, columns, rows):
    """Create a table and insert rows in one statement."""
    names = ", ".join(columns)
    picks = ", ".join(f"json_extract(value, '$[{place}]')" for place in range(len(columns)))
    text = json.dumps([list(row) for row in rows]).replace("'", "''")
    database.execute(f"CREATE TABLE {name} ({names})")
    database.execute(f"INSERT INTO {name} SELECT {picks} FROM json_each('{text}')")


@pytest.fixture
def numbers(database):
    """Create a table with numbers, text, NULLs, infinities and a blob; return the finite numbers."""
    rows = [(value, number % 3, f"2024-0{1 + number % 3}-0{1 + number % 9}") for number, value in enumerate(NUMBERS)]
    fill(database, "n", ["x", "g", "d"], [*rows, (None, 0, None), (None, 1, None), ("text", 1, "never")])
    database.execute("INSERT INTO n VALUES (9e999, 2, NULL), (x'01', 2, NULL)")
    stored = [row[0] for row in database.execute("SELECT x FROM n WHERE typeof(x) = 'real' AND abs(x) < 9e999").rows]
    return np.array(stored)


def test_rows_are_one_select(database):
    with pytest.raises(ParameterError, match="the SELECT has an unbalanced quote or parenthesis"):
        plots.histogram(database, Rows("SELECT 1 AS x) UNION ALL SELECT (2"), "x")


@pytest.mark.parametrize("bins", [1, 30])
def test_a_histogram_equals_numpys(database, numbers, bins):
    frame = plots.histogram(database, "n", "x", bins).frame
    counts, edges = np.histogram(numbers, bins)
    assert frame["count"].tolist() == counts.tolist()
    assert frame["from"].tolist() == edges[:-1].tolist()
    assert frame["to"].tolist() == edges[1:].tolist()


def test_skipped_values_are_counted(database, numbers):
    summary = plots.histogram(database, "n", "x")
    assert summary.notes == ("2 NULLs in x skipped.", "3 values of x skipped: not finite numbers.")


def test_edges_are_between_integers(database):
    fill(database, "w", ["x"], [(number % 7,) for number in range(100)])
    frame = plots.histogram(database, "w", "x").frame
    assert frame["from"].tolist() == [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert frame["count"].tolist() == [15, 15, 14, 14, 14, 14, 14]
    fill(database, "v", ["x"], [(number,) for number in range(1000)])
    frame = plots.histogram(database, "v", "x").frame
    assert frame["count"].tolist()[:-1] == [34] * (len(frame) - 1)
    assert frame["count"].sum() == 1000


@pytest.mark.parametrize("values", [["1.0", "1.0000000000000002"], ["1e15", "1e15 + 1.0"], ["0.0", "5e-324"],
                                    ["9223372036854775806", "9223372036854775807"],
                                    ["9223372036854775807.0", "9223372036854775807.0"]])  # fmt: skip
def test_a_histogram_of_adjacent_floats(database, values):
    database.execute(f"CREATE TABLE near AS SELECT {values[0]} AS x UNION ALL SELECT {values[1]}")
    frame = plots.histogram(database, "near", "x").frame
    assert frame["count"].sum() == 2
    assert (frame["from"] < frame["to"]).all()
    drawing.draw(plots.histogram(database, "near", "x"))
    with pytest.raises(PlotError, match="too close together for 500 intervals"):
        plots.histogram(database, "near", "x", 500)


def test_the_smallest_integer_and_a_range_too_large_for_an_axis(embedded):
    embedded.execute(
        "CREATE TABLE far AS SELECT -9223372036854775807 - 1 AS x, 1.7e308 AS y UNION ALL SELECT 7, -1.7e308"
    )
    assert plots.histogram(embedded, "far", "x", 2).frame["count"].tolist() == [1, 1]
    assert plots.bar(embedded, "far", "x", "x").frame["value"].tolist() == [-(2**63), 7]
    assert plots.box(embedded, "far", "x").frame["count"].tolist() == [2]
    assert len(plots.scatter(embedded, "far", "x", "x").frame) == 2
    for draw in (plots.histogram, plots.box, plots.line):
        with pytest.raises(PlotError, match="is too large for an axis"):
            draw(embedded, "far", "y")


def test_a_histogram_of_groups(database, numbers):
    summary = plots.histogram(database, "n", "x", 10, group="g")
    assert sorted(summary.groups) == [0, 1, 2]
    total = summary.frame.groupby("from")["count"].sum()
    assert total.tolist() == np.histogram(numbers, 10)[0].tolist()


def test_a_histogram_of_dates(database):
    fill(database, "t", ["d"], [("2024-01-01",), ("2024-01-02 12:00",), ("2024-01-05",), (None,)])
    summary = plots.histogram(database, "t", "d", 4)
    assert summary.frame["from"].dtype.kind == "M"
    assert summary.frame["count"].tolist() == [1, 1, 0, 1]
    assert str(summary.frame["from"][1]) == "2024-01-02 00:00:00"


def test_a_histogram_of_text_is_refused(embedded):
    fill(embedded, "t", ["d"], [("a",), ("2024-01-01",)])
    with pytest.raises(PlotError, match="plot bar --x d"):
        plots.histogram(embedded, "t", "d")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 903])
def test_quartiles_equal_numpys(database, count):
    values = NUMBERS[:count]
    fill(database, "b", ["x"], [(value,) for value in values])
    stored = np.array([row[0] for row in database.execute("SELECT x FROM b").rows], dtype=float)
    box = plots.box(database, "b", "x").frame.iloc[0]
    q1, median, q3 = np.percentile(stored, [25, 50, 75])
    assert (box["q1"], box["median"], box["q3"]) == (q1, median, q3)
    inside = stored[(stored >= q1 - 1.5 * (q3 - q1)) & (stored <= q3 + 1.5 * (q3 - q1))]
    assert (box["low"], box["high"]) == (inside.min(), inside.max())
    beyond = sorted(set(stored) - set(inside))
    assert box["outliers"] == len(beyond)
    assert list(box["shown"]) == beyond
    assert box["mean"] == pytest.approx(stored.mean())


@pytest.mark.parametrize("count", [50, 51, 99, 1234])
def test_drawn_outliers_are_evenly_spaced(embedded, count):
    fill(embedded, "b", ["x"], [*[(number % 10,) for number in range(9 * count)], *[(n + 100,) for n in range(count)]])
    summary = plots.box(embedded, "b", "x")
    shown = [number - 100 for number in summary.frame.iloc[0]["shown"]]
    assert (shown[0], shown[-1], len(shown)) == (0, count - 1, min(50, count))
    steps = np.diff(shown)
    assert max(steps) - min(steps) <= 1
    assert summary.notes == ((f"50 of {count:,} outliers drawn.",) if count > 50 else ())


def test_bars_count_frequent_values_and_combine_the_rest(database):
    rows = [(f"k{number}",) for number in range(30) for _ in range(30 - number)]
    fill(database, "c", ["k"], [*rows, (None,)])
    summary = plots.bar(database, "c", "k", bars=3)
    assert summary.frame.to_numpy().tolist() == [["k0", 30], ["k1", 29], ["k2", 28], ["other", sum(range(1, 28))]]
    assert summary.notes == ("1 NULL in k skipped.",)
    assert len(plots.bar(database, "c", "k").frame) == plots.BARS + 1


def test_bars_sum_a_column(database):
    fill(database, "c", ["k", "v", "g"], [("a", 1, "x"), ("b", 5, "x"), ("a", 2, "y"), ("b", None, "y")])
    assert plots.bar(database, "c", "k", "v").frame.to_numpy().tolist() == [["b", 5], ["a", 3]]
    grouped = plots.bar(database, "c", "k", "v", group="g")
    assert grouped.frame.to_numpy().tolist() == [["x", "b", 5], ["x", "a", 1], ["y", "b", 0], ["y", "a", 2]]


AGGREGATES = ["mean", "sum", "count", "median", "min", "max"]
LABELS = {"min": "minimum", "max": "maximum"}


def random_frame(seed, size):
    """Return rows with NULLs in each column, one group without values of y, and one with a single value."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "x": random.choice([1, 2, 3, 10, 20, 100], size).astype(object),
        "d": random.choice(["2024-02-01", "2024-01-31", "2023-12-01"], size),
        "t": random.choice(["b", "a", "c"], size),
        "y": np.round(random.normal(size=size), 3).astype(object),
        "n": random.integers(-5, 50, size).astype(object),
        "g": random.choice(["p", "q", "r"], size),
    }).astype(object)  # fmt: skip
    for column in frame:
        frame.loc[random.random(size) < 0.1, column] = None
    frame.loc[frame["x"] == 20, ["y", "n"]] = None
    return pd.concat([frame, pd.DataFrame([[7, "2024-03-01", "d", 1.5, 3, "p"]], columns=frame.columns)])


@pytest.mark.parametrize("agg", AGGREGATES)
@pytest.mark.parametrize("seed", [1, 2])
def test_aggregates_equal_those_of_pandas(embedded, agg, seed):
    frame = random_frame(seed, 60 * seed)
    fill(embedded, "f", list(frame), frame.astype(object).where(frame.notna(), None).to_numpy().tolist())
    for x, y, group in [("x", "y", None), ("x", "n", None), ("d", "n", None), ("t", "y", None), ("x", "n", "g")]:
        rows = frame.dropna(subset=[x, y])
        rows = rows.assign(**{y: pd.to_numeric(rows[y])})
        if x == "d":
            rows = rows.assign(d=pd.to_datetime(rows["d"]))
        keys = [x] if group is None else [group, x]
        expected = rows.groupby(keys, dropna=False)[y].agg(agg)
        line = plots.line(embedded, "f", x, y, agg=agg, group=group)
        bar = plots.bar(embedded, "f", x, y, agg=agg, group=group)
        for summary in (line, bar):
            found = summary.frame
            if x == "d":
                found = found.assign(x=pd.to_datetime(found["x"]))
            names = ["x"] if group is None else ["group", "x"]
            values = {tuple(key): value for *key, value in found[[*names, "value"]].to_numpy().tolist()}
            wanted = {key if isinstance(key, tuple) else (key,): value for key, value in expected.items()}
            wanted = {tuple(None if part != part else part for part in key): value for key, value in wanted.items()}
            for key in values.keys() - wanted.keys():  # a bar of a group without rows
                assert summary is bar
                assert values[key] == 0 if agg in ("sum", "count") else values[key] != values[key]
            assert {key: values[key] for key in wanted} == pytest.approx(wanted)
            assert summary.label.y == f"{LABELS.get(agg, agg)} of {y}"
        if x != "t":
            for summary in (line, bar):
                by_group = summary.frame.groupby("group") if group else [("", summary.frame)]
                assert all(part["x"].is_monotonic_increasing for _, part in by_group)


@pytest.mark.parametrize("agg", AGGREGATES)
def test_other_is_the_aggregate_of_all_other_rows(embedded, agg):
    rows = [(number % 40, (number * 37) % 101) for number in range(400)]
    fill(embedded, "f", ["x", "y"], rows)
    summary = plots.bar(embedded, "f", "x", "y", agg=agg, bars=5)
    frame = pd.DataFrame(rows, columns=["x", "y"])
    *shown, other = summary.frame["x"]
    assert other == "other"
    assert shown == sorted(shown)
    assert summary.frame["value"].iloc[-1] == pytest.approx(frame[~frame["x"].isin(shown)]["y"].agg(agg))
    highest = frame.groupby("x")["y"].agg(agg).nlargest(5)
    assert summary.frame["value"][:-1].min() == pytest.approx(highest.min())


@pytest.mark.parametrize("agg", AGGREGATES)
def test_points_of_intervals_are_aggregates(embedded, agg):
    rows = [(number / 7, (number * 37) % 101) for number in range(5000)]
    fill(embedded, "f", ["x", "y"], rows)
    summary = plots.line(embedded, "f", "x", "y", agg=agg)
    frame = pd.DataFrame(rows, columns=["x", "y"])
    width = frame["x"].max() / plots.POINTS
    by_interval = frame.groupby((frame["x"] / width).astype(int).clip(upper=plots.POINTS - 1))["y"].agg(agg)
    assert summary.frame["value"].tolist() == pytest.approx(by_interval.tolist())


def test_default_aggregates_are_in_the_label(embedded):
    fill(embedded, "f", ["x", "y", "t"], [(10, 1, "u"), (9, 4, "v"), (9, 5, "w")])
    assert drawing.draw(plots.bar(embedded, "f", "x", "y")).get_ylabel() == "sum of y"
    assert drawing.draw(plots.line(embedded, "f", "x", "y")).get_ylabel() == "mean of y"
    assert drawing.draw(plots.line(embedded, "f", "x", "y", agg="median")).get_ylabel() == "median of y"
    assert drawing.draw(plots.line(embedded, "f", "x", "t", agg="count")).get_ylabel() == "count of t"
    assert drawing.draw(plots.bar(embedded, "f", "x")).get_ylabel() == "rows"
    assert plots.bar(embedded, "f", "x", "t", agg="count").frame.to_numpy().tolist() == [[9, 2], [10, 1]]
    for draw in (plots.bar, plots.line):
        with pytest.raises(PlotError, match="t has no numbers"):
            draw(embedded, "f", "x", "t")
        with pytest.raises(PlotError, match="the median requires y"):
            draw(embedded, "f", "x", agg="median")


def test_numbers_and_numbers_stored_as_text_are_in_numeric_order(embedded):
    fill(embedded, "f", ["x", "y"], [("10", 1), ("9", 4), ("9", 5), ("100", 9)])
    fill(embedded, "n", ["x", "y"], [(10, 1), (9.5, 4), (100, 9)])
    for table, x in (("f", ["9", "10", "100"]), ("n", [9.5, 10, 100])):
        assert plots.bar(embedded, table, "x", "y").frame["x"].tolist() == x
        axis = drawing.draw(plots.line(embedded, table, "x", "y"))
        drawn = axis.lines[0].get_xydata()[:, 1].tolist()
        assert drawn == {"f": [4.5, 1, 9], "n": [4, 1, 9]}[table]
    assert [label.get_text() for label in drawing.draw(plots.line(embedded, "f", "x", "y")).get_xticklabels()] == [
        "9", "10", "100",
    ]  # fmt: skip


def test_bars_of_means_stand_side_by_side(embedded):
    fill(embedded, "f", ["x", "y", "g"], [("a", 1, "p"), ("a", 3, "q"), ("b", 5, "p")])
    bottoms = {
        agg: {patch.get_y() for patch in drawing.draw(plots.bar(embedded, "f", "x", "y", agg=agg, group="g")).patches}
        for agg in ("sum", "mean")
    }
    assert bottoms["mean"] == {0}
    assert bottoms["sum"] != {0}


def test_a_line_is_the_mean_at_each_x(database):
    fill(database, "l", ["x", "y"], [(1, 10), (2, 20), (2, 40), (3, None), (None, 5)])
    summary = plots.line(database, "l", "x", "y")
    assert summary.frame.to_numpy().tolist() == [[1, 10, 1], [2, 30, 2]]
    assert "Each point is the mean of the rows with the same x." in summary.notes


def test_a_line_with_many_points_is_binned(database):
    fill(database, "l", ["x", "y"], [(number, number * 2) for number in range(5000)])
    summary = plots.line(database, "l", "x", "y")
    assert len(summary.frame) == plots.POINTS
    assert summary.frame["count"].sum() == 5000
    assert (summary.frame["value"] == summary.frame["x"] * 2).all()


def test_a_line_over_dates(database):
    fill(database, "l", ["d", "y"], [("2024-03-01", 1), ("2024-01-01", 3), ("2024-02-01T06:00:00", 2)])
    summary = plots.line(database, "l", "d", "y")
    assert [str(value) for value in summary.frame["x"]] == [
        "2024-01-01 00:00:00",
        "2024-02-01 06:00:00",
        "2024-03-01 00:00:00",
    ]
    assert summary.frame["value"].tolist() == [3, 2, 1]


@pytest.mark.parametrize("unit", ["minutes", "hours", "days"])
def test_a_scatter_plot_over_evenly_spaced_times_is_in_days(embedded, unit):
    embedded.execute("CREATE TABLE w (t DATETIME, y REAL)")
    embedded.execute(
        "INSERT INTO w SELECT datetime('2020-01-01', value || :unit), value FROM json_each('[0, 1, 2, 3, 4, 5]')",
        {"unit": f" {unit}"},
    )
    ax = drawing.draw(plots.scatter(embedded, "w", "t", "y"))
    step = {"minutes": 1 / 1440, "hours": 1 / 24, "days": 1}[unit]
    drawn = ax.collections[0].get_offsets()[:, 0]
    assert drawn.tolist() == pytest.approx([18262 + at * step for at in range(6)], rel=0, abs=1e-6)
    ax.figure.savefig(io.BytesIO(), format="svg")


def test_a_scatter_plot_draws_few_points_singly_and_bins_many(database):
    points = [(float(number), float(number % 50)) for number in range(1000)]
    fill(database, "s", ["x", "y"], points)
    assert plots.scatter(database, "s", "x", "y").frame[["x", "y"]].to_numpy().tolist() == [list(p) for p in points]
    fill(database, "m", ["x", "y"], [(float(number % 200), float(number % 150)) for number in range(9000)])
    summary = plots.scatter(database, "m", "x", "y")
    assert len(summary.frame) <= plots.GRID[0] * plots.GRID[1]
    assert summary.frame["count"].sum() == 9000
    assert np.average(summary.frame["x"], weights=summary.frame["count"]) == pytest.approx(99.5)
    assert summary.frame.equals(plots.scatter(database, "m", "x", "y").frame)


def test_small_groups_are_combined(embedded):
    fill(embedded, "g", ["x", "g"], [(number, number % 12) for number in range(120)])
    summary = plots.histogram(embedded, "g", "x", 3, group="g")
    assert summary.groups == (0, 1, 2, 3, 4, 5, 6, "other")
    assert summary.notes == ("The 7 largest groups are shown separately, the rest as other.",)
    assert summary.frame["count"].sum() == 120


@pytest.mark.parametrize("kind", ["histogram", "box", "bar", "line", "scatter"])
def test_hostile_names_and_values(embedded, kind):
    name = quoted()
    fill(embedded, name, [name, '"$y_{"', '"select"'], [(1.5, 2, "<b>$x$"), (2.5, 3, None), (4.0, 4, "'; --")])
    given = {"x": HOSTILE, "group": "select", **({"y": "$y_{"} if kind in ("line", "scatter", "bar") else {})}
    ax = drawing.draw(getattr(plots, kind)(embedded, HOSTILE, **given))
    assert ax.get_title().startswith("sel'ect ")
    assert "y" not in given or r"\$" in ax.get_ylabel()
    ax.figure.savefig(io.BytesIO(), format="svg")


def test_without_matplotlib_the_hint_installs_it(embedded, monkeypatch):
    fill(embedded, "n", ["x"], [(1,)])
    summary = plots.histogram(embedded, "n", "x")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(UnsupportedError) as caught:
        drawing.draw(summary)
    assert caught.value.hint.startswith("%pip install matplotlib")


def test_bars_with_equal_labels_stay_separate(embedded):
    embedded.execute("CREATE TABLE a (k)")
    embedded.execute("INSERT INTO a VALUES (1), ('1'), ('1'), (x'31')")
    ax = drawing.draw(plots.bar(embedded, "a", "k"))
    assert [patch.get_height() for patch in ax.patches] == [2, 1, 1]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "1", "x'31'"]


def test_only_the_summary_is_sent(embedded):
    sizes = []

    class Watch:
        def exchanged(self, exchange):
            sizes.append(exchange.received_size)

    fill(embedded, "n", ["x", "y"], [(number / 7, number % 11) for number in range(20000)])
    embedded.transport.observer = Watch()
    plots.histogram(embedded, "n", "x")
    plots.box(embedded, "n", "x", group="y")
    plots.bar(embedded, "n", "y")
    assert 0 < max(sizes) < 30_000
