"""HTML for notebooks: every string is escaped, colours are those of the page around it.

No scripts, and no backgrounds: the text has the colour that it inherits, so that a dark page shows
light text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Final

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SHOWN_CHARACTERS: Final = 60
_CLASS: Final = "daf-view"

_STYLE: Final = f"""
.{_CLASS} {{font-size: 13px; line-height: 1.4; color: inherit; overflow-x: auto}}
.{_CLASS} table {{border-collapse: collapse; font-size: inherit; margin: .2em 0 .6em}}
.{_CLASS} tr, .{_CLASS} th, .{_CLASS} td {{background: none !important; border: 0}}
.{_CLASS} th, .{_CLASS} td {{padding: .1em 1em .1em 0; text-align: left; vertical-align: middle;
  white-space: nowrap; unicode-bidi: isolate}}
.{_CLASS} th {{font-weight: 600; border-bottom: 1px solid; border-color: currentColor}}
.{_CLASS} .number {{text-align: right; font-variant-numeric: tabular-nums}}
.{_CLASS} .note {{opacity: .75}}
.{_CLASS} summary {{cursor: pointer; font-weight: 600}}
"""


class Markup(str):
    """HTML that may be shown as it is; any other string is escaped before."""

    __slots__ = ()


def escaped(text: object) -> Markup:
    """Return text as HTML; control characters are replaced, markup is left alone.

    >>> escaped("<b>&")
    '&lt;b&gt;&amp;'
    >>> escaped(Markup("<b>"))
    '<b>'
    """
    if isinstance(text, Markup):
        return text
    return _escaped(text)


def _escaped(text: object) -> Markup:
    return Markup(html.escape(_CONTROL.sub("\ufffd", str(text))))


def joined_html(parts: Iterable[object]) -> Markup:
    """Return parts one after the other, each escaped unless it is markup."""
    return Markup("".join(escaped(part) for part in parts))


def html_element(name: str, *children: object, **attributes: object) -> Markup:
    """Return an element; an underscore in the name of an attribute stands for a hyphen.

    >>> html_element("td", "a < b", class_="number")
    '<td class="number">a &lt; b</td>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{written}>{joined_html(children)}</{name}>")


def html_table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table; cells that are whole elements (``<td ...>``) stay as they are."""
    header = html_element("tr", *(_cell("th", cell) for cell in head)) if head else Markup()
    lines = (html_element("tr", *(_cell("td", cell) for cell in row)) for row in rows)
    return html_element("table", header, *lines)


def _cell(name: str, cell: object) -> Markup:
    is_cell = isinstance(cell, Markup) and cell.startswith((f"<{name}>", f"<{name} "))
    return escaped(cell) if is_cell else html_element(name, cell)


def html_details(title: object, *children: object, is_open: bool = True) -> Markup:
    """Return a section that can be folded."""
    attributes: dict[str, object] = {"open": "open"} if is_open else {}
    return html_element("details", html_element("summary", title), *children, **attributes)


def html_page(*children: object) -> Markup:
    """Return what a notebook shows of an object, with its styles."""
    style = Markup(f"<style>{_STYLE}</style>")
    return html_element("div", style, *children, class_=_CLASS)


def shortened(text: object, characters: int = _SHOWN_CHARACTERS) -> str:
    """Return text in one line of limited length.

    >>> shortened("a long  name", 8)
    'a long …'
    """
    line = " ".join(str(text)[: 4 * characters].split())
    return line if len(line) <= characters else f"{line[: characters - 1]}…"


def readable_bytes(size: float) -> str:
    """Return a size for people.

    >>> readable_bytes(1536)
    '1.5 KiB'
    >>> readable_bytes(1023), readable_bytes(1024), readable_bytes(3 << 50)
    ('1023 bytes', '1.0 KiB', '3072.0 TiB')
    """
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
