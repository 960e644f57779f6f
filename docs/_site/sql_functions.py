"""The page of the functions of SQL, from the engine's list: `python -m docs._site.sql_functions`.

The engine says of each function how it is called and what it does.  A test compares the page with
the engine, so that a newer engine asks for a new page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import daf_query
import daf_storage

PAGE: Final = Path(__file__).parents[1] / "reference" / "sql-functions.md"

_QUERY: Final = """
SELECT routine_name AS name, function_type AS category,
       min(syntax_example) AS syntax, min(description) AS description
FROM information_schema.routines GROUP BY 1, 2 ORDER BY 2, 1
"""

_OURS: Final = {
    "matrix": (
        "matrix(rows_axis, columns_axis, name[, rows[, columns]])",
        "The [long form](../how-to/long-form.md) of a matrix, a row for each stored element.",
    ),
    "markers": (
        "markers(rows_axis, columns_axis, name, by[, rows[, columns]])",
        "[Markers](../how-to/profiles.md#marker-genes) of each group, by Welch's t-test.",
    ),
    "totals": (
        "totals(rows_axis, columns_axis, name[, rows[, columns]])",
        "[Sums](../how-to/profiles.md#quality-control), non-zeros, means and shares for each row.",
    ),
    "profile": (
        "profile(rows_axis, columns_axis, name, by[, rows[, columns]])",
        "[Statistics of a matrix](../how-to/profiles.md) in groups of its rows.",
    ),
    "category_order": (
        "category_order('axis.vector', value)",
        "The position of a value among the [categories](../how-to/sql.md#categoricals).",
    ),
    "mode": (
        "mode(expression)",
        "Returns the most frequent string, of several the first; numbers become strings.",
    ),
    "range": ("range(start, stop[, step])", "A row for each number, without the last."),
    "generate_series": (
        "generate_series(start, stop[, step])",
        "A row for each number, with the last.",
    ),
    "bool_or": (
        "bool_or(expression)",
        "Returns true if any non-null input value is true, otherwise false.",
    ),
    "covar_pop": (
        "covar_pop(expression1, expression2)",
        "Returns the population covariance of a set of number pairs.",
    ),
}
"""Functions of which the engine's list says nothing, or what it says of another."""

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


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A function, with its other names."""

    names: tuple[str, ...]
    category: str
    syntax: str
    description: str

    @property
    def subject(self) -> str:
        """The heading under which it stands."""
        if self.category != "SCALAR":
            return {
                "AGGREGATE": "Aggregates",
                "WINDOW": "Windows",
                "TABLE": "Tables",
            }[self.category]
        for subject, patterns in _SUBJECTS.items():
            if any(re.fullmatch(pattern, self.names[0]) for pattern in patterns.split()):
                return subject
        return "Strings and others"

    @property
    def row(self) -> str:
        """The line of a table."""
        others = ", ".join(f"`{name}`" for name in self.names[1:])
        also = f" Also {others}." if others else ""
        form = "` or `".join(_cell(line) for line in self.syntax.strip().split("\n"))
        return f"| `{form}` | {_cell(self.description)}{also} |"


def sql_functions() -> list[SqlFunction]:
    """Return the functions that a session knows; other names of a function stand with it."""
    with daf_query.connect(daf_storage.MemoryDaf(name="empty")) as session:
        rows = session.sql(_QUERY).to_pylist()
    named: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        if row["name"].startswith("daf_checked_"):
            continue  # put around arguments that say how large a value is
        is_another = not (row["syntax"] or "").startswith(row["name"])
        ours = _OURS.get(row["name"]) if is_another else None
        syntax, description = ours or (row["syntax"], _first_sentence(row["description"]))
        named.setdefault((row["category"], syntax, description), []).append(row["name"])
    return [
        SqlFunction(_main_name_first(names, syntax), category, syntax, description)
        for (category, syntax, description), names in named.items()
    ]


def _main_name_first(names: list[str], syntax: str) -> tuple[str, ...]:
    main = next((name for name in names if syntax.startswith(f"{name}(")), names[0])
    return (main, *(name for name in sorted(names) if name != main))


def page() -> str:
    """Return the page."""
    functions = sql_functions()
    count = sum(len(function.names) for function in functions)
    headings = ["Tables", "Aggregates", "Windows", "Strings and others"]
    headings[3:3] = _SUBJECTS
    lines = [
        "# Functions of SQL",
        "",
        f"The {count} functions of the dialect, as the engine lists them with `SHOW FUNCTIONS` and",
        "in `information_schema.routines`. All but the table functions, `category_order` and",
        "`mode` are [DataFusion's](https://datafusion.apache.org/user-guide/sql/index.html), and",
        "described in its words. What is refused, and where the engine errs, stands in",
        "[limits](limits.md). With the extra `spatial` there are",
        "[spatial functions](../how-to/zarr-tables.md) too.",
    ]
    for heading in headings:
        rows = sorted(function.row for function in functions if function.subject == heading)
        lines += ["", f"## {heading}", "", "| function | what it does |", "| --- | --- |", *rows]
    return "\n".join([*lines, ""])


def _first_sentence(text: str) -> str:
    """Return the first sentence, without links: their targets are pages of another project."""
    text = text.strip().split("\n\n")[0].split("\n- ")[0]
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(text.split()))
    return re.split(r"(?<=[a-z0-9)`])\. (?=[A-Z])", plain)[0].rstrip(".") + "."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
