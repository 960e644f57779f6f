"""``make house``: the sizes and the walks, as they are now and as they were at the last release.

python -m tests.house            prints them; fails where a package is larger than it may be
python -m tests.house --write    puts them into docs/explanation/architecture.md, too
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from tests.house.sizes import MOST_LINES, ROOT, sizes_of
from tests.house.walks import PACKAGES, walks

PAGE: Final = ROOT / "docs" / "explanation" / "architecture.md"
RELEASE: Final = Path(__file__).parent / "release.json"
"""The figures of the last release."""
_BEGIN: Final = "<!-- make house: what follows is written by it -->\n"
_END: Final = "<!-- make house: up to here -->\n"


def measured() -> dict[str, Any]:
    """Return all figures, as JSON has them."""
    return {"sizes": {package: sizes_of(package) for package in PACKAGES}, "walks": walks()}


def tables(now: dict[str, Any], then: dict[str, Any]) -> str:
    """Return the figures as Markdown, beside those of the last release."""
    lines = ["| package | files | code lines | syntax nodes |", "|---|---|---|---|"]
    for package in PACKAGES:
        parts = now["sizes"][package]
        for part in sorted(parts, key=lambda each: (each != package, -parts[each]["lines"])):
            old = then["sizes"][package].get(part, {})
            cells = [
                _beside(parts[part][key], old.get(key) if part == package else None)
                for key in ("files", "lines", "nodes")
            ]
            name = f"**{package}**" if part == package else f"`{part}`"
            lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| request | " + " | ".join(f"{each}: files / functions" for each in PACKAGES)]
    lines[-1] += " |"
    lines.append("|---|---|---|")
    for name, passed in now["walks"].items():
        old = then["walks"].get(name, {})
        cells = [
            " / ".join(
                _beside(count, old[package][place] if package in old else None)
                for place, count in enumerate(passed[package])
            )
            for package in PACKAGES
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _beside(now: int, then: int | None) -> str:
    return f"{now:,}" if then is None or then == now else f"{now:,} ({then:,})"


def main(arguments: list[str]) -> int:
    """Print the figures; return 1 where a package is larger than it may be."""
    now = measured()
    then = json.loads(RELEASE.read_text(encoding="utf8"))
    text = tables(now, then)
    print(text)
    if "--write" in arguments:
        page = PAGE.read_text(encoding="utf8")
        before, _, rest = page.partition(_BEGIN)
        _, _, after = rest.partition(_END)
        PAGE.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{after}", encoding="utf8")
    too_large = 0
    for package, most in MOST_LINES.items():
        lines = now["sizes"][package][package]["lines"]
        if lines > most:
            print(f"{package} has {lines:,} code lines, where it may have {most:,}: delete some")
            too_large = 1
    return too_large


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
