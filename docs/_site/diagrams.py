"""Pictures of graphs that pages write in the language of Mermaid, drawn without its script.

Forges draw `graph TD` themselves.  The site draws it at build time, as SVG: nodes in layers, so
that all arrows run down, each layer in the order of what its nodes hang from.  Other diagrams stay
text.
"""

from __future__ import annotations

import re
from html import escape
from itertools import pairwise
from typing import Any, Final

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

_ARROW: Final = re.compile(r"^\s*(\S+) --> (\S+)\s*$", re.MULTILINE)
_CHARACTER, _HEIGHT, _GAP, _LAYER = 6.7, 22, 14, 62
"""Sizes in pixels: of a character, a node, the room between two, and a layer."""
_MOST_IN_ROW: Final = 7


def graph_of(text: str) -> list[tuple[str, str]]:
    """Return the arrows of a graph; none if it is another diagram."""
    return _ARROW.findall(text) if text.lstrip().startswith("graph TD") else []


def layers_of(arrows: list[tuple[str, str]]) -> list[list[str]]:
    """Return the nodes in layers: each below all those with an arrow to it.

    >>> layers_of([("a", "b"), ("b", "c"), ("a", "c")])
    [['a'], ['b'], ['c']]
    """
    depth = dict.fromkeys((name for arrow in arrows for name in arrow), 0)
    for _ in depth:
        for above, below in arrows:
            depth[below] = max(depth[below], depth[above] + 1)
    layers: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name in depth:
        layers[depth[name]].append(name)
    for upper, lower in pairwise(layers):
        places = {name: place for place, name in enumerate(upper)}
        lower.sort(key={name: _center(name, arrows, places) for name in lower}.__getitem__)
    return [
        layer[start : start + _MOST_IN_ROW]
        for layer in layers
        for start in range(0, len(layer), _MOST_IN_ROW)
    ]


def _center(name: str, arrows: list[tuple[str, str]], places: dict[str, int]) -> float:
    above = [places[start] for start, end in arrows if end == name and start in places]
    return sum(above) / len(above) if above else len(places) / 2


def svg_of(arrows: list[tuple[str, str]]) -> str:
    """Return the picture."""
    layers = layers_of(arrows)
    widths = {name: len(name) * _CHARACTER + 16 for layer in layers for name in layer}
    row_width = max(sum(widths[name] + _GAP for name in layer) for layer in layers)
    places: dict[str, tuple[float, float]] = {}
    for row, layer in enumerate(layers):
        left = (row_width - sum(widths[name] + _GAP for name in layer)) / 2
        for name in layer:
            places[name] = (left + widths[name] / 2, row * _LAYER + 4)
            left += widths[name] + _GAP
    height = len(layers) * _LAYER
    shapes = [_line(places[start], places[end]) for start, end in arrows]
    shapes += [_box(name, places[name], widths[name]) for name in places]
    return (
        f'<svg class="diagram" viewBox="0 0 {row_width:.0f} {height}" width="{row_width:.0f}" '
        f'role="img" aria-label="Graph of {len(places)} nodes and {len(arrows)} arrows">'
        '<defs><marker id="head" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0,0L6,3L0,6"/></marker></defs>'
        f"{''.join(shapes)}</svg>"
    )


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (to_x, to_y) = (start[0], start[1] + _HEIGHT), end
    middle = (y + to_y) / 2
    curve = f"M{x:.0f},{y:.0f}C{x:.0f},{middle:.0f} {to_x:.0f},{middle:.0f} {to_x:.0f},{to_y:.0f}"
    return f'<path d="{curve}" marker-end="url(#head)"/>'


def _box(name: str, place: tuple[float, float], width: float) -> str:
    x, y = place
    return (
        f'<rect x="{x - width / 2:.0f}" y="{y:.0f}" width="{width:.0f}" height="{_HEIGHT}" rx="4"/>'
        f'<text x="{x:.0f}" y="{y + 15:.0f}" text-anchor="middle">{escape(name)}</text>'
    )


def _draw(app: Sphinx, document: nodes.document) -> None:
    if app.builder.format != "html":
        return
    for block in list(document.findall(nodes.literal_block)):
        if block.get("language") == "mermaid" and (arrows := graph_of(block.astext())):
            block.replace_self(nodes.raw("", svg_of(arrows), format="html"))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("doctree-read", _draw)
    return {"version": "1", "parallel_read_safe": True}
