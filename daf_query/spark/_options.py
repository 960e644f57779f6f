"""Options of a read, as Spark passes them: strings, with names in lower case."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from daf_query.fragments import ROWS_PER_FRAGMENT, Paths
from daf_storage import errors

MATRIX: Final = "matrix"
_OF_AXES: Final = ("matrix_columns", "predicate")
_OF_MATRICES: Final = ("matrix", "axes", "rows", "columns")
_READING: Final = ("path", "table", "select", "rows_per_partition", *_OF_AXES, *_OF_MATRICES)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What is to be read."""

    paths: Paths
    """A path, a pattern, or several paths."""
    table: str
    """The axis; or ``matrix``, where `matrix` says which."""
    select: tuple[str, ...] | None = None
    """The columns; None for all that Spark can have."""
    rows_per_partition: int = ROWS_PER_FRAGMENT
    matrix_columns: str = ""
    """Entries of matrices as columns, as SQL names them."""
    predicate: str | None = None
    """A filter that was planned already, as JSON."""
    matrix: str = ""
    """The name of a matrix."""
    axes: tuple[str, str] | None = None
    """Its rows axis and its columns axis."""
    rows: str | None = None
    """A predicate on its rows; None for all."""
    columns: str | None = None

    @property
    def location(self) -> str:
        """The path or the pattern, or how many paths there are; for messages."""
        return _shown(self.paths)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """Return what options mean.

        Raises
        ------
        InvalidInputError
            One is unknown, lacking or wrong.

        Examples
        --------
        >>> ReadOptions.of({"path": "pbmc.daf.zarr", "table": "cell", "select": "name, age"}).select
        ('name', 'age')
        """
        given = _checked(options)
        paths = _paths_of(given.get("path", ""))
        table = given.get("table", "")
        if not table:
            raise errors.InvalidInputError(
                f"{_shown(paths)}: which table is to be read? Say it with the option 'table': the "
                "name of an axis, or 'matrix'"
            )
        is_matrix = table == MATRIX and "matrix" in given
        if is_matrix:
            _refuse(given, _OF_AXES, "the long form of a matrix", "it is of the table of an axis")
        else:
            of_matrix = "it is of table='matrix', with the options 'matrix' and 'axes'"
            _refuse(given, _OF_MATRICES, f"the table of the axis {table!r}", of_matrix)
        if is_matrix and "axes" not in given:
            raise errors.InvalidInputError(
                f"{_shown(paths)}: the matrix {given['matrix']!r} needs the option 'axes', such as "
                "'cell, gene'"
            )
        return cls(
            paths,
            table,
            _names_of(given["select"]) if "select" in given else None,
            _positive(given.get("rows_per_partition", str(ROWS_PER_FRAGMENT))),
            given.get("matrix_columns", ""),
            given.get("predicate"),
            given.get("matrix", ""),
            _axes(given["axes"]) if is_matrix else None,
            given.get("rows"),
            given.get("columns"),
        )


def path_option(paths: Paths) -> str:
    """Return paths as the option ``path`` has them.

    >>> path_option(["a.daf.zarr", "b.daf.zarr"])
    '["a.daf.zarr", "b.daf.zarr"]'
    """
    if isinstance(paths, list | tuple):
        if not paths:
            raise errors.InvalidInputError("no path was given; pass a path, a pattern or a list")
        return json.dumps([str(path) for path in paths])
    return str(paths)


def _checked(options: Mapping[str, str]) -> dict[str, str]:
    """Return options by their names in lower case, without those that engines add."""
    given = {name.lower(): str(value) for name, value in options.items()}
    given = {name: value for name, value in given.items() if not name.startswith(("_", "spark."))}
    for name in given:
        if name not in _READING:
            raise errors.InvalidInputError(
                f"format 'daf' has no option {name!r} to read; it has "
                f"{errors.known_names(_READING, none='none')}{errors.nearest(name, _READING)}"
            )
    return given


def _paths_of(path: str) -> Paths:
    """Return a path or a pattern as it is, and a JSON list as several paths."""
    if not path:
        raise errors.InvalidInputError(
            "the option 'path' is missing: the path or the URL of a data set, or a pattern"
        )
    return _json_list(path) or path


def _names_of(value: str) -> tuple[str, ...]:
    """Return names that commas separate; a JSON list where a name has a comma."""
    names = _listed(value)
    if not all(names):
        raise errors.InvalidInputError(f"{value!r} is no list of names; separate them by commas")
    return tuple(dict.fromkeys(names))


def _listed(value: str) -> Sequence[str]:
    return _json_list(value) or [name.strip() for name in value.split(",")]


def _json_list(value: str) -> list[str] | None:
    """Return a JSON list of strings; None for anything else."""
    try:
        items = json.loads(value)
    except ValueError:
        return None
    is_list = isinstance(items, list) and all(isinstance(item, str) for item in items)
    return items if is_list else None


def _axes(value: str) -> tuple[str, str]:
    names = _listed(value)
    if len(names) != 2 or not all(names):
        raise errors.InvalidInputError(
            f"axes={value!r} does not name two axes; write 'cell, gene': rows, then columns"
        )
    return names[0], names[1]


def _positive(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise errors.InvalidInputError(
            f"rows_per_partition={value!r} is no positive number of rows"
        )
    return int(value)


def _refuse(given: Iterable[str], names: Iterable[str], what: str, instead: str) -> None:
    for name in names:
        if name in given:
            raise errors.InvalidInputError(f"{what} has no option {name!r}; {instead}")


def _shown(paths: Paths) -> str:
    return str(paths) if not isinstance(paths, list) else f"{len(paths):,} data sets"
