"""Questions about matrices: slices, profiles, and samplers of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from daf_query._calls import positive_number
from daf_query._runs import attended
from daf_query.session._later import (
    engines,
    layouts,
    moments,
    profiles,
    slices,
    syntax,
    tables,
    training,
)
from daf_query.session._queries import PROFILE_MAX_BYTES, Queries, matrix_table
from daf_storage import ShowProgress
from daf_storage.base import check_choice, progress_bar


class MatrixQuestions(Queries):
    """The part of a session that is about matrices."""

    def _request(
        self,
        schema: str | None,
        params: engines.Params | None,
        axes: tuple[str, str],
        name: str,
        *chosen: Any,
        **how: Any,
    ) -> slices.SliceRequest:
        """Return a request: its rows, columns and groups have the values of parameters."""
        rows, columns, by = _bound(params, chosen, [how.pop("by", ())])
        if how.get("max_bytes") is not None:
            how["max_bytes"] = slices.byte_count(how["max_bytes"])
        tables = self._connections.schema(schema)
        return slices.SliceRequest(self._engine, tables, axes, name, rows, columns, by=by, **how)

    @attended
    def matrix(  # noqa: PLR0913 - what is chosen, and how
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: slices.Selector = None,
        columns: slices.Selector = None,
        params: engines.Params | None = None,
        max_bytes: slices.ByteSize | None = None,
        schema: str | None = None,
        join: layouts.Join = "inner",
        fill_value: float | str | None = None,
        along: str | None = None,
    ) -> slices.MatrixSlice:
        """Choose a slice of a matrix; its values are read when they are asked for.

        In a collection (``connect("runs/*.daf.zarr")``) it has the entries of all of
        them: those of one axis one after the other, in the order of the union table, and those of
        the other axis aligned by name.

        Parameters
        ----------
        rows, columns
            Which entries of each axis; all by default.  A SQL predicate on that axis
            (``"age > 60 AND donor = 'N3'"``), also with ORDER BY and LIMIT; a whole SELECT that
            yields ``index`` or ``name`` (joins allowed), or its result; names; positions, as
            integers, a slice or a range; a boolean mask of the axis's length; or a data frame
            with a column ``name`` or ``index``.  Names, positions and masks may be lists, sets,
            or columns of numpy, pandas, polars or Arrow; all but sets keep their order and their
            duplicates.  SQL yields the order of the axis unless it says ORDER BY, and each
            entry once.
        params
            Values for the parameters of predicates and SELECTs, as for `sql`; those of rows and
            columns together.
        max_bytes
            How much memory the result may take: a number of bytes, or ``"500MB"``, ``"2GiB"``.
            The result is what `MatrixSlice.values` returns: CSR if the matrix is stored sparse,
            else dense.  From a server, no more than that is downloaded either.  By default there is
            no limit.
        schema
            Which data set, where several are connected.
        join
            In a collection, which entries the aligned axis has: those that all data
            sets with this matrix have (``inner``), or those of any (``outer``).
        fill_value
            In a collection, what stands where one of them lacks an entry.  By default
            0 if the matrix is sparse in any of them, else NaN; of strings the empty string.
        along
            In a collection, the axis whose entries are put one after the other.  By
            default that of the observations: what ``obs_is`` of an imported AnnData says, or
            ``obs``, ``cell`` or ``metacell``; if neither axis is, that of the rows.

        Returns
        -------
        MatrixSlice
            With ``to_scipy``, ``to_numpy``, ``to_pandas``, ``to_polars``, ``to_arrow``,
            ``to_anndata`` and ``save``.  A filter that matches nothing yields an empty slice.  Of
            a collection, `MatrixSlice.datasets` says of which each entry is.

        Raises
        ------
        NotFoundError
            An axis, matrix, column or entry is unknown; the message lists those that exist.
        QueryError
            A predicate is wrong.
        BudgetError
            The result may take more than ``max_bytes``; the message has the figures of
            `MatrixSlice.explain`, and nothing of the matrix was read.
        InvalidInputError
            ``max_bytes`` is no size.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3]])
        >>> part = connect(daf).matrix("cell", "gene", "UMIs", rows="name = 'GATA'")
        >>> part.to_numpy().tolist()
        [[2, 3]]
        """
        axes = rows_axis, columns_axis
        how = {"join": join, "fill_value": fill_value, "along": along, "max_bytes": max_bytes}
        return slices.matrix_slice(self._request(schema, params, axes, name, rows, columns, **how))

    @attended
    def matrix_table(
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: slices.Selector = None,
        columns: slices.Selector = None,
        params: engines.Params | None = None,
        schema: str | None = None,
    ) -> tables.TableDataset:
        """Return the long form of a matrix as a pyarrow Dataset, for DuckDB, polars and pyarrow.

        It has a row for each stored element of a sparse matrix, explicit zeros included, and for
        every element of a dense one.  The columns are the two axes, dictionaries of their entries
        (``AXIS`` and ``AXIS_2`` for a matrix of an axis with itself), and ``value``, where NaN is
        NULL.  It is scanned in blocks: filters on the axes become slices, and only these are read.
        In SQL it is ``matrix('cell', 'gene', 'X')``.

        Parameters
        ----------
        rows, columns
            Which entries of each axis, as for `matrix`; each counts once, in any order.
        params
            Values for the parameters of predicates and SELECTs, as for `sql`.
        schema
            Which data set, where several are connected.

        Raises
        ------
        NotFoundError
            An axis, matrix, column or entry is unknown; the message lists those that exist.
        QueryError
            A predicate is wrong.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3]])
        >>> db = connect(daf)
        >>> db.matrix_table("cell", "gene", "UMIs", rows=["GATA"]).to_table().to_pydict()
        {'cell': ['GATA', 'GATA'], 'gene': ['FOXA1', 'WNT6'], 'value': [2, 3]}
        """
        axes = rows_axis, columns_axis
        return matrix_table(self._request(schema, params, axes, name, rows, columns, join="outer"))

    @attended
    def profile(  # noqa: PLR0913 - the choices of a profile
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        by: engines.By = (),
        rows: slices.Selector = None,
        columns: slices.Selector = None,
        params: engines.Params | None = None,
        schema: str | None = None,
        max_bytes: slices.ByteSize | None = PROFILE_MAX_BYTES,
        progress: ShowProgress = "auto",
        join: layouts.Join = "outer",
        fill_value: float | None = None,
        along: str | None = None,
    ) -> profiles.Profile:
        """Compute what a matrix is like in each group of its rows, column by column.

        The matrix is read once, in blocks, on all cores, from the stored layout that fits; the
        memory that this takes does not depend on its size, but on that of the result.

        Parameters
        ----------
        by
            What the rows are grouped by: a vector (``"bulk_labels"``), an SQL expression over the
            axis (``"age > 60"``), or a list of such; each may end in ``AS name``, which is then
            the name of its column.  Without any, all rows are one group.  NULL is a group too.
        rows, columns
            Which entries of each axis, as for `matrix`.  A row that is chosen twice counts twice.
        params
            Values for the parameters of all of these, as for `sql`.
        schema
            Which data set, where several are connected.
        max_bytes
            How large the result may be, and how much is downloaded from a server: a number of
            bytes, or ``"500MB"``, ``"2GiB"``; 4 GiB by default, None for no limit.
        progress
            Whether to show a bar on stderr.
        join, along
            In a collection, as for `matrix`; all columns by default.
        fill_value
            What stands where one of them lacks a column; by default a missing value, so that its
            rows are counted as ``missing``.

        Returns
        -------
        Profile
            A query result with ``count``, ``missing``, ``nonzero``, ``sum``, ``mean``,
            ``variance``, ``min`` and ``max`` of each group and column, in the order of the groups,
            which is ascending, or that of the categories; with ``to_anndata`` and ``plot``.

        Raises
        ------
        NotFoundError
            An axis, matrix, column or entry is unknown; the message lists those that exist.
        QueryError
            A predicate or an expression is wrong.
        InvalidInputError
            Two columns would have one name; or the rows are of an aligned axis.
        UnsupportedInputError
            It is a matrix of strings.
        BudgetError
            The result or the download would be larger than ``max_bytes``.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_vector("cell", "age", [30, 60, 90])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
        >>> profile = connect(daf).profile("cell", "gene", "UMIs", by="age > 40 AS old")
        >>> profile.select("old", "gene", "count", "mean").to_pylist()
        [{'old': False, 'gene': 'FOXA1', 'count': 1, 'mean': 0.0},
         {'old': False, 'gene': 'WNT6', 'count': 1, 'mean': 1.0},
         {'old': True, 'gene': 'FOXA1', 'count': 2, 'mean': 3.0},
         {'old': True, 'gene': 'WNT6', 'count': 2, 'mean': 4.0}]
        """
        axes = rows_axis, columns_axis
        how = {"join": join, "fill_value": fill_value, "along": along, "max_bytes": max_bytes}
        request = self._request(schema, params, axes, name, rows, columns, by=by, **how)
        prepared, requested = profiles.prepared_profile(request)
        return profiles.Profile(self._engine, prepared.compute(progress=progress), requested)

    @attended
    def markers(  # noqa: PLR0913 - the choices of a profile, and of a test
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        by: engines.By,
        reference: Any = "rest",
        method: profiles.MarkerTest = "t-test",
        is_log1p: bool = True,
        tie_correct: bool = False,
        top: int | None = None,
        rows: slices.Selector = None,
        columns: slices.Selector = None,
        params: engines.Params | None = None,
        schema: str | None = None,
        max_bytes: slices.ByteSize | None = PROFILE_MAX_BYTES,
        memory_bytes: slices.ByteSize = "1GiB",
        progress: ShowProgress = "auto",
        join: layouts.Join = "outer",
        fill_value: float | None = None,
        along: str | None = None,
    ) -> engines.TableResult:
        """Compare each group of rows with the others, column by column: marker genes.

        Welch's t-test needs one pass over the matrix, in bounded memory, as a profile does; the
        rank-sum test of Wilcoxon reads as many columns at a time as fit into ``memory_bytes``.
        Both give what ``scanpy.tl.rank_genes_groups`` gives for values in double precision.

        Parameters
        ----------
        by
            What the rows are grouped by, as of `profile`.  Rows of which it is NULL are no group,
            but belong to the rest.
        reference
            ``"rest"`` compares each group with all other chosen rows; a group compares the others
            with that one: its value or the text of it; of several group columns a tuple of values.
        method
            ``"t-test"`` or ``"wilcoxon"``.
        is_log1p
            Whether the values are logarithms of counts and 1, as after ``scanpy.pp.log1p``: their
            means are turned back before fold changes are taken.
        tie_correct
            Whether the rank-sum test corrects for ties.
        top
            How many columns of each group, those with the highest scores; all by default.
        memory_bytes
            How much the values may take that are ranked at a time.
        join, fill_value, along
            In a collection, as for `profile`.

        Other parameters are those of `profile`.

        Returns
        -------
        TableResult
            A row for each group and column of the matrix, group by group, the highest scores
            first: the group columns, the entry in a column that is named as its axis, ``score``,
            ``log_fold_change`` (binary), ``pvalue``, ``pvalue_adjusted`` (by Benjamini and
            Hochberg, within each group), ``mean``, ``mean_rest``, ``fraction`` (of values that are
            not zero) and ``fraction_rest``.  NULL where a group has too few values.

        Raises
        ------
        InvalidInputError
            There are fewer than two groups, the reference is not one of them, or the method none.
        NotFoundError, QueryError, BudgetError
            As of `profile`.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C", "D"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_vector("cell", "type", ["T", "T", "B", "B"])
        >>> daf.set_matrix("cell", "gene", "X", [[0.0, 1.0], [1.0, 2.0], [5.0, 1.0], [6.0, 2.0]])
        >>> markers = connect(daf).markers("cell", "gene", "X", by="type", is_log1p=False)
        >>> markers.select("type", "gene", "round(score, 2) AS score", "mean").head(2).to_pylist()
        [{'type': 'B', 'gene': 'FOXA1', 'score': 7.07, 'mean': 5.5},
         {'type': 'B', 'gene': 'WNT6', 'score': 0.0, 'mean': 1.5}]
        """
        axes = rows_axis, columns_axis
        how = {"join": join, "fill_value": fill_value, "along": along, "max_bytes": max_bytes}
        request = self._request(schema, params, axes, name, rows, columns, by=by, **how)
        check_choice(method, profiles.MarkerTest, "method")
        top = None if top is None else positive_number(top, "top")
        prepared, requested = profiles.prepared_profile(request, moments.MARKER_STATISTICS)
        table = profiles.marker_rows(
            request,
            prepared,
            reference=reference,
            method=method,
            is_log1p=is_log1p,
            tie_correct=tie_correct,
            top=top,
            memory_bytes=slices.byte_count(memory_bytes, keyword="memory_bytes"),
            progress=progress,
        )
        title = f"the markers of {name!r} over {' x '.join(axes)}"
        requested |= {"markers": {"reference": reference, "method": method}}
        return engines.TableResult(self._engine, table, title, requested)

    @attended
    def totals(  # noqa: PLR0913 - what is chosen, and how
        self,
        rows_axis: str,
        columns_axis: str,
        name: str,
        *,
        rows: slices.Selector = None,
        columns: slices.Selector = None,
        params: engines.Params | None = None,
        schema: str | None = None,
        max_bytes: slices.ByteSize | None = PROFILE_MAX_BYTES,
        progress: ShowProgress = "auto",
        join: layouts.Join = "outer",
        along: str | None = None,
    ) -> engines.TableResult:
        """Add up chosen columns for each row: counts, genes and shares of quality control.

        The matrix is read once, in blocks, on all cores.

        Parameters
        ----------
        rows, columns
            Which entries of each axis, as for `matrix`; the columns are what is added up.
        params, schema, join, along
            As for `matrix`.
        max_bytes
            Refuse to download more from a server; None for any size.
        progress
            Whether to show a bar on stderr.

        Returns
        -------
        TableResult
            A row for each chosen row: ``name``, ``index``, ``sum``, ``nonzero`` (how many are not
            zero), ``mean`` (zeros counted) and ``share``, the sum divided by that over all columns;
            NULL where that is 0.  In a collection ``dataset`` comes first.

        Raises
        ------
        NotFoundError
            An axis, matrix, column or entry is unknown; the message lists those that exist.
        QueryError
            A predicate is wrong.
        InvalidInputError
            The rows are of an aligned axis.
        BudgetError
            The download would be larger than ``max_bytes``.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B"])
        >>> daf.add_axis("gene", ["CD8A", "MT-CO1", "MT-ND1"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[6, 1, 3], [8, 0, 0]])
        >>> totals = connect(daf).totals("cell", "gene", "UMIs", columns="name LIKE 'MT-%'")
        >>> totals.select("name", "sum", "nonzero", "mean", "share").to_pylist()
        [{'name': 'A', 'sum': 4.0, 'nonzero': 2, 'mean': 2.0, 'share': 0.4},
         {'name': 'B', 'sum': 0.0, 'nonzero': 0, 'mean': 0.0, 'share': 0.0}]
        """
        axes = rows_axis, columns_axis
        how = {"join": join, "along": along, "max_bytes": max_bytes}
        request = self._request(schema, params, axes, name, rows, columns, **how)
        prepared, requested = profiles.prepared_totals(request)
        with progress_bar("totals", None, show=progress) as bar:
            table = prepared.compute(bar.add)
        return engines.TableResult(self._engine, table, f"the totals of {name!r}", requested)

    def sampler(  # noqa: PLR0913 - what is chosen, and how it is split
        self,
        axis: str,
        *,
        where: slices.Selector = None,
        weights: str | None = None,
        split: training.Shares | None = None,
        seed: int = 0,
        stratify: training.Expressions | None = None,
        groups: training.Expressions | None = None,
        params: engines.Params | None = None,
        schema: str | None = None,
    ) -> training.Sampler:
        """Choose entries of an axis, with weights and splits, for a training loop.

        The same data and the same seed make the same sampler, in every format and with any number
        of threads: splits go by hashes of the names of the entries.  If ``where`` changes, nearly
        all entries keep their split, unless there are groups.

        Parameters
        ----------
        where
            Which entries; all by default.  As ``rows=`` of `matrix`: a SQL predicate, a SELECT,
            names, positions or a mask.  Each counts once.
        weights
            An expression of SQL, evaluated over the chosen entries alone, as its window functions
            are.  Divisions are those of real numbers.
        split
            The share of each split by its name; together 1.
        seed
            Another integer makes other splits.
        stratify
            A vector, an expression, or several: each split keeps its share of every combination
            of their values, to within one entry.  NULL is a value.  With groups, as near as these
            allow.
        groups
            A vector, an expression, or several, such as the donor: entries with the same values
            are in one split.  The sizes come as near to the shares as moving or swapping groups
            brings them.
        params
            Values for the parameters of all of these, as for `sql`.
        schema
            Which data set, where several are connected.

        Returns
        -------
        Sampler
            A frozen value with ``indices``, ``weights``, ``names`` and ``splits``.

        Raises
        ------
        InvalidInputError
            The shares do not add up; a weight is missing, negative or infinite; a split would be
            empty; an entry has no group; or nothing is chosen.
        QueryError, NotFoundError
            A predicate or an expression is wrong; an axis, entry or column is unknown.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C", "D"])
        >>> daf.set_vector("cell", "donor", ["N1", "N1", "N2", "N2"])
        >>> sampler = connect(daf).sampler("cell", split={"train": 0.5, "val": 0.5}, groups="donor")
        >>> sampler.sizes, sampler["val"].names.to_pylist()
        ({'train': 2, 'val': 2}, ['A', 'B'])
        """
        names = "where", "weights", "stratify", "groups"
        bound = _bound(params, [where], [weights, stratify, groups])
        chosen = dict(zip(names, bound, strict=True))
        return training.make_sampler(self._engine, schema, axis, split=split, seed=seed, **chosen)

    def load_sampler(
        self,
        path: str | Path,
        *,
        if_changed: training.IfChanged = "error",
        schema: str | None = None,
    ) -> training.Sampler:
        """Read a sampler that `Sampler.save` wrote, and compare it with the data.

        It is made again as it was asked for, which has to give the same entries at the same
        positions, the same weights and the same splits.

        Parameters
        ----------
        path
            A ``.parquet`` or ``.arrow`` file.
        if_changed
            ``keep`` takes entries, splits and weights as they were saved instead, and finds the
            entries by their names: so a split survives new entries, and another order.
        schema
            Which data set, where several are connected.

        Raises
        ------
        SourceNotFoundError
            There is no such file.
        InvalidInputError
            It is no file of a sampler; or the data would make another one today.
        EntryNotFoundError
            An entry is not there any more.
        CorruptDataError
            The file is damaged.

        Examples
        --------
        >>> import daf_storage, os, tempfile
        >>> from daf_query import connect
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C", "D"])
        >>> db = connect(daf)
        >>> path = os.path.join(tempfile.mkdtemp(), "split.parquet")
        >>> db.sampler("cell", split={"train": 0.75, "val": 0.25}).save(path)
        >>> db.load_sampler(path)
        Sampler('cell', 4 of 4 entries: train 3, val 1)
        """
        return training.load_sampler(self._engine, schema, Path(path), if_changed)


def _bound(
    params: engines.Params | None, selectors: Sequence[Any], expressions: Sequence[Any]
) -> list[Any]:
    """Return both, with values in place of the parameters of those that are SQL.

    A list of a selector has names, which are no SQL, and one of expressions has SQL.
    """
    values = [*selectors, *expressions]
    listed = [[each] if isinstance(each, str) else [] for each in selectors]
    listed += map(_listed, expressions)
    strings = [string for each in listed for string in each]
    if params is None and not any(map(syntax.placeholders, strings)):
        return values
    replaced = iter(engines.bind_all(strings, params))
    bound = [[next(replaced) for _ in each] for each in listed]
    return [
        (new[0] if isinstance(value, str) else new) if new else value
        for value, new in zip(values, bound, strict=True)
    ]


def _listed(expressions: Any) -> list[str]:
    """Return expressions that are SQL, to have values put in place of their parameters."""
    if isinstance(expressions, str):
        return [expressions]
    if isinstance(expressions, list | tuple) and all(isinstance(e, str) for e in expressions):
        return list(expressions)
    return []
