"""Profiles: a query result, an AnnData of groups x columns, markers, and plots with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._formats import PROFILE_FORMATS
from daf_query._provenance import KEY, as_json, refuse_own_files
from daf_query._row_files import Format, format_of
from daf_query._runs import check_cancelled
from daf_query.matrix import AlignedAxis, ConcatenatedAxis, EntryAxis
from daf_query.moments import (
    LAYERS,
    STATISTICS,
    Comparison,
    GroupProfile,
    GroupValues,
    PreparedProfile,
    PreparedTotals,
    Statistic,
    group_rows,
    marker_table,
    rank_sums,
)
from daf_query.plot import (
    RAW,
    axes_for,
    axes_with_legend,
    check_cmap,
    names_inches,
    write_labels,
    write_names,
)
from daf_query.scan import NAME
from daf_query.slice import (
    AxisRows,
    MatrixAxes,
    SliceRequest,
    axis_table,
    matrix_axes,
    matrix_slice,
    with_used_categories,
)
from daf_query.sql import (
    By,
    Engine,
    TableResult,
    listed_expressions,
    pandas_frame,
    rows_page,
    written_items,
)
from daf_query.syntax import unquoted_name, without_name
from daf_storage import ShowProgress, errors
from daf_storage.anndata import write_anndata
from daf_storage.base import AnyArray, Progress, check_choice, optional_import, progress_bar
from daf_storage.stores import output_path

if TYPE_CHECKING:
    import anndata

H5AD: Final = "h5ad"
"""The format of AnnData files."""


class Profile(TableResult):
    """What a matrix is like in each group of its rows; `DafSession.profile` makes one.

    It is a query result with a row for each group that has rows, and each column of the matrix:
    the group columns, the entry in a column that is named as its axis, and

    - ``count``, how many rows the group has, and ``missing``, how many of the values are NaN;
    - ``nonzero``, how many are neither 0 nor NaN;
    - ``sum``, ``mean``, ``variance`` (of the sample, with n - 1), ``min`` and ``max`` of those
      that are not NaN, zeros among them.  NULL where there are none, or for a variance fewer
      than two, or where infinities leave no number.

    The matrix has been read: it stays usable after its session is closed, but for `to_anndata`,
    which reads the vectors of the columns.

    Examples
    --------
    >>> import daf_query, daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B", "C"])
    >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
    >>> daf.set_vector("cell", "type", ["T", "B", "T"])
    >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
    >>> profile = daf_query.connect(daf).profile("cell", "gene", "UMIs", by="type")
    >>> profile.filter("gene = 'FOXA1'").select("type", "count", "mean", "nonzero").to_pylist()
    [{'type': 'B', 'count': 1, 'mean': 2.0, 'nonzero': 1},
     {'type': 'T', 'count': 2, 'mean': 2.0, 'nonzero': 1}]
    """

    def __init__(self, engine: Engine, content: GroupProfile, requested: Mapping[str, Any]) -> None:
        title = f"the profile of {content.name!r} over {' x '.join(content.axis_names)}"
        super().__init__(engine, content.to_table(), title, requested)
        self.content = content
        """The groups, the columns and the numbers as arrays."""

    def _page(self, rows: pa.Table) -> str:
        content = self.content
        groups, columns = content.sizes.size, content.columns.positions.size
        title = (
            f"profile of {content.name} over {' x '.join(content.axis_names)}: "
            f"{groups:,} groups x {columns:,} {content.axis_names[1]}"
        )
        return rows_page(rows, self.count(), title=title)

    def statistic(self, statistic: Statistic) -> npt.NDArray[Any]:
        """Return a statistic of each group and column, of shape ``(groups, columns)``.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3]])
        >>> daf_query.connect(daf).profile("cell", "gene", "UMIs").statistic("max").tolist()
        [[2.0, 3.0]]
        """
        return self.content.moments.statistic(statistic)

    @property
    def column_entries(self) -> pa.Array:
        """The entries of the columns axis, as they were when the profile was made."""
        count = self.content.columns.positions.size
        return self._table.column(self.content.axis_names[1]).slice(0, count).combine_chunks()

    @property
    def plot(self) -> ProfilePlots:
        """Plots; they need the extra ``plot``."""
        return ProfilePlots(self.content, self.column_entries.to_pylist())

    def to_anndata(
        self, *, statistic: Statistic = "mean", provenance: bool | None = None
    ) -> anndata.AnnData:
        """Return an AnnData of groups x columns.

        ``obs`` has the group columns and ``count``, and is labelled by the groups; ``var`` has the
        vectors of the columns.  The layers are ``sum``, ``mean``, ``variance``, ``min``, ``max``,
        ``nonzero``, ``missing`` and ``fraction``, the share of the values that are not zero.

        Parameters
        ----------
        statistic
            Which of them is also ``X``: ``sum`` for pseudobulk counts.
        provenance
            Whether ``uns["daf_query"]`` says, as JSON, where the profile comes from; by default as
            the session was connected.

        Raises
        ------
        InvalidInputError
            The axis of the columns was replaced or reordered since the profile was made.
        """
        anndata = optional_import("anndata", extra="anndata")
        moments, groups = self.content.moments, self.content.groups
        values = moments.statistic(statistic).copy()
        self._check_columns()
        var, uns = axis_table(self.content.axes[1], self.content.columns)
        if not self.content.columns.is_all:
            var, uns = with_used_categories(var, uns)
        self._check_columns()
        layers = {name: moments.statistic(name) for name in LAYERS}
        obs = pandas_frame(pa.table({**groups, "count": pa.array(self.content.sizes)}))
        obs.index = self.content.labels()
        adata = anndata.AnnData(X=values, obs=obs, var=var, layers=layers, uns=uns)
        if self.is_described(provenance):
            adata.uns[KEY] = as_json(self.provenance())
        return adata

    def _check_columns(self) -> None:
        """Refuse vectors of other entries than those that the columns had."""
        content, axis = self.content, self.content.axes[1]
        if isinstance(axis, AlignedAxis) or not self._table.num_rows:
            return  # whoever reads the columns of several data sets compares the names
        [daf] = axis.members.values()
        profiled, positions = self.column_entries.dictionary_decode(), content.columns.positions
        now = daf.get_pa_vector(axis.axis, NAME).cast(profiled.type)
        is_shorter = int(positions.max(initial=-1)) >= len(now)
        if is_shorter or not now.take(pa.array(positions)).equals(profiled):
            raise errors.InvalidInputError(
                f"{axis.location}: the axis {axis.axis!r} was replaced or reordered since this "
                f"profile of {content.name!r} was made; make the profile again"
            )

    def save(
        self,
        path: str | Path,
        *,
        format: Format | Literal["h5ad"] | None = None,  # noqa: A002 - what it is called everywhere
        progress: ShowProgress = "auto",
        provenance: bool | None = None,
    ) -> int:
        """Write the rows to a file, or to ``.h5ad`` what `to_anndata` returns; return their number.

        Otherwise as `QueryResult.save`.
        """
        chosen = format_of(Path(path), format, PROFILE_FORMATS)
        if chosen == H5AD:
            self.save_h5ad(path, provenance=provenance)
            return self.count()
        return super().save(path, format=chosen, progress=progress, provenance=provenance)

    def save_h5ad(
        self, path: str | Path, *, statistic: Statistic = "mean", provenance: bool | None = None
    ) -> None:
        """Write what `to_anndata` returns to an AnnData file, which appears when it is complete."""
        refuse_own_files(self._engine.connections.data_sets(), path)
        adata = self.to_anndata(statistic=statistic, provenance=provenance)
        with output_path(Path(path)) as prepared:
            report = write_anndata(adata, prepared)
        report.warn()


MarkerTest: TypeAlias = Literal["t-test", "wilcoxon"]
"""How groups are compared: by their means, or by the ranks of their values."""

_ELEMENT_BYTES: Final = 24
"""What an element takes while it is ranked."""


def _found(
    request: SliceRequest, what: str
) -> tuple[MatrixAxes, tuple[ConcatenatedAxis, EntryAxis]]:
    """Return what is chosen of the axes of a matrix, and these; its rows are of all data sets.

    Raises
    ------
    InvalidInputError
        The columns are.
    """
    found = matrix_axes(request)
    rows, columns = found.axes
    if isinstance(rows, ConcatenatedAxis):
        return found, (rows, columns)
    raise errors.InvalidInputError(
        f"{request.tables.location}: {what} the entries of all data sets, which are those of axis "
        f"{columns.axis!r}; swap the axes, or in Python pass along={rows.axis!r}"
    )


def prepared_profile(
    request: SliceRequest, statistics: Sequence[str] = STATISTICS
) -> tuple[PreparedProfile, dict[str, Any]]:
    """Choose the rows and columns of a profile, and group the rows; return what was asked as well.

    Parameters
    ----------
    request
        Which rows and columns of which matrix, and what the rows are grouped by.
    statistics
        The columns of numbers of the result, which no group column may be called.

    Raises
    ------
    NotFoundError
        An axis, matrix, column or entry is unknown.
    QueryError
        A predicate or an expression is wrong.
    InvalidInputError
        The rows are not those of one data set after the other; or ``fill_value`` is no number.
    BudgetError
        The result or the download would be larger than ``max_bytes``.
    """
    found, axes = _found(request, "a profile groups")
    rows_axis, columns_axis = request.axes
    fill: object = np.nan if request.fill_value is None else request.fill_value
    if not isinstance(fill, bool | int | float | np.number):
        raise errors.InvalidInputError(f"fill_value={fill!r} is no number")
    rows, columns = found.chosen
    source = AxisRows(request.engine, request.tables, rows_axis)
    values = group_values(source, (columns_axis, *statistics), request.by)
    groups = group_rows(values, rows.selection.positions)
    prepared = PreparedProfile(axes, request.name, columns.selection, groups, float(fill))
    prepared.check_size(request.max_bytes)
    requested = {**_requested("profile", request, found), "by": written_items(request.by)}
    if request.tables.is_collection:
        requested |= {"join": request.join, "along": rows_axis}
    return prepared, requested


def prepared_totals(request: SliceRequest) -> tuple[PreparedTotals, dict[str, Any]]:
    """Choose the rows and columns of totals; return what was asked as well."""
    found, axes = _found(request, "totals are of")
    rows, columns = found.chosen
    prepared = PreparedTotals(axes, request.name, columns.selection, rows.selection)
    prepared.check_size(request.max_bytes)
    return prepared, _requested("totals", request, found)


def _requested(what: str, request: SliceRequest, found: MatrixAxes) -> dict[str, Any]:
    """Return what was asked, for the provenance; warn of what selects nothing."""
    for empty in (each.empty for each in found.chosen if each.empty is not None):
        errors.warn(f"{request.tables.location}: {empty}", errors.DafWarning)
    names = dict(zip(("rows_axis", "columns_axis"), request.axes, strict=True))
    rows, columns = (each.written for each in found.chosen)
    return {what: {"name": request.name, **names}, "rows": rows, "columns": columns}


def marker_rows(  # noqa: PLR0913 - the choices of a test
    request: SliceRequest,
    prepared: PreparedProfile,
    *,
    reference: Any,
    method: MarkerTest,
    is_log1p: bool,
    tie_correct: bool,
    top: int | None,
    memory_bytes: int,
    progress: ShowProgress,
) -> pa.Table:
    """Return how each group differs from the others, or from one; see `DafSession.markers`."""
    content = prepared.compute(progress=progress)
    if is_log1p and content.has_counts():
        errors.warn(
            f"{request.tables.location}: {request.name!r} has whole numbers, as counts are, and "
            "log_fold_change takes them for log1p of counts; pass is_log1p=False for counts",
            errors.DafWarning,
        )
    how: dict[str, Any] = {"is_log1p": is_log1p, "top": top}
    if method == "t-test":
        return marker_table(content, reference, **how)
    options: dict[str, Any] = {"memory_bytes": memory_bytes, "tie_correct": tie_correct}
    with progress_bar("markers", None, show=progress) as bar:
        ranks = partial(_rank_tests, request, prepared, progress=bar, **options)
        return marker_table(content, reference, ranks, **how)


def _rank_tests(
    request: SliceRequest,
    prepared: PreparedProfile,
    comparisons: Sequence[Comparison],
    *,
    progress: Progress,
    memory_bytes: int,
    tie_correct: bool,
) -> list[tuple[AnyArray, AnyArray]]:
    """Return scores and p-values of comparisons by ranks; memory bounds the columns of one read."""
    pairs = [(each.group, each.other_group) for each in comparisons]
    rows, columns = prepared.groups.rows, prepared.columns.positions
    width = max(memory_bytes // max(rows.positions.size * _ELEMENT_BYTES, 1), 1)
    positions, codes = rows.positions, rows.codes.astype(np.intp)
    fill = np.nan if request.fill_value is None else request.fill_value
    found = [np.empty((len(pairs), 2, 0))]
    for start in range(0, columns.size, width):
        check_cancelled()
        chosen = columns[start : start + width]
        block = replace(request, rows=positions, columns=chosen, fill_value=fill, max_bytes=None)
        values = matrix_slice(block).to_scipy().tocsc()
        whole = rank_sums(values, codes, rows.n_groups) if pairs[0][1] is None else None
        tests = []
        for group, other in pairs:
            if whole is not None:
                tests.append(whole.scores(group, tie_correct=tie_correct))
                continue
            both = np.flatnonzero((codes == group) | (codes == other))
            ranks = rank_sums(values[both], (codes[both] != group).astype(np.intp), 2)
            tests.append(ranks.scores(0, tie_correct=tie_correct))
        found.append(np.array(tests))
        progress.add(values.nnz * _ELEMENT_BYTES)
    return [(scores, pvalues) for scores, pvalues in np.concatenate(found, axis=2)]


def group_values(source: AxisRows, others: Sequence[str], by: By) -> list[GroupValues]:
    """Evaluate what the rows of a profile are grouped by; ``others`` are its other columns.

    Raises
    ------
    QueryError, VectorNotFoundError
        An expression is wrong.
    InvalidInputError
        Two columns would have one name.
    """
    groups: dict[str, GroupValues] = {}
    for text in listed_expressions(by, source.vectors):
        expression, called = without_name(text)
        vector = expression.strip()
        vector = vector if vector in source.vectors else unquoted_name(vector)
        is_vector = vector in source.vectors
        name = called or (vector if is_vector else text)
        if name in groups or name in others:
            what = "another group column" if name in groups else "another column"
            raise errors.InvalidInputError(
                f"a group column and {what} of the profile would both be called {name!r}; rename "
                f"the group column: by={f'{expression.strip()} AS group_1'!r}"
            )
        values = _values_of(source, vector if is_vector else expression)
        categories = source.categories(vector) if is_vector else None
        groups[name] = GroupValues(name, values, categories)
    return list(groups.values())


def _values_of(source: AxisRows, expression: str) -> pa.Array:
    """Return the value of each entry of the axis, in its order."""
    by = f"by={expression.strip()!r}"
    try:
        return source.values(expression)
    except errors.DafError as error:
        if "GROUP BY" not in str(error):
            raise errors.with_message(error, f"{by}, on axis {source.axis!r}: {error}") from None
        raise errors.QueryError(
            f"{by} is an aggregate, which has one value for all rows; group "
            "by what each entry has, such as max(age) OVER (PARTITION BY donor)"
        ) from error


Scale: TypeAlias = Literal["none", "column"]
"""Whether colours are means, or where they stand between the least and the greatest of a column."""

_MAX_DOTS: Final = 20_000
_INCHES: Final = 0.32
_LEGEND_INCHES: Final = 1.5
_TITLE_INCHES: Final = 0.06
_LARGEST: Final = 180.0
"""The area of a dot of which all values are not zero."""
_SHOWN_FRACTIONS: Final = np.array([0.2, 0.4, 0.6, 0.8, 1.0])


@dataclass(frozen=True, slots=True)
class ProfilePlots:
    """The plots of a profile; `Profile.plot` is one."""

    content: GroupProfile
    """The groups, the columns and the numbers."""
    entries: Sequence[str]
    """The entries of the columns."""

    def dotplot(
        self,
        columns: Sequence[str] | str | None = None,
        *,
        scale: Scale = "none",
        ax: Any = None,
        cmap: str = "Reds",
    ) -> Any:
        """Draw a dot for each group and column, in their order.

        The size is the fraction of the values that are not zero, the colour their mean.

        Parameters
        ----------
        columns
            Entries of the profile, in the order in which they are drawn, or a single one; by
            default all.
        scale
            ``column`` makes the colours of each column range from 0, its least mean, to 1, its
            greatest.
        ax
            Axes of matplotlib to draw into, without legends; by default those of a new figure.
        cmap
            The colour map of matplotlib.

        Returns
        -------
        matplotlib.axes.Axes
            ``.figure`` is the figure, which has ``savefig``.

        Raises
        ------
        EntryNotFoundError
            The profile has no column of a name.
        InvalidInputError
            There is nothing to draw, or too much.
        MissingDependencyError
            matplotlib is not installed; the message says what to install.
        """
        check_cmap(cmap)
        chosen = self._places(columns)
        means, suffix = self._scaled("mean", chosen, scale)
        fractions = self.content.moments.statistic("fraction")[:, chosen]
        legend = None
        if ax is None:
            width, height = self._inches(chosen, least=7)
            ax, legend = axes_with_legend(
                inches=(width + _LEGEND_INCHES, height), widths=(width, _LEGEND_INCHES)
            )
        y, x = np.mgrid[0 : means.shape[0], 0 : means.shape[1]]
        areas = np.nan_to_num(fractions).ravel() * _LARGEST
        style = {"cmap": cmap, "edgecolors": "0.6", "linewidths": 0.4}
        dots = ax.scatter(x.ravel(), y.ravel(), s=areas, c=means.ravel(), **style)
        self._name(ax, chosen)
        ax.set_xlim(-0.7, means.shape[1] - 0.3)
        ax.set_ylim(means.shape[0] - 0.3, -0.7)
        if legend is not None:
            _add_legend(legend, dots, f"mean{suffix}")
        return ax

    def matrixplot(
        self,
        columns: Sequence[str] | str | None = None,
        *,
        statistic: Statistic = "mean",
        scale: Scale = "none",
        ax: Any = None,
        cmap: str = "viridis",
    ) -> Any:
        """Draw a square for each group and column, whose colour is a statistic.

        Parameters
        ----------
        columns
            Entries of the profile, in the order in which they are drawn, or a single one; by
            default all.
        statistic
            ``mean``, ``fraction`` (of the values that are not zero), ``sum`` and so on.
        scale
            ``column`` makes the colours of each column range from 0, its least, to 1.
        ax
            Axes of matplotlib to draw into; by default those of a new figure.
        cmap
            The colour map of matplotlib.

        Returns
        -------
        matplotlib.axes.Axes
            ``.figure`` is the figure, which has ``savefig``.

        Raises
        ------
        EntryNotFoundError
            The profile has no column of a name.
        InvalidInputError
            There is nothing to draw, or too much; or there is no such statistic.
        MissingDependencyError
            matplotlib is not installed; the message says what to install.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["A", "B", "C"])
        >>> daf.add_axis("gene", ["FOXA1", "WNT6"])
        >>> daf.set_vector("cell", "type", ["T", "B", "T"])
        >>> daf.set_matrix("cell", "gene", "UMIs", [[0, 1], [2, 3], [4, 5]])
        >>> profile = daf_query.connect(daf).profile("cell", "gene", "UMIs", by="type")
        >>> profile.plot.matrixplot().images[0].get_array().tolist()
        [[2.0, 3.0], [2.0, 3.0]]
        """
        check_cmap(cmap)
        chosen = self._places(columns)
        values, suffix = self._scaled(statistic, chosen, scale)
        width, height = self._inches(chosen, least=5)
        ax = axes_for(ax, inches=(width + 1, height))
        picture = ax.imshow(values, cmap=cmap, aspect="auto", interpolation="nearest")
        self._name(ax, chosen)
        bar = ax.figure.colorbar(picture, ax=ax, shrink=0.7)
        bar.set_label(f"{statistic}{suffix}", fontsize="small", **RAW)
        return ax

    def _places(self, columns: Sequence[str] | str | None) -> list[int]:
        """Return where the chosen entries stand among those of the profile."""
        if isinstance(columns, Mapping):
            raise errors.InvalidInputError(
                f"columns= is a list of entries of {self._axes[1]!r}, not a dict; pass those of "
                "all its values as one list"
            )
        place_of = {entry: place for place, entry in enumerate(self.entries)}
        n_groups, listed = self.content.sizes.size, list(place_of if columns is None else columns)
        chosen = [columns] if isinstance(columns, str) else listed
        if not chosen or not n_groups:
            why = f"the profile has no groups, since no {self._axes[0]} was chosen"
            why = why if not n_groups else f"columns= names no {self._axes[1]}"
            raise errors.InvalidInputError(f"there is nothing to draw: {why}")
        for entry in chosen:
            if not isinstance(entry, str):
                raise errors.InvalidInputError(
                    f"columns= is a list of entries of {self._axes[1]!r}, not of {entry!r}"
                )
            if entry not in place_of:
                raise errors.EntryNotFoundError(
                    f"the profile of {len(place_of):,} {self._axes[1]} has none called {entry!r}"
                    f"{errors.nearest(entry, place_of)}"
                )
        if len(chosen) * n_groups > _MAX_DOTS:
            raise errors.InvalidInputError(
                f"{n_groups:,} groups x {len(chosen):,} {self._axes[1]} are more than "
                f"{_MAX_DOTS:,} dots; choose some with columns="
            )
        return [place_of[entry] for entry in chosen]

    @property
    def _axes(self) -> tuple[str, str]:
        return self.content.axis_names

    def _scaled(
        self, statistic: Statistic, chosen: Sequence[int], scale: Scale
    ) -> tuple[npt.NDArray[np.float64], str]:
        """Return a statistic of the chosen columns, and what is said of its range."""
        check_choice(scale, Scale, "scale")
        values = self.content.moments.statistic(statistic)[:, chosen].astype(np.float64)
        return (values, "") if scale == "none" else (_scaled(values), " (0 to 1)")

    def _inches(self, chosen: Sequence[int], *, least: int) -> tuple[float, float]:
        """Return the size of a figure with room for names, and for so many groups at least."""
        columns = [self.entries[place] for place in chosen]
        width = _INCHES * (len(chosen) + 1) + names_inches(self.content.labels())
        title = _TITLE_INCHES * len(self._title())
        height = _INCHES * (max(self.content.sizes.size, least) + 2) + names_inches(columns)
        return max(width, title), height

    def _name(self, ax: Any, chosen: Sequence[int]) -> None:
        write_names(ax.xaxis, [self.entries[place] for place in chosen], rotation=90)
        write_names(ax.yaxis, self.content.labels())
        write_labels(ax, title=self._title())

    def _title(self) -> str:
        return f"{self.content.name} by {', '.join(self.content.groups) or self._axes[0]}"


def _add_legend(legend: Any, dots: Any, title: str) -> None:
    """Draw what sizes and colours mean beside the dots."""
    legend.set_axis_off()
    y = np.arange(_SHOWN_FRACTIONS.size)
    legend.scatter(0 * y, y, s=_SHOWN_FRACTIONS * _LARGEST, c="0.6", linewidths=0)
    for place, fraction in zip(y, _SHOWN_FRACTIONS, strict=True):
        legend.text(0.6, place, f"{fraction:.0%}", va="center", fontsize="small")
    legend.set_title("not zero", fontsize="small")
    legend.set_xlim(-0.7, 2.5)
    legend.set_ylim(len(y) + 4, -0.7)
    place_of_bar = legend.inset_axes((0.05, 0.08, 0.9, 0.06))
    bar = legend.figure.colorbar(dots, cax=place_of_bar, orientation="horizontal")
    bar.set_label(title, fontsize="small")


def _scaled(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return each column between 0, its least, and 1, its greatest; 0 where all are equal.

    >>> _scaled(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    is_missing = np.isnan(values)
    least = np.min(np.where(is_missing, np.inf, values), axis=0)
    greatest = np.max(np.where(is_missing, -np.inf, values), axis=0)
    with np.errstate(all="ignore"):
        between = (values - least) / (greatest - least)
    return np.where(is_missing, np.nan, np.where(greatest > least, between, 0.0))
