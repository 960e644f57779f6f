"""Samplers: chosen entries of an axis with weights and splits, made, saved and handed to loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._calls import check_keywords
from daf_query._provenance import Record, described, provenance, record_of
from daf_query._row_files import Rows, format_of, save_rows
from daf_query.matrix import ConcatenatedAxis, each_once
from daf_query.scan import INDEX, NAME
from daf_query.slice import AxisRows, MatrixSlice, Selector, positions_in
from daf_query.sql import Engine, is_number, listed_expressions
from daf_query.syntax import plain_name, real_divisions
from daf_query.table import DATASET, AxisDataset, TableDataset, UnionDataset
from daf_query.training import _splits as splitting
from daf_query.training._batches import (
    BlockChoice,
    BlockPlan,
    Draw,
    Entries,
    Form,
    RowBlocks,
    RowSource,
    torch_blocks,
    torch_cells,
)
from daf_query.training._splits import Codes, Keys, Shares, SplitCodes
from daf_storage import errors
from daf_storage._lazy import ds, pc
from daf_storage.base import check_choice, one_array
from daf_storage.stores import os_errors

SPLIT: Final = "split"
WEIGHT: Final = "weight"
_RESERVED: Final = ("x", "index")


def coded(codes: Any, names: Iterable[str]) -> pa.DictionaryArray:
    """Return names by their numbers, as an Arrow dictionary."""
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(list(names), pa.string()))


@dataclass(frozen=True, eq=False, repr=False)
class Sampler:
    """Entries of an axis with weights and splits; `DafSession.sampler` makes one.

    A frozen value: arrays of it cannot be written.  ``sampler["train"]`` is the part of a split.
    It can be pickled, and knows nothing of the session that made it.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B", "C", "D", "E"])
    >>> daf.set_vector("cell", "type", ["b", "b", "b", "t", "t"])
    >>> sampler = daf_query.connect(daf).sampler(
    ...     "cell", where="name <> 'A'", weights="1 / count(*) OVER (PARTITION BY type)",
    ...     split={"train": 0.5, "val": 0.5}, stratify="type",
    ... )
    >>> sampler
    Sampler('cell', 4 of 5 entries: train 2, val 2; weighted)
    >>> sampler.indices.tolist(), sampler.weights.tolist()
    ([1, 2, 3, 4], [0.5, 0.5, 0.5, 0.5])
    >>> sampler["train"].names.to_pylist()
    ['B', 'E']
    """

    axis: str
    """The axis whose entries they are."""
    table: pa.Table
    """A row for each entry, in the order of the axis; see `to_arrow`."""
    lengths: Mapping[str, int]
    """How many entries the axis has in each data set, by its name."""
    shares: Mapping[str, float]
    """What share each split was to get, by its name."""
    record: Record = field(default_factory=dict)
    """Where it comes from: how it was asked for, and the fingerprints of the data sets."""

    @property
    def indices(self) -> npt.NDArray[np.int64]:
        """The 0-based positions along the axis, ascending, each once, shape ``(len(sampler),)``.

        In a collection they count through, as the rows of the union table do.
        """
        indices: npt.NDArray[np.int64] = self._column(INDEX).to_numpy()
        if self.datasets is not None:
            indices = np.cumsum([0, *self.lengths.values()])[self.datasets.indices] + indices
            indices.flags.writeable = False
        return indices

    @property
    def names(self) -> pa.Array:
        """The name of each entry, strings."""
        return self._column(NAME)

    @property
    def weights(self) -> npt.NDArray[np.float64] | None:
        """The weight of each entry: finite, not negative; None if there are none."""
        column = self._column(WEIGHT)
        return None if column is None else column.to_numpy()

    @property
    def splits(self) -> pa.DictionaryArray | None:
        """The name of the split of each entry, as an Arrow dictionary; None if there are none."""
        return self._column(SPLIT)

    @property
    def split_codes(self) -> SplitCodes | None:
        """The number of the split of each entry, in the order of `shares`; None without splits."""
        return None if self.splits is None else self.splits.indices.to_numpy()

    @property
    def datasets(self) -> pa.DictionaryArray | None:
        """The data set of each entry, of several as one; None of a single one."""
        return self._column(DATASET)

    def _column(self, name: str) -> Any:
        there = name in self.table.column_names
        return self.table.column(name).combine_chunks() if there else None

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {size:,}" for name, size in self.sizes.items())
        weighted = "; weighted" if self.weights is not None else ""
        return (
            f"Sampler({self.axis!r}, {len(self):,} of {self.axis_length:,} entries"
            f"{': ' if sizes else ''}{sizes}{weighted})"
        )

    @property
    def axis_length(self) -> int:
        """How many entries the axis has."""
        return sum(self.lengths.values())

    @property
    def sizes(self) -> dict[str, int]:
        """How many entries each split has, by its name; of a part, that of the part."""
        if self.split_codes is None:
            return {}
        counts = np.bincount(self.split_codes, minlength=len(self.shares)).tolist()
        return {name: n for name, n in zip(self.shares, counts, strict=True) if n}

    def __getitem__(self, split: str) -> Sampler:
        """Return the entries of one split, with their weights.

        Raises
        ------
        NotFoundError
            There is no such split.
        """
        if self.split_codes is None or split not in self.shares:
            has = errors.choices(split, self.shares, none="none; it was made without split=")
            raise errors.NotFoundError(
                f"the sampler of axis {self.axis!r} has no split {split!r}; it has {has}"
            )
        rows = np.flatnonzero(self.split_codes == list(self.shares).index(split))
        return replace(self, table=self.table.take(pa.array(rows)))

    def to_arrow(self, *, provenance: bool = False) -> pa.Table:
        """Return a row for each entry.

        The columns are ``dataset`` (of a collection), ``index`` (the position within
        the data set), ``name``, ``split`` (a dictionary) and ``weight``, as far as it has them.

        Parameters
        ----------
        provenance
            Whether the metadata of its schema say where it comes from.
        """
        return described(self.table, self.record) if provenance else self.table

    def save(self, path: str | Path) -> None:
        """Write it to a file, which appears, or is replaced, when it is complete.

        Parameters
        ----------
        path
            ``.parquet`` and ``.arrow`` have all of it and are read by `DafSession.load_sampler`;
            ``.csv``, ``.tsv``, ``.json`` and ``.ndjson`` have the rows of `to_arrow` for other
            programs.

        Raises
        ------
        InvalidInputError
            The suffix is another.
        """
        path = Path(path)
        file_format = format_of(path, hint="")
        table = self.to_arrow(provenance=True)
        save_rows(Rows(table.schema, table.to_batches()), path, file_format)

    def blocks(self, part: MatrixSlice, **choice: Unpack[BlockChoice]) -> RowBlocks:
        """Return the rows of a matrix in shuffled batches, as numpy or scipy.

        Parameters
        ----------
        part
            Of which matrix, and which columns: ``db.matrix("cell", "gene", "X", columns=...)``.
            Nothing of it is read before a batch is asked for.
        labels
            Vectors of the axis that a batch has as well, and ``dataset`` of a collection: numbers,
            or of strings the number of the class (see `RowBlocks.classes`), -1 if it is missing.
        batch_rows
            How many rows a batch has; 256 by default.
        block_rows
            How many neighbours are read together; 16 by default.  More are read faster, and are
            shuffled less.
        fetch_batches
            How many batches are read at once, and shuffled together; 16 by default.
        form
            ``dense`` or ``sparse`` (CSR).
        draw
            ``once``: each entry comes once an epoch.  ``weighted``: entries are drawn by weight,
            with replacement; the default of a sampler with weights.
        rows_per_epoch
            How many are drawn; by default as many as the sampler has.
        shuffle
            Whether the order is random; else it is that of the axis.
        drop_last
            Whether batches that are not full are left out, so that all ranks have equally many.
        seed
            Another integer makes another order.

        Returns
        -------
        RowBlocks
            Iterating over it yields batches, dictionaries of ``x``, ``index`` (the positions along
            the axis) and the labels; ``set_epoch`` says in which order.

        Raises
        ------
        InvalidInputError
            The slice lacks entries of the sampler, or a number makes no sense.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.add_axis("gene", ["G0", "G1"])
        >>> daf.set_vector("cell", "type", ["t", "b", "t"])
        >>> daf.set_matrix("cell", "gene", "X", [[0, 1], [2, 3], [4, 5]])
        >>> db = daf_query.connect(daf)
        >>> part = db.matrix("cell", "gene", "X")
        >>> blocks = db.sampler("cell").blocks(part, labels="type", batch_rows=2, shuffle=False)
        >>> for batch in blocks:
        ...     print(batch["x"].tolist(), batch["index"].tolist(), batch["type"].tolist())
        [[0, 1], [2, 3]] [0, 1] [1, 0]
        [[4, 5]] [2] [1]
        """
        return RowBlocks(row_source(self, part, **choice))

    def to_torch(
        self,
        part: MatrixSlice,
        *,
        rank: int | None = None,
        ranks: int | None = None,
        **choice: Unpack[BlockChoice],
    ) -> Any:
        """Return the batches of `blocks` as a ``torch.utils.data.IterableDataset``.

        Pass it to ``DataLoader(dataset, batch_size=None, num_workers=4)``.  Each worker of each
        rank maps the files and reads its own part of every epoch.  Call ``set_epoch`` before an
        epoch, also with ``persistent_workers=True``.

        Parameters
        ----------
        part
            Of which matrix, and which columns, as for `blocks`.
        rank, ranks
            Which process this is, and of how many; by default what ``torch.distributed`` says.
        **choice
            As for `blocks`.

        Raises
        ------
        MissingDependencyError
            torch is not installed.
        """
        return torch_blocks(row_source(self, part, **choice), rank=rank, ranks=ranks)

    def to_torch_cells(self, part: MatrixSlice, *, labels: str | Sequence[str] = ()) -> Any:
        """Return single rows as a ``torch.utils.data.Dataset``, for samplers of torch.

        Rows are dense.  Those of a batch are read at once.

        Raises
        ------
        MissingDependencyError
            torch is not installed.
        """
        return torch_cells(row_source(self, part, labels=labels))


_READ: Final = {
    INDEX: pa.int64(),
    NAME: pa.large_string(),
    WEIGHT: pa.float64(),
    DATASET: pa.int32(),
    SPLIT: pa.int16(),
}
"""The types of the columns; of dictionaries, of their codes."""


def read_sampler(path: Path) -> Sampler:
    """Return a sampler as it was saved; nothing is compared.

    Raises
    ------
    SourceNotFoundError
        There is no such file.
    InvalidInputError
        It is no file of a sampler.
    CorruptDataError
        The file is damaged.
    """
    try:
        record = provenance(path) or {}
    except errors.InvalidInputError:
        record = {}
    requested = record.get("sampler")
    if not isinstance(requested, dict):
        raise errors.InvalidInputError(
            f"{path}: this is no file of a sampler; Sampler.save() writes one to .parquet or .arrow"
        )
    with os_errors(str(path)):
        try:
            table = ds.dataset(path, format=path.suffix.removeprefix(".")).to_table()
            lengths = {str(name): int(length) for name, length in requested["lengths"].items()}
            shares = {name: float(share) for name, share in requested["split"] or ()}
            names = {DATASET: list(lengths), SPLIT: list(shares)}
            columns = {
                name: _read(table.column(name).combine_chunks(), _READ[name], names.get(name))
                for name in (DATASET, INDEX, NAME, SPLIT, WEIGHT)
                if name in table.column_names or name in (INDEX, NAME)
            }
            return Sampler(requested["axis"], pa.table(columns), lengths, shares, record)
        except (pa.ArrowException, KeyError, TypeError, ValueError, AttributeError) as error:
            raise errors.CorruptDataError(
                f"{path}: the sampler cannot be read: {type(error).__name__}: {error}; save it "
                "again"
            ) from error


def _read(column: pa.Array, kind: pa.DataType, names: list[str] | None) -> pa.Array:
    """Return a column in the type that a sampler has; one of names by their numbers."""
    if names is None:
        return column.cast(kind)
    codes = pc.index_in(column.cast(pa.string()), value_set=pa.array(names, pa.string()))
    return coded(codes.cast(kind).to_numpy(), names)  # an error of any that is none of the names


def row_source(sampler: Sampler, part: MatrixSlice, **choice: Unpack[BlockChoice]) -> RowSource:
    """Return what is read of a slice for the entries of a sampler; see `Sampler.blocks`."""
    given: dict[str, Any] = dict(choice)
    check_keywords(given, BlockChoice, "batches")
    labels, form = given.pop("labels", ()), given.pop("form", "dense")
    check_choice(form, Form, "form")
    weights, count = _weights(sampler, given.pop("draw", None)), given.pop("rows_per_epoch", None)
    if count is not None and weights is None:
        raise errors.InvalidInputError(
            "rows_per_epoch= is for entries that are drawn by weight; make the sampler with "
            "weights=, or leave it out: each of its entries comes once"
        )
    plan = BlockPlan(len(sampler) if count is None else count, **given)
    _check_axis(part, sampler)
    indices = sampler.indices
    offsets = _offsets(part, sampler, indices)
    values, classes = _labels(part, sampler, [labels] if isinstance(labels, str) else labels)
    return RowSource(part, offsets, indices, values, classes, weights, plan, form)


def _weights(sampler: Sampler, draw: Draw | None) -> npt.NDArray[np.float64] | None:
    """Return the weights that entries are drawn by; None if each comes once."""
    if draw is not None:
        check_choice(draw, Draw, "draw")
    if draw == "weighted" and sampler.weights is None:
        raise errors.InvalidInputError(
            "draw='weighted' needs weights; make the sampler with weights="
        )
    return None if draw == "once" else sampler.weights


def _check_axis(part: MatrixSlice, sampler: Sampler) -> None:
    """Refuse what is no slice of numbers whose rows are those of the sampler's axis."""
    if not isinstance(part, MatrixSlice):
        raise errors.InvalidInputError(
            f"rows are read from a slice, not {type(part).__name__}; pass "
            f"db.matrix({sampler.axis!r}, 'gene', 'X'), of which nothing is read yet"
        )
    what = f"the rows of this slice of {part.name!r} are"
    if part.rows_axis != sampler.axis:
        raise errors.InvalidInputError(
            f"{what} of axis {part.rows_axis!r}, the sampler is of {sampler.axis!r}; swap the "
            f"axes: db.matrix({part.columns_axis!r}, {part.rows_axis!r}, {part.name!r})"
        )
    if part.whole.along:
        raise errors.InvalidInputError(
            f"{what} aligned by name over several data sets; make it with along={sampler.axis!r}"
        )
    members = part.whole.axes[0].members
    lengths = {name: daf.axis_length(sampler.axis) for name, daf in members.items()}
    if lengths != sampler.lengths:
        raise errors.InvalidInputError(
            f"the sampler is not of these data sets: axis {sampler.axis!r} has "
            f"{sum(lengths.values()):,} entries in {errors.shown_names(lengths)}, and "
            f"{sampler.axis_length:,} in {errors.shown_names(sampler.lengths)} of the sampler; "
            "make it of the same session"
        )
    names = _vector_of_all(part, NAME).take(pa.array(sampler.indices))
    first = pc.index(pc.not_equal(names, sampler.names.cast(names.type)), True).as_py()
    if first >= 0:
        raise errors.InvalidInputError(
            f"axis {sampler.axis!r} was replaced or reordered since the sampler was made: entry "
            f"{sampler.indices[first]:,} is {names[first].as_py()!r}, and was "
            f"{sampler.names[first].as_py()!r}; make the sampler again"
        )
    if part.dtype == np.dtype(object):
        raise errors.InvalidInputError(f"the matrix {part.name!r} holds strings, not numbers")


