"""The checks of a file of the corpus; anndata, and what the version itself read, are the judges.

A *check* takes an `Opened` file and returns what differs, in words; an empty list if nothing does.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final

import anndata
import numpy as np
import zarr

from daf_query import DafSession, connect
from daf_storage import DafReader, MemoryDaf, from_anndata, import_h5ad, open_daf, to_anndata
from daf_storage.errors import DafError
from tests.corpus.description import describe
from tests.corpus.exceptions import READ_OTHERWISE, UNREADABLE, why
from tests.corpus.files import CorpusFile
from tests.suites.examples import contents
from tests.support import by_key
from tests.support import dense as as_dense

_AXIS_KEYS: Final = ("obs_is", "var_is", "X_is")


class Opened:
    """A file of the corpus as anndata reads it, imported, and in place."""

    def __init__(self, file: CorpusFile) -> None:
        self.file = file

    @cached_property
    def adata(self) -> Any:
        """What the installed anndata reads."""
        path = self.file.path
        with warnings.catch_warnings(action="ignore"):
            if path.suffix == ".h5ad":
                return anndata.read_h5ad(path)
            if path.suffix == ".zarr":
                return anndata.read_zarr(path)
            with zarr.storage.ZipStore(path, mode="r") as store:
                return anndata.read_zarr(store)

    @cached_property
    def unique(self) -> Any:
        """The same, with names that are unique."""
        adata = self.adata.copy()
        with warnings.catch_warnings(action="ignore"):
            adata.obs_names_make_unique()
            adata.var_names_make_unique()
        return adata

    @cached_property
    def imported(self) -> DafReader:
        """What an import makes of it."""
        with warnings.catch_warnings(action="ignore"):
            if self.file.path.suffix == ".h5ad":
                daf = MemoryDaf()
                options: Any = {"duplicates": "make_unique", "relayout": False}
                import_h5ad(self.file.path, daf, progress="never", **options)
                return daf
            return from_anndata(self.unique, relayout=False)

    @cached_property
    def attached(self) -> DafReader:
        """The file in place."""
        with warnings.catch_warnings(action="ignore"):
            return open_daf(self.file.path)

    @cached_property
    def session(self) -> DafSession:
        """A session over the file in place."""
        return connect(self.attached)


def opening(opened: Opened) -> list[str]:
    """Compare obs, of a file that the installed anndata cannot read, with what the version read."""
    try:
        table = opened.session.sql("SELECT * FROM obs").to_arrow_table()
    except DafError as error:
        return [] if str(opened.file.path) in str(error) else [f"the error names no file: {error}"]
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    frame = opened.file.expected["obs"]
    found = differences(columns["name"], frame["names"], "names")
    for name, column in frame["columns"]:
        found += _column_differences(columns[name], column["values"], name)
    return found


def reading(opened: Opened) -> list[str]:
    """Compare what the installed anndata reads with what the version itself read."""
    return differences(describe(opened.adata), opened.file.expected)


def importing(opened: Opened) -> list[str]:
    """Compare an import, and back, with anndata."""
    return _against_anndata(opened.imported, opened.unique)


def attaching(opened: Opened) -> list[str]:
    """Compare what is in place, and back, with anndata."""
    return _against_anndata(opened.attached, opened.unique)


def alike(opened: Opened) -> list[str]:
    """Compare all parts of the data set in place with those of the import."""
    return differences(_contents(opened.attached), _contents(opened.imported))


def _contents(daf: DafReader) -> Any:
    """Return all parts, of matrices one layout."""
    described = contents(daf)
    described["scalars"].pop("anndata_notes", None)
    matrices = {}
    for (rows, columns, name), values in described["matrices"].items():
        is_transposed = rows > columns
        key = (columns, rows, name) if is_transposed else (rows, columns, name)
        lines = [list(line) for line in zip(*values, strict=True)] if is_transposed else values
        matrices[key] = lines if any(lines) else "no elements"
    described["matrices"] = matrices
    return described


def _against_anndata(daf: DafReader, expected: Any) -> list[str]:
    with warnings.catch_warnings(action="ignore"):
        adata = to_anndata(daf)
    for key in _AXIS_KEYS:
        adata.uns.pop(key)
    return differences(describe(adata, exact=True), describe(expected, exact=True))


def sql(opened: Opened) -> list[str]:
    """Compare tables of obs and var with the import's and with the columns of anndata."""
    imported, found = connect(opened.imported), []
    for part in ("obs", "var"):
        query = f"SELECT * FROM {part}"
        table = opened.session.sql(query).to_arrow_table()
        other = imported.sql(query).to_arrow_table()
        types = [(field.name, str(field.type)) for field in table.schema]
        found += differences(types, [(field.name, str(field.type)) for field in other.schema], part)
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        found += differences(
            columns, {name: other.column(name).to_pylist() for name in other.column_names}, part
        )
        frame = describe(opened.unique)[part]
        found += differences(columns["name"], frame["names"], f"{part} names")
        for name, column in frame["columns"]:
            if name in columns and name not in ("name", "index"):
                found += _column_differences(columns[name], column["values"], f"{part}.{name}")
    return found


