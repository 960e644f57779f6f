"""The check for banned words: ``python -m tests.words`` lists them by file and line.

The project uses the terms of its field (docs/reference/glossary.md).  A *rule* is a pattern and the
words to use instead.  Prose rules apply to every line; identifier rules to names in Python code;
and module docstrings say what the module is, so they do not open with a gerund or a question word.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = ("benchmarks", "daf_query", "daf_storage", "docs", "tests")
"""What is checked, besides the pages and the modules at the top."""

_UNCHECKED: Final = frozenset(
    {"tests/words.py", "tests/project/test_words.py", "docs/reference/glossary.md"}
)
"""Files that name the banned words."""


class Rule(NamedTuple):
    """A banned word."""

    pattern: str
    instead: str
    """The words to use instead."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A banned word in a file."""

    path: str
    """Relative to the project."""
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}; use {self.instead}"


PROSE: Final = (
    Rule(r"(?<![a-z])(?<!get_)texts(?![a-z])", "strings"),
    Rule(r"(?<![a-z])learnt(?![a-z])", "computed, read, or what it is"),
    Rule(r"\btold\b", "given, or called with"),
    Rule(r"\bsomebody\b", "the caller, a user, another program"),
    Rule(r"\banew\b", "again"),
    Rule(r"\blooked into\b", "parsed, or read"),
    Rule(r"\bdear(?:er|est)?\b", "expensive"),
)
"""Words that stand nowhere."""

IDENTIFIERS: Final = (
    Rule(r"(?:^|_)stamps?(?:_|$)", "fingerprint"),
    Rule(r"^(?-i:Both|Either)$", "And, Or"),
    Rule(r"^_?(?:is_)?asked$", "requested"),
    Rule(r"^_?known(?:_names)?$", "available, cached, recorded, present"),
    Rule(r"(?:^|_)settled(?:_|$)", "stable, resolved"),
    Rule(r"(?:^|_)turned(?:_|$)", "transposed"),
)
"""Names that nothing in Python code has."""

_OPENING: Final = Rule(
    r"^(?!(?:String|Nothing|Everything|Bounding)\b)(?:[A-Z][a-z]+ing|Which|What|Whether)\b",
    "a noun phrase that says what the module is, or an imperative",
)


def checked_files(root: Path = ROOT) -> Iterator[Path]:
    """Yield the files that are checked."""
    yield from sorted([*root.glob("*.md"), *root.glob("*.py")])
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".py", ".md") and "__pycache__" not in path.parts:
                yield path


def findings_in(path: str, content: str) -> list[Finding]:
    """Return the banned words of one file.

    Parameters
    ----------
    path
        Relative to the project; the suffix says whether it is Python.

    Examples
    --------
    >>> [str(finding) for finding in findings_in("x.md", "Start anew.")]
    ["x.md:1: 'anew'; use again"]
    """
    findings = [
        Finding(path, number, match.group(), rule.instead)
        for number, line in enumerate(content.split("\n"), 1)
        for rule in PROSE
        for match in re.finditer(rule.pattern, line, re.IGNORECASE)
    ]
    if path.endswith(".py"):
        findings += _in_code(path, ast.parse(content))
    return sorted(set(findings))


def _in_code(path: str, module: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(module):
        for name in _names(node):
            for rule in IDENTIFIERS:
                if re.search(rule.pattern, name, re.IGNORECASE):
                    yield Finding(path, getattr(node, "lineno", 1), name, rule.instead)
    docstring = ast.get_docstring(module) or ""
    if match := re.match(_OPENING.pattern, docstring, re.IGNORECASE):
        yield Finding(path, 1, match.group(), _OPENING.instead)


def _names(node: ast.AST) -> list[str]:
    """Return the identifiers of a node of the syntax tree."""
    names = [getattr(node, field, None) for field in ("id", "attr", "name", "arg", "asname")]
    return [name for name in names if isinstance(name, str)]


def findings(root: Path = ROOT) -> list[Finding]:
    """Return the banned words of all files."""
    return [
        finding
        for path in checked_files(root)
        if (name := path.relative_to(root).as_posix()) not in _UNCHECKED
        for finding in findings_in(name, path.read_text())
    ]


def main() -> int:
    """Print the banned words; return 1 if there are any."""
    listed = findings()
    for finding in listed:
        print(finding)
    return 1 if listed else 0


if __name__ == "__main__":
    sys.exit(main())