def _offsets(part: MatrixSlice, sampler: Sampler, indices: Entries) -> Entries:
    """Return which row of a slice each entry of a sampler is."""
    positions = part.row_positions
    if not np.all(positions[1:] > positions[:-1]):
        raise errors.InvalidInputError(
            f"the rows of this slice of {part.name!r} are not in the order of axis "
            f"{part.rows_axis!r}; leave rows= out, since the sampler chooses them"
        )
    lacks = ~np.isin(indices, positions, assume_unique=True)
    if lacks.any():
        first = sampler.names[int(np.argmax(lacks))].as_py()
        raise errors.InvalidInputError(
            f"this slice of {part.name!r} lacks {int(lacks.sum()):,} of the {lacks.size:,} "
            f"entries of the sampler, the first is {first!r}; leave rows= out, or make the "
            "sampler with the same where="
        )
    return np.searchsorted(positions, indices)


def _labels(
    part: MatrixSlice, sampler: Sampler, names: Sequence[str]
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, pa.Array]]:
    """Return vectors of the rows axis as numbers, and the classes of those that are strings."""
    values, classes = {}, {}
    for name in names:
        if name in _RESERVED:
            raise errors.InvalidInputError(
                f"a label cannot be called {name!r}, since a batch has this already; store the "
                "vector by another name"
            )
        whole = _vector_of_all(part, name)
        column = whole.take(pa.array(sampler.indices))
        if pa.types.is_large_string(whole.type):
            distinct = pc.unique(whole).drop_null()
            classes[name] = distinct.take(pc.array_sort_indices(distinct))
            codes = pc.index_in(column, value_set=classes[name]).fill_null(-1)
            column = codes.cast(pa.int64())
        elif whole.null_count and (
            pa.types.is_boolean(whole.type) or pa.types.is_integer(whole.type)
        ):
            try:
                column = column.cast(pa.float64())  # NaN where it is missing
            except pa.ArrowInvalid as error:
                raise errors.InvalidInputError(
                    f"the label {name!r} has missing values, so that it becomes floats, which "
                    f"would round it: {error}; store it without missing values, or as strings"
                ) from None
        values[name] = column.to_numpy(zero_copy_only=False)
    return values, classes