def _column_differences(found: list[Any], expected: list[Any], what: str) -> list[str]:
    """Compare a column of SQL, which has no missing strings beside empty ones, and no other categories than strings."""

    def plain(value: Any, *, is_string: bool) -> Any:
        if value in (None, "") or (isinstance(value, float) and math.isnan(value)):
            return None
        is_plain = isinstance(value, bool | int | str) or (
            isinstance(value, float) and math.isfinite(value)
        )
        return value if is_plain and not is_string else str(value)

    pairs = [
        (
            plain(value, is_string=isinstance(other, str)),
            plain(other, is_string=isinstance(value, str)),
        )
        for value, other in zip(found, expected, strict=True)
    ]
    return differences([one for one, _ in pairs], [other for _, other in pairs], what)


def slices(opened: Opened) -> list[str]:
    """Compare slices of X and of the layers, by names, numbers and filters, with anndata's."""
    found = []
    for name, values in _matrices(opened):
        dense = as_dense(values)
        for rows, columns in _selections(*dense.shape):
            sliced = opened.session.matrix("obs", "var", name, rows=rows, columns=columns)
            expected = dense if rows is None else dense[rows]
            expected = expected if columns is None else expected[:, columns]
            found += differences(
                _numbers(sliced.to_numpy()), _numbers(expected), f"{name}[{rows}, {columns}]"
            )
    return found


def genes(opened: Opened) -> list[str]:
    """Compare genes as columns of a query, and a filter of one, with anndata's."""
    found = []
    names = opened.unique.var_names
    for matrix, values in _matrices(opened):
        if "/" in matrix or not opened.unique.n_obs:
            continue
        dense = as_dense(values)
        for place in {0, len(names) // 2} if len(names) else ():
            gene = names[place].replace("'", "''")
            column = f"\"var.{matrix}\"['{gene}']"
            where = column if dense.dtype == bool else f"{column} > 0"
            query = f'SELECT {column} AS g, "index" FROM obs WHERE {where} ORDER BY "index"'
            table = opened.session.sql(query).to_arrow_table()
            rows = np.flatnonzero(dense[:, place] > 0)
            what = f"{matrix}[{gene}]"
            found += differences(table.column("index").to_pylist(), rows.tolist(), what)
            found += differences(
                _numbers(table.column("g").to_pylist()), _numbers(dense[rows, place]), what
            )
    return found


def _matrices(opened: Opened) -> Iterator[tuple[str, Any]]:
    """Yield the names and the values of real matrices over obs and var."""
    adata = opened.unique
    held = opened.attached.matrices_set("obs", "var")
    parts = {**by_key(adata.layers), **({} if adata.X is None else {"X": adata.X})}
    for name, values in parts.items():
        if name in held and values.dtype.kind in "biuf":
            yield name, values


def _selections(rows: int, columns: int) -> Iterator[tuple[Any, Any]]:
    """Yield some choices of rows and columns, out of order, repeated and none."""
    random = np.random.default_rng(rows * 100 + columns)
    yield None, None
    if rows and columns:
        yield random.permutation(rows)[: rows // 2], None
        yield None, random.permutation(columns)[:3]
        yield np.sort(random.permutation(rows)[:5]), np.array([columns - 1, 0])


def _numbers(values: Any) -> Any:
    """Return numbers as plain Python; float16 is widened in Daf."""
    return np.asarray(values).astype(np.float64).tolist()


CHECKS: Final[dict[str, Callable[[Opened], list[str]]]] = {
    "opening": opening,
    "reading": reading,
    "importing": importing,
    "attaching": attaching,
    "alike": alike,
    "sql": sql,
    "slices": slices,
    "genes": genes,
}
"""All checks by name."""
OF_UNREADABLE: Final = ("opening",)
"""What is checked of a file that the installed anndata cannot read."""


def checks_of(file: CorpusFile) -> list[str]:
    """Return the names of the checks that a file is to pass."""
    if why(UNREADABLE, file):
        return [*OF_UNREADABLE]
    skipped = {*OF_UNREADABLE, *(["reading"] if why(READ_OTHERWISE, file) else [])}
    return [name for name in CHECKS if name not in skipped]


def differences(found: Any, expected: Any, what: str = "") -> list[str]:
    """Return where two nested values differ: NaN is equal to itself, and 1 is not True."""
    if isinstance(expected, dict) and isinstance(found, dict):
        names = [*expected, *(key for key in found if key not in expected)]
        lines = []
        for key in names:
            place = f"{what}/{key}"
            if key not in found or key not in expected:
                lines.append(f"{place} is {'missing' if key not in found else 'too much'}")
            else:
                lines += differences(found[key], expected[key], place)
        return lines
    if isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        if found == expected and repr(found) == repr(expected):
            return []
        lines = []
        for position, (one, other) in enumerate(zip(found, expected, strict=True)):
            lines += differences(one, other, f"{what}[{position}]")
        return lines[:3]
    return (
        []
        if repr(found) == repr(expected)
        else [f"{what}: {found!r:.90} instead of {expected!r:.90}"]
    )
