"""Display frames with times, also in columns that contain only midnights.

pandas shows only the days of such a column. That hides that the stored texts have a time, ``2013-01-01 00:00:00``, and
that they are not equal to ``2013-01-01`` in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pandas import DataFrame, Series, get_option


def with_times(frame: object, timed: Sequence[bool]) -> object:
    """Return a frame that displays times in the columns where ``timed`` is True.

    Return the object unchanged if pandas displays the times, or if it is not a DataFrame with that many columns. Only
    the displayed rows are checked.
    """
    if type(frame) is not DataFrame or len(timed) != frame.shape[1] or frame.empty:
        return frame
    rows = _displayed_rows(len(frame))
    moments = [at for at, dtype in enumerate(frame.dtypes) if timed[at] and getattr(dtype, "kind", "") == "M"]
    hidden = [at for at in moments if _are_midnights(frame.iloc[:, at].iloc[rows])]
    if not hidden:
        return frame
    displayed = FrameWithTimes(frame, copy=False)
    displayed.timed = hidden
    return displayed


def _displayed_rows(count: int) -> list[int]:
    """Return the positions of rows that pandas always displays of ``count`` rows: the first and the last ones."""
    longest = get_option("display.max_rows")
    if longest == 0:  # as many as the terminal has lines
        return [0]
    if longest is None or count <= longest:
        return list(range(count))
    half = _rows_of_long_frames() // 2
    return [*range(half), *range(count - half, count)] if half else [0]


def _rows_of_long_frames() -> int:
    longest, shown = get_option("display.max_rows"), get_option("display.min_rows")
    return int(min(shown, longest) if shown else longest)


def _are_midnights(moments: Series[Any]) -> bool:
    return bool((moments.isna() | (moments == moments.dt.normalize())).all())


class FrameWithTimes(DataFrame):
    """A DataFrame that displays times in the columns at the positions ``timed``.

    For formatters other than text and HTML it is an ordinary DataFrame.
    """

    _metadata: ClassVar = ["timed"]  # it is no column
    timed: Sequence[int] = ()

    @property
    def _constructor(self) -> type[DataFrame]:
        return DataFrame

    @property
    def _formatters(self) -> list[Any]:
        return [str if at in self.timed else None for at in range(self.shape[1])]

    def info(self, *args: Any, **options: Any) -> None:
        """Describe the frame as a DataFrame."""
        DataFrame(self, copy=False).info(*args, **options)

    def to_string(self, *args: Any, **options: Any) -> Any:
        """Return the text that IPython displays."""
        return super().to_string(*args, **{"formatters": self._formatters, **options})

    def _repr_html_(self) -> str | None:
        """Return the HTML of a DataFrame, with the formatters that `DataFrame._repr_html_` does not pass."""
        if not get_option("display.notebook_repr_html"):
            return None
        if get_option("display.large_repr") == "info":
            html = str(super()._repr_html_())  # type: ignore[misc]
            if html.startswith("<pre>"):
                return html
        longest = get_option("display.max_rows")
        is_long = longest and len(self) > longest
        return self.to_html(
            formatters=self._formatters,
            notebook=True,
            float_format=get_option("display.float_format"),
            max_rows=_rows_of_long_frames() if is_long else longest,
            max_cols=get_option("display.max_columns"),
            show_dimensions=get_option("display.show_dimensions"),
        )