def _vector_of_all(part: MatrixSlice, name: str) -> pa.Array:
    """Return a column of the table of the rows, of all data sets; strings as large ones."""
    axis = part.whole.axes[0]
    each = {name: AxisDataset(daf, axis.axis) for name, daf in axis.members.items()}
    table: TableDataset = UnionDataset(axis.axis, each, location=axis.location)
    if not part.of_several:
        [table] = each.values()
    column = one_array(table.to_table(columns=[name]).column(0))
    is_text = column.type in (pa.string(), pa.string_view())
    return column.cast(pa.large_string()) if is_text else column


Expressions = str | Sequence[str]
"""The name of a vector, an expression of SQL, or several."""

IfChanged: TypeAlias = Literal["error", "keep"]
"""What happens if the data would make another sampler today: an error, or the saved one counts."""

_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_TOLERANCE: Final = 1e-12


def make_sampler(  # noqa: PLR0913 - what is chosen, and how it is split
    engine: Engine,
    schema: str | None,
    axis: str,
    *,
    where: Selector = None,
    weights: str | None = None,
    split: Shares | None = None,
    seed: int = 0,
    stratify: Expressions | None = None,
    groups: Expressions | None = None,
) -> Sampler:
    """Return a sampler; see `DafSession.sampler`."""
    shares = {} if split is None else splitting.checked_shares(split)
    seed = splitting.checked_seed(seed)
    expressions = {"stratify": stratify, "groups": groups}
    for keyword, given in expressions.items():
        if given is not None and not shares:
            raise errors.InvalidInputError(
                f"{keyword}= is for splits, and there are none; pass split= as well, for example "
                "{'train': 0.8, 'val': 0.2}"
            )
    if not isinstance(weights, str | None):
        raise errors.InvalidInputError(
            f"weights= is an expression of SQL, not {type(weights).__name__}; numbers of "
            "your own become a vector with set_vector(), whose name is an expression"
        )
    rows = AxisRows.of(engine, schema, axis)
    whole, tables = rows.whole, rows.tables
    positions = each_once(rows.chosen(where, "where"))
    if not positions.size:
        why = f"; db.diagnose({axis!r}, {where!r}) says why" if isinstance(where, str) else ""
        raise errors.InvalidInputError(
            f"{tables.location}: where= chooses none of the {whole.length:,} entries of axis "
            f"{axis!r}{why}"
        )
    chosen = replace(rows, some=positions)
    owners, within = whole.split(positions)
    columns = {DATASET: coded(owners, whole.names)} if tables.is_collection else {}
    names = whole.entries_at(positions).cast(pa.large_string())
    columns |= {INDEX: pa.array(within), NAME: names}
    numbers = None if weights is None else weights_of(chosen, weights, names)
    if shares:
        splits = _splits(chosen, list(shares.values()), seed, names, **expressions)
        _check_splits(splits, shares, numbers, axis)
        columns[SPLIT] = coded(splits, shares)
    if numbers is not None:
        columns[WEIGHT] = pa.array(numbers)
    is_sql = isinstance(where, str | None)
    lengths = _lengths(whole)
    requested = {
        "axis": axis,
        "where": where if is_sql else f"<{type(where).__name__}>",
        "where_is_sql": is_sql,
        "weights": weights,
        "split": None if split is None else [(n, float(x)) for n, x in split.items()],  # in order
        "seed": seed,
        **{key: e if isinstance(e, str | None) else list(e) for key, e in expressions.items()},
        "schema": tables.name,
        "lengths": lengths,
    }
    sources = {tables.name: engine.connections.data_sets()[tables.name]}
    record = record_of(sources, {"sampler": requested})
    return Sampler(axis, pa.table(columns), lengths, shares, record)


