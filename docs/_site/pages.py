"""Changes that a build makes to pages, and pages that it adds, such as `llms.txt`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

_SUMMARY = (
    "SQL over single-cell metadata, and then just the slice of the matrix that was asked for, "
    "straight from a memory-mapped file."
)

_LINK: Final = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]+)(?:#[^)]*)?\)")


def without_links_out(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace links to files of the repository that are no pages by their paths."""
    folder = Path(app.env.doc2path(page)).parent
    root = Path(app.srcdir)

    def replaced(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        if target.is_relative_to(root) or not target.exists():
            return match[0]
        return f"{match[1]} (`{target.relative_to(root.parent)}` of the repository)"

    source[0] = _LINK.sub(replaced, source[0])


def write_llms_txt(app: Sphinx, exception: Exception | None) -> None:
    """Write the titles of all pages with a line each and links, by section."""
    if exception is None and app.builder.format == "html":
        (Path(app.outdir) / "llms.txt").write_text(llms_txt(app.env))


def llms_txt(env: BuildEnvironment) -> str:
    """Return the list of pages."""
    sections: dict[str, list[str]] = {}
    for page in sorted(env.found_docs):
        section = page.rpartition("/")[0] or "start"
        title = env.titles[page].astext()
        sentence = first_sentence(env.get_doctree(page))
        sections.setdefault(section, []).append(
            f"- [{title}]({page}.html)" + (f": {sentence}" if sentence else "")
        )
    lines = ["# daf-query", "", f"> {_SUMMARY}", ""]
    for section, entries in sections.items():
        lines += [f"## {section}", "", *entries, ""]
    return "\n".join(lines)


def first_sentence(document: nodes.document) -> str:
    """Return the first sentence of the first paragraph of a page, in one line."""
    for paragraph in document.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if text and not text.startswith("Bases:"):
            return text.split(". ")[0].rstrip(".:")[:200]
    return ""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_lexer("mermaid", TextLexer)
    app.connect("source-read", without_links_out)
    app.connect("build-finished", write_llms_txt)
    return {"version": "1", "parallel_read_safe": True}
