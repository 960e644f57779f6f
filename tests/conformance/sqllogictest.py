"""The records of a sqllogictest file: statements to execute, and queries to compare."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NO_SELECT = re.compile(
    r"\s*(EXPLAIN|SHOW|DESCRIBE|SET|COPY|INSERT|CREATE|DROP|PREPARE|EXECUTE)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Record:
    """A statement or a query of a file."""

    line: int
    text: str
    is_query: bool


def records(path: Path) -> Iterator[Record]:
    """Yield the records of a file; results, conditions of other engines and plans are left out."""
    lines = path.read_text(errors="replace").splitlines()
    number, is_skipped = 0, False
    while number < len(lines):
        words = lines[number].split()
        number += 1
        if words[:1] == ["onlyif"]:
            is_skipped = True
        if words[:1] not in (["statement"], ["query"]):
            continue
        begin = number
        while number < len(lines) and lines[number].strip() not in ("", "----"):
            number += 1
        text = "\n".join(lines[begin:number]).rstrip().rstrip(";")
        is_query = words[0] == "query" and not _NO_SELECT.match(text)
        if text and not is_skipped and (is_query or words[0] == "statement"):
            yield Record(begin + 1, text, is_query)
        is_skipped = False