def _lengths(axis: ConcatenatedAxis) -> dict[str, int]:
    return dict(zip(axis.names, np.diff(axis.starts).tolist(), strict=True))


def _splits(
    chosen: AxisRows,
    shares: list[float],
    seed: int,
    names: pa.Array,
    *,
    stratify: Expressions | None,
    groups: Expressions | None,
) -> SplitCodes:
    strata = None
    if stratify is not None:
        strata, _ = classes_of(chosen, stratify, "stratify", seed, names)
    if groups is None:
        return splitting.allocate(splitting.name_keys(names, seed), shares, strata)
    codes, keys = classes_of(chosen, groups, "groups", seed, names, refuses_null=True)
    if keys.size < len(shares):
        raise errors.InvalidInputError(
            f"groups= makes {keys.size:,} groups of the {len(names):,} entries, too few for "
            f"{len(shares):,} splits of whole groups; choose more with where=, or ask for fewer "
            "splits"
        )
    return splitting.allocate_groups(codes, keys, shares, strata)


def _check_splits(
    splits: SplitCodes, shares: dict[str, float], weights: npt.NDArray[np.float64] | None, axis: str
) -> None:
    """Refuse splits without entries, or of which none can be drawn."""
    counts = np.bincount(splits, minlength=len(shares))
    sums = np.bincount(splits, weights=weights, minlength=len(shares))
    for (name, share), count, total in zip(shares.items(), counts, sums, strict=True):
        if not count:
            raise errors.InvalidInputError(
                f"split {name!r} gets none of {splits.size:,} entries of axis {axis!r}: its share "
                f"is {share:.4g}; choose more entries with where=, or give it a larger share"
            )
        if not total:
            raise errors.InvalidInputError(
                f"weights= is 0 for all entries of split {name!r}, so that none can be drawn; "
                "leave out entries of weight 0 with where="
            )


