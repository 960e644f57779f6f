"""Changes that a build makes to pages, and pages that it adds, such as `llms.txt`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from docutils import nodes
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


def with_gallery(app: Sphinx, page: str, source: list[str]) -> None:
    """Name the gallery in the contents of the site, if its notebooks are there."""
    if page == "index" and "gallery/index" in app.env.found_docs:
        source[0] = source[0].replace("\ndesign/index\n", "\ngallery/index\ndesign/index\n")


def with_benchmarks(app: Sphinx, page: str, source: list[str]) -> None:
    """Append the results that were measured to the page of the benchmarks."""
    if page == "explanation/benchmarks":
        source[0] += benchmark_results(Path(app.srcdir).parent / "benchmarks" / "results")


def benchmark_results(folder: Path) -> str:
    """Return the Markdown of all results in a folder, as sections of another page.

    Pictures keep their place; links to other files of the repository become plain words.
    """
    text = ""
    for path in sorted(folder.glob("*.md")):
        content = re.sub("^(#+ )", r"#\1", path.read_text(), flags=re.MULTILINE)
        content = re.sub(
            r"!\[([^\]]*)\]\((?!https?:)([^)]+)\)",
            rf"![\1](../../benchmarks/{folder.name}/\2)",
            content,
        )
        content = re.sub(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", content)
        shown = {picture for picture in folder.glob("*.png") if picture.name in content}
        text += f"\n\n{content}"
        text += "".join(
            f"\n\n![{picture.stem}](../../benchmarks/{folder.name}/{picture.name})"
            for picture in sorted(set(folder.glob(f"{path.stem}*.png")) - shown)
        )
    return text


def write_llms_txt(app: Sphinx, exception: Exception | None) -> None:
    """Write the titles of all pages with a line each and links, by section."""
    if exception is None and app.builder.format == "html":
        (Path(app.outdir) / "llms.txt").write_text(llms_txt(app.env))


_SECTIONS: Final = {
    "": "Start",
    "tutorial": "Get started",
    "how-to": "How-to",
    "reference": "Reference",
    "explanation": "Explanation",
    "gallery": "Gallery",
    "reference/api": "Python API",
    "design": "Design notes",
}
"""The sections of `llms.txt`, by folder, in their order."""


def llms_txt(env: BuildEnvironment) -> str:
    """Return the list of pages."""
    entries: dict[str, list[str]] = {folder: [] for folder in _SECTIONS}
    for page in sorted(env.found_docs):
        title = env.titles[page].astext()
        sentence = first_sentence(env.get_doctree(page))
        colon = ": " if sentence else ""
        entries.setdefault(page.rpartition("/")[0], []).append(
            f"- [{title}]({page}.html){colon}{sentence}"
        )
    lines = ["# daf-query", "", f"> {_SUMMARY}", ""]
    for folder, pages in entries.items():
        if pages:
            lines += [f"## {_SECTIONS.get(folder, folder)}", "", *pages, ""]
    return "\n".join(lines)


def first_sentence(document: nodes.document) -> str:
    """Return the first sentence of the prose of a page, in one line."""
    for paragraph in document.findall(nodes.paragraph):
        if isinstance(paragraph.parent, nodes.list_item | nodes.entry):
            continue
        text = " ".join(paragraph.astext().split()).removeprefix("Problem. ")
        if text and not text.startswith(("Bases:", "The examples of this page")):
            return text.split(". ")[0].rstrip(".:")[:200]
    return ""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("source-read", without_links_out)
    app.connect("source-read", with_benchmarks)
    app.connect("source-read", with_gallery)
    app.connect("build-finished", write_llms_txt)
    return {"version": "1", "parallel_read_safe": True}
