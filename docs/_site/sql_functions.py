"""The page of the functions of SQL, from the engine's list: `python -m docs._site.sql_functions`.

A test compares the page with the engine, so that a newer engine asks for a new page.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import daf_query
import daf_storage

PAGE: Final = Path(__file__).parents[1] / "reference" / "sql-functions.md"

_QUERY: Final = """
SELECT routine_name AS name, function_type AS category, min(syntax_example) AS form
FROM information_schema.routines WHERE routine_name NOT LIKE 'daf_checked_%' GROUP BY 1, 2
"""

OURS: Final = {
    "matrix(rows_axis, columns_axis, name[, rows[, columns]])": (
        "the [long form](../how-to/long-form.md) of a matrix, a row for each stored element"
    ),
    "profile(rows_axis, columns_axis, name, by[, rows[, columns]])": (
        "[statistics of a matrix](../how-to/profiles.md) in groups of its rows"
    ),
    "markers(rows_axis, columns_axis, name, by[, rows[, columns]])": (
        "[markers](../how-to/profiles.md#marker-genes) of each group, by Welch's t-test"
    ),
    "totals(rows_axis, columns_axis, name[, rows[, columns]])": (
        "[sums](../how-to/profiles.md#quality-control), non-zeros, means and shares for each row"
    ),
    "category_order('axis.vector', value)": (
        "the position of a value among the [categories](../how-to/sql.md#categoricals)"
    ),
    "mode(value)": "the most frequent string of a group; numbers become strings",
}
"""What this project adds, and what it does."""

_SUBJECTS: Final = {
    "Numbers": """
        abs ceil cbrt exp factorial floor gcd isnan iszero lcm ln log log10 log2 nanvl pi pow power
        random rand round signum sqrt trunc degrees radians a?(sin|cos|tan|cot)h? atan2
    """,
    "Missing values and choices": "coalesce greatest ifnull least nullif nvl nvl2",
    "Dates and times": ".*date.* .*time.* now today from_unixtime to_unixtime",
    "Regular expressions": "regexp_.*",
    "Hashes and encodings": "digest md5 sha[0-9]+ encode decode to_hex uuid",
    "Lists": """
        array_.* arrays_.* list_.* make_array make_list cardinality empty flatten cosine_distance
        dot_product inner_product string_to_array string_to_list range generate_series
    """,
    "Structures and maps": ".*struct row map.* get_field element_at union_.*",
    "Types": """
        category_order arrow_.* cast_to_type try_cast_to_type version with_metadata input_file_name
        file_row_index
    """,
}
"""What scalar functions are about, by patterns of their names; the others are about strings."""


def sql_functions() -> dict[str, list[str]]:
    """Return the functions that the engine lists, by subject, as they are called."""
    with daf_query.connect(daf_storage.MemoryDaf(name="empty")) as session:
        rows = session.sql(_QUERY).to_pylist()
    ours = {call.partition("(")[0] for call in OURS}
    by_subject: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: row["name"]):
        if row["name"] not in ours:
            subject = _subject(row["name"], row["category"])
            by_subject.setdefault(subject, []).append(_call(row["name"], row["form"] or ""))
    return by_subject


def _subject(name: str, category: str) -> str:
    """Return the heading under which a function stands."""
    if category != "SCALAR":
        return {"AGGREGATE": "Aggregates", "WINDOW": "Windows", "TABLE": "Tables"}[category]
    for subject, patterns in _SUBJECTS.items():
        if any(re.fullmatch(pattern, name) for pattern in patterns.split()):
            return subject
    return "Strings and others"


def _call(name: str, form: str) -> str:
    """Return how it is called; another name of a function has the form of its first."""
    first = " ".join(form.strip().split("\n")[0].split())
    return first if first.startswith(f"{name}(") else name


def page() -> str:
    """Return the page."""
    by_subject = sql_functions()
    count = sum(map(len, by_subject.values()))
    lines = [
        "# Functions of SQL",
        "",
        "| added here | |",
        "| --- | --- |",
        *(f"| `{call}` | {does} |" for call, does in OURS.items()),
        "",
        f"The other {count} are",
        "[DataFusion's](https://datafusion.apache.org/user-guide/sql/index.html); what one does:",
        "`SELECT description FROM information_schema.routines WHERE routine_name = 'median'`.",
        "Where the engine errs stands in [limits](limits.md). With the extra `spatial` there are",
        "[spatial functions](../how-to/zarr-tables.md) too.",
    ]
    headings = ["Tables", "Aggregates", "Windows", *_SUBJECTS, "Strings and others"]
    for heading in headings:
        if calls := by_subject.get(heading):
            lines += ["", f"## {heading}", "", ", ".join(f"`{call}`" for call in calls)]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page())