def weights_of(chosen: AxisRows, text: str, names: pa.Array) -> npt.NDArray[np.float64]:
    """Return the weight of each chosen entry.

    Divisions are those of real numbers: ``1 / count(*) OVER (...)`` is no integer.

    Raises
    ------
    InvalidInputError
        One is missing, negative or infinite; or all are 0; or they are no numbers.
    """
    with errors.located("weights="):
        values = chosen.values(text, edits=real_divisions(text))
    type_ = values.type
    if not (is_number(type_) or pa.types.is_boolean(type_) or pa.types.is_null(type_)):
        raise errors.InvalidInputError(
            f"weights= yields {type_}, not numbers; write an expression such as "
            "1 / count(*) OVER (PARTITION BY cell_type)"
        )
    weights: npt.NDArray[np.float64] = (
        values.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy()
    )
    faults = (
        ("missing (NULL or NaN)", np.isnan(weights), "coalesce(..., 0) gives them none"),
        ("negative", weights < 0, "greatest(..., 0) gives them none"),
        ("infinite", np.isinf(weights), "look for a division by 0; nullif(..., 0) finds it"),
    )
    for what, is_wrong, advice in faults:
        if is_wrong.any():
            first = names[int(np.argmax(is_wrong))].as_py()
            raise errors.InvalidInputError(
                f"weights= is {what} for {int(is_wrong.sum()):,} of {weights.size:,} entries of "
                f"axis {chosen.axis!r}, the first is {first!r}; {advice}, or leave these "
                "entries out with where="
            )
    if not weights.any():
        raise errors.InvalidInputError(
            f"weights= is 0 for all {weights.size:,} entries, so that none can be drawn"
        )
    return weights


