"""The works: tasks in modes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Mode = Literal["prepare", "warm", "open", "first", "cold"]
"""``prepare``: bring the data into the system's own form.  ``warm``: in a session that is open and has answered before.
``open``: with opening, in a process that has done so before.  ``first``: with opening, in a process that has only answered
for a tiny data set; ``cold``: the same, with the files out of the page cache.
"""


@dataclass(frozen=True)
class Work:
    """A task in a mode; a row of the table of results."""

    title: str
    task: str
    """The method of a system."""
    mode: Mode = "warm"

    @property
    def key(self) -> str:
        """The name of its row in the JSON."""
        return f"{self.task}-{self.mode}"


PREPARE: Final = Work("import, beginning with h5ad", "prepare", "prepare")

MATRIX: Final = [
    Work("open, filter, slice of the cells that remain", "filter_slice", "open"),
    Work("the same, cold cache", "filter_slice", "cold"),
    Work("filter and slice, open session", "filter_slice"),
    Work("one gene of all cells", "gene"),
    Work("count and mean by a column", "mean_by"),
    Work("1,000 x 50 scattered", "scattered"),
    Work("10 M stored elements to scipy", "many_rows"),
]

TABLE: Final = [
    Work("count(*)", "count"),
    Work("numeric filter", "numeric_filter"),
    Work("numeric filter, cold cache", "numeric_filter", "cold"),
    Work("string equality, first query", "string_equality", "first"),
    Work("string equality, later", "string_equality"),
    Work("group by a string", "group_by"),
    Work("join with 50 rows", "join"),
    Work("a name among many distinct ones, first query", "look_up", "first"),
]

ALL: Final = {work.key: work for work in [PREPARE, *MATRIX, *TABLE]}


def queries(name: str) -> dict[str, str]:
    """Return the SQL of each task on a table; the name is the one to look up."""
    return {
        "count": "SELECT count(*) AS n FROM cell",
        "numeric_filter": "SELECT count(*) AS n FROM cell WHERE age > 98 AND score > 0.5",
        "string_equality": "SELECT count(*) AS n FROM cell WHERE donor = 'donor7'",
        "group_by": "SELECT donor, count(*) AS n, avg(score) AS mean FROM cell GROUP BY donor ORDER BY donor",
        "join": "SELECT sex, count(*) AS n FROM cell JOIN donor ON cell.donor = donor.name "
        "WHERE age > 90 GROUP BY sex ORDER BY sex",
        "look_up": f"SELECT name, age, score FROM cell WHERE name = '{name}'",
    }
