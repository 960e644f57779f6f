"""The check of a built site: `python -m docs._site.check build/docs` lists what is wrong.

Each link within the site leads to a page and an anchor that exist; a link out is well formed; no
page loads a script, a font, a style or a picture from elsewhere; each public name has a place.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from docs._site.public_names import public_names

_LOADED: Final = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
_NOT_LOADED: Final = {"canonical", "next", "prev", "search", "index", "author"}
_WITHOUT_CHECK: Final = {"genindex.html", "py-modindex.html", "search.html"}


@dataclass
class Page(HTMLParser):
    """The links and the anchors of one page."""

    path: Path
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag names."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        place = values.get(_LOADED.get(tag, ""))
        if place and values.get("rel") not in _NOT_LOADED:
            self.loaded.append(place)


def problems(folder: Path) -> list[str]:
    """Return what is wrong with the site in a folder, a line each."""
    pages = {
        path: Page(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts
    }
    lines = [
        f"{page.path.relative_to(folder)}: {problem}"
        for page in pages.values()
        for problem in [*_of_links(page, pages), *_of_loaded(page)]
    ]
    return lines + _of_names(folder, pages)


def _of_links(page: Page, pages: dict[Path, Page]) -> list[str]:
    return [problem for link in sorted(set(page.links)) if (problem := _of_link(page, link, pages))]


def _of_link(page: Page, link: str, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(link)
    if parts.scheme:
        well_formed = parts.scheme == "mailto" or (
            parts.scheme in ("http", "https") and parts.netloc
        )
        return None if well_formed else f"the link {link!r} is malformed"
    if parts.netloc:
        return f"the link {link!r} has no scheme"
    target = page.path
    if parts.path:
        target = (page.path.parent / unquote(parts.path)).resolve()
        if not target.exists():
            return f"the link {link!r} leads nowhere"
    anchor = unquote(parts.fragment)
    linked = pages.get(target)
    if anchor and linked and anchor not in linked.anchors and target.name not in _WITHOUT_CHECK:
        return f"the link {link!r} leads to no anchor"
    return None


def _of_loaded(page: Page) -> list[str]:
    elsewhere = [place for place in page.loaded if urlsplit(place).netloc]
    missing = [
        place
        for place in page.loaded
        if not urlsplit(place).scheme
        and not (page.path.parent / unquote(urlsplit(place).path)).exists()
    ]
    return [f"{place!r} is loaded from elsewhere" for place in elsewhere] + [
        f"{place!r} is loaded and not there" for place in missing
    ]


def _of_names(folder: Path, pages: dict[Path, Page]) -> list[str]:
    lines = []
    for name in public_names():
        path = (folder / "reference" / "api" / f"{name.full_name}.html").resolve()
        if path not in pages:
            lines.append(f"{name.full_name} has no page")
            continue
        anchors = pages[path].anchors
        expected = [name.full_name, *(f"{name.full_name}.{member}" for member in name.members)]
        if name.category == "module":
            expected = [f"module-{name.full_name}"]
        lines += [f"{place} has no place on its page" for place in expected if place not in anchors]
    return lines


def main() -> int:
    """Print what is wrong; return 1 if anything is."""
    listed = problems(Path(sys.argv[1]).resolve())
    for line in listed:
        print(line)
    return 1 if listed else 0


if __name__ == "__main__":
    sys.exit(main())