def classes_of(
    chosen: AxisRows,
    expressions: str | Sequence[str],
    keyword: str,
    seed: int,
    names: pa.Array,
    *,
    refuses_null: bool = False,
) -> tuple[Codes, Keys]:
    """Return which entries agree in one expression, or in several.

    A code for each entry, from 0, all of which occur; and a key for each code, made of its values
    and a seed.

    Raises
    ------
    InvalidInputError
        A value is missing where that is not allowed; or they are of a type without equality.
    """
    items = listed_expressions(expressions, chosen.vectors, keyword)
    if not items:
        raise errors.QueryError(f"{keyword}= is empty; pass a vector, or an expression of SQL")
    codes, keys = np.zeros(len(names), np.int64), np.zeros(len(names), np.uint64)
    for item in items:
        with errors.located(f"{keyword}="):
            values = chosen.values(item)
        if refuses_null and values.null_count:
            first = names[int(np.argmax(np.asarray(values.is_null())))].as_py()
            written = plain_name(item) if item in chosen.vectors else item
            raise errors.InvalidInputError(
                f"{keyword}= is missing for {values.null_count:,} of {len(names):,} entries of "
                f"axis {chosen.axis!r}, the first is {first!r}, and nothing says to which "
                f"group they belong; leave them out (where={f'{written} IS NOT NULL'!r}), or make "
                f"each one a group ({keyword}={f'coalesce({written}, name)'!r})"
            )
        item_codes, item_keys = _coded(values, keyword, seed)
        codes = codes * item_keys.size + item_codes
        keys = keys * _FACTOR + item_keys[item_codes]
        _, first_rows, codes = np.unique(codes, return_index=True, return_inverse=True)
    return codes, keys[first_rows]


