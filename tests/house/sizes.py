"""Sizes of code: lines without docstrings, comments and blanks, syntax nodes and files."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
MOST_LINES: Final = {"daf_query": 22_354, "daf_storage": 23_718}
"""What a package may have; to be lowered whenever it has shrunk, and never raised."""

_NO_CODE: Final = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}


def size_of(source: str) -> Counter[str]:
    """Return the size of a module: a file, and how many lines and nodes it has."""
    nodes = list(ast.walk(ast.parse(source)))
    documented: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                documented.update(range(first.lineno, (first.end_lineno or 0) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return Counter(files=1, lines=len(lines - documented), nodes=len(nodes))


def sizes_of(package: str) -> dict[str, Counter[str]]:
    """Return the size of each subpackage, and of the whole by its own name."""
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted((ROOT / package).rglob("*.py")):
        size = size_of(path.read_text(encoding="utf8"))
        part = path.relative_to(ROOT / package).parts[0].removesuffix(".py")
        sizes[part].update(size)
        sizes[package].update(size)
    return dict(sizes)
