"""Elements of SVG pictures, with texts and attributes escaped.

Colours are CSS variables of JupyterLab's theme, with plain colours for other pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

INK = "var(--jp-ui-font-color1, currentColor)"
FAINT = "var(--jp-ui-font-color2, #808080)"
LINE = "var(--jp-border-color1, #9e9e9e)"
PAPER = "var(--jp-layout-color1, none)"
SHADE = "var(--jp-layout-color2, #8881)"
ACCENT = "var(--jp-brand-color1, #1976d2)"
WARNING = "var(--jp-error-color1, #d32f2f)"

_ON_WHITE = (
    "; color: #202020; --jp-ui-font-color1: #202020; --jp-ui-font-color2: #606060; --jp-border-color1: #9e9e9e;"
    "--jp-layout-color1: #fff; --jp-layout-color2: #eee; --jp-brand-color1: #1976d2; --jp-error-color1: #d32f2f"
)
"""Plain colours in place of those of the page's theme."""

_NOT_IN_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

CHARACTER = 7.2
"""The width of a character of 12 px monospace text, in pixels."""


def element(name: str, attributes: Mapping[str, object], *inside: str) -> str:
    """Return an element; ``inside`` holds elements, or text made by `escaped`; ``_`` in a name stands for ``-``."""
    given = "".join(f' {key.replace("_", "-")}="{escape(_clean(str(value)))}"' for key, value in attributes.items())
    return f"<{name}{given}>{''.join(inside)}</{name}>" if inside else f"<{name}{given}/>"


def escaped(text: str) -> str:
    """Return text for the inside of an element."""
    return escape(_clean(text), quote=False)


def text(x: float, y: float, words: str, *, fill: str = INK, anchor: str = "start", weight: str = "normal") -> str:
    """Return a line of 12 px monospace text with its baseline at ``y``; nothing for an empty text."""
    where = {"x": _short(x), "y": _short(y), "fill": fill, "text_anchor": anchor, "font_weight": weight}
    return element("text", where, escaped(words)) if words else ""


def box(
    x: float, y: float, width: float, height: float, *, fill: str = PAPER, stroke: str = LINE, dashes: str = "none"
) -> str:
    """Return a rectangle."""
    sizes = {"x": _short(x), "y": _short(y), "width": _short(width), "height": _short(height)}
    return element("rect", {**sizes, "fill": fill, "stroke": stroke, **_dashed(dashes)})


def curve(points: Sequence[tuple[float, float]], *, stroke: str = LINE, dashes: str = "none") -> str:
    """Return a smooth line through points, horizontal at each of them."""
    (x, y), parts = points[0], [f"M {_short(points[0][0])} {_short(points[0][1])}"]
    for to_x, to_y in points[1:]:
        middle = (x + to_x) / 2
        parts.append(f"C {_short(middle)} {_short(y)} {_short(middle)} {_short(to_y)} {_short(to_x)} {_short(to_y)}")
        x, y = to_x, to_y
    return element("path", {"d": " ".join(parts), "fill": "none", "stroke": stroke, **_dashed(dashes)})


def polygon(points: Sequence[tuple[float, float]], *, fill: str = LINE) -> str:
    """Return a polygon."""
    return element("polygon", {"points": " ".join(f"{_short(x)},{_short(y)}" for x, y in points), "fill": fill})


def line(points: Sequence[tuple[float, float]], *, stroke: str = LINE, dashes: str = "none") -> str:
    """Return a line through points."""
    path = " ".join(f"{_short(x)},{_short(y)}" for x, y in points)
    return element("polyline", {"points": path, "fill": "none", "stroke": stroke, "stroke_dasharray": dashes})


def picture(width: float, height: float, title: str, *inside: str, fluid: bool = True, on_white: bool = False) -> str:
    """Return the whole picture; ``title`` describes it to screen readers.

    It shrinks to the width of the page, unless ``fluid`` is False. With ``on_white`` it has a white background and
    plain colours instead of those of the page's theme.
    """
    attributes = {
        "xmlns": "http://www.w3.org/2000/svg",
        "role": "img",
        "aria_label": title,
        "viewBox": f"0 0 {_short(width)} {_short(height)}",
        "width": _short(width),
        "height": _short(height),
        "font_family": "monospace",
        "font_size": "12",
        "style": ("max-width: 100%; height: auto" if fluid else "max-width: none") + (_ON_WHITE if on_white else ""),
    }
    paper = [element("rect", {"width": "100%", "height": "100%", "fill": "#fff"})] if on_white else []
    return element("svg", attributes, element("title", {}, escaped(title)), *paper, *inside)


def _dashed(dashes: str) -> dict[str, str]:
    return {} if dashes == "none" else {"stroke_dasharray": dashes}


def _short(number: float) -> str:
    return f"{number:.1f}".rstrip("0").rstrip(".")


def _clean(text: str) -> str:
    """Replace characters that XML does not allow."""
    return _NOT_IN_XML.sub("\ufffd", text)