def _coded(values: pa.Array, keyword: str, seed: int) -> tuple[Codes, Keys]:
    """Return a number for each value, and a key for each number."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    try:
        encoded = pc.dictionary_encode(values, null_encoding="encode")
        strings: Any = encoded.dictionary.cast(pa.large_string()).fill_null("")
    except (pa.ArrowException, NotImplementedError) as error:
        raise errors.InvalidInputError(
            f"{keyword}= yields {values.type}; pass an expression that yields strings, numbers or "
            "booleans"
        ) from error
    codes: Codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, splitting.name_keys(strings, seed)


def load_sampler(engine: Engine, schema: str | None, path: Path, if_changed: IfChanged) -> Sampler:
    """Return a saved sampler; see `DafSession.load_sampler`."""
    check_choice(if_changed, IfChanged, "if_changed")
    saved = read_sampler(path)
    tables = engine.connections.schema(schema).having(saved.axis)
    axis = tables.concatenated(saved.axis)
    if if_changed == "keep":
        return _placed(saved, axis, path)
    advice = (
        "; make it again, or pass if_changed='keep' to find the saved entries by their names and "
        "keep their splits and weights"
    )
    requested = saved.record["sampler"]
    how = {key: requested[key] for key in ("weights", "seed", "stratify", "groups")}
    if requested["split"] is not None:
        how["split"] = dict(requested["split"])
    # Entries that no SQL chose are asked for by position.
    where = requested["where"] if requested["where_is_sql"] else saved.indices
    try:
        now = make_sampler(engine, schema, saved.axis, where=where, **how)
    except errors.DafError as error:
        raise errors.InvalidInputError(
            f"{path}: the sampler cannot be made of {axis.location} any more: {error}{advice}"
        ) from error
    difference = _difference(saved, now)
    if difference is not None:
        raise errors.InvalidInputError(
            f"{path}: {axis.location} was changed since the sampler was saved: {difference}{advice}"
        )
    return now


def _difference(saved: Sampler, now: Sampler) -> str | None:
    """Return what is different, as a part of a sentence; None if nothing is."""
    was, is_now = saved.table, now.table
    if (DATASET in was.column_names) != (DATASET in is_now.column_names):
        return "it is one data set and was several, or the other way round"
    if len(saved) != len(now):
        return f"where= chooses {len(now):,} entries and chose {len(saved):,}"
    if not np.array_equal(saved.indices, now.indices) or not saved.names.equals(now.names):
        return "the chosen entries are others, or at other positions"
    if saved.weights is not None and now.weights is not None:
        if not np.allclose(saved.weights, now.weights, rtol=_TOLERANCE, atol=0):
            return "weights= yields other numbers"
    if saved.splits is not None and not saved.splits.equals(now.splits):
        return "entries belong to other splits, since values of stratify= or groups= differ"
    return None


def _placed(saved: Sampler, axis: ConcatenatedAxis, path: Path) -> Sampler:
    """Return the saved entries where they are now, found by their names."""
    with errors.located(path):
        found = positions_in(axis, saved.table.drop_columns([INDEX]), "where")
    order = np.argsort(found, kind="stable")
    owners, within = axis.split(found[order])
    table, lengths = saved.table.take(pa.array(order)), _lengths(axis)
    now = {INDEX: pa.array(within)}
    if saved.datasets is not None:
        now[DATASET] = coded(owners, lengths)
    columns = {name: now.get(name, table.column(name)) for name in table.column_names}
    return replace(saved, table=pa.table(columns), lengths=lengths)
