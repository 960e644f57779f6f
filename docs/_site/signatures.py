"""Signatures of several lines, as HTML that screen readers can follow.

Sphinx writes their parameters as a list of definitions (``dl``) that defines no terms; here each is
a line (``span``), which `site.css` indents.
"""

from __future__ import annotations

import re
from typing import Any, Final

from sphinx.application import Sphinx

_PARAMETERS: Final = re.compile(
    r'<dl>\s*((?:<dd><em class="sig-param">(?:(?!</dd>).)*</dd>\s*)+)</dl>', re.DOTALL
)
_PARAMETER: Final = re.compile(r"<dd>((?:(?!</dd>).)*)</dd>\s*", re.DOTALL)


def with_lines(html: str) -> str:
    """Return a page whose parameters are lines."""
    return _PARAMETERS.sub(lambda dl: _PARAMETER.sub(_line, dl.group(1)), html)


def _line(parameter: re.Match[str]) -> str:
    return f'<span class="sig-line">{parameter.group(1).strip()}</span>'


def _process(*event: Any) -> None:
    """Mend the body of a page in place; see the event of Sphinx."""
    _app, _name, _template, context, _doctree = event
    if "body" in context:
        context["body"] = with_lines(context["body"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("html-page-context", _process)
    return {"version": "1", "parallel_read_safe": True}
