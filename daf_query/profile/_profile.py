"""Profiles: a query result, an AnnData of groups x columns, markers, and plots with matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._formats import PROFILE_FORMATS
from daf_query._provenance import KEY, as_json, refuse_own_files
from daf_query._row_files import Format, format_of
from daf_query.moments import LAYERS, GroupProfile, Statistic
from daf_query.plot import (
    RAW,
    axes_for,
    axes_with_legend,
    check_cmap,
    names_inches,
    write_labels,
    write_names,
)
from daf_query.slice import Whole, axis_table, with_used_categories
from daf_query.sql import Engine, TableResult, pandas_frame, rows_page
from daf_storage import ShowProgress, errors
from daf_storage.anndata import write_anndata
from daf_storage.base import check_choice, optional_import
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

    def __init__(
        self, engine: Engine, whole: Whole, content: GroupProfile, requested: Mapping[str, Any]
    ) -> None:
        title = f"the profile of {content.name!r} over {' x '.join(content.axis_names)}"
        super().__init__(engine, content.to_table(), title, requested)
        self._whole = whole
        self.content = content
        """The groups, the columns and the numbers as arrays."""

    def _page(self, rows: pa.Table) -> str:
        content = self.content
        groups, columns = content.sizes.size, len(content.entries)
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
    def plot(self) -> ProfilePlots:
        """Plots; they need the extra ``plot``."""
        return ProfilePlots(self.content)

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
            The matrix or one of its axes was replaced or reordered since the profile was made.
        """
        anndata = optional_import("anndata", extra="anndata")
        moments, groups = self.content.moments, self.content.groups
        values = moments.statistic(statistic).copy()
        with self._whole.unchanged_axes():
            var, uns = axis_table(self._whole, 1)
        if not self._whole.selections[1].is_all:
            var, uns = with_used_categories(var, uns)
        layers = {name: moments.statistic(name) for name in LAYERS}
        obs = pandas_frame(pa.table({**groups, "count": pa.array(self.content.sizes)}))
        obs.index = self.content.labels()
        adata = anndata.AnnData(X=values, obs=obs, var=var, layers=layers, uns=uns)
        if self.is_described(provenance):
            adata.uns[KEY] = as_json(self.provenance())
        return adata

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
        names, chosen = self._chosen(columns)
        means, suffix = self._scaled("mean", chosen, scale)
        fractions = self.content.moments.statistic("fraction")[:, chosen]
        legend = None
        if ax is None:
            width, height = self._inches(names, least=7)
            ax, legend = axes_with_legend(
                inches=(width + _LEGEND_INCHES, height), widths=(width, _LEGEND_INCHES)
            )
        y, x = np.mgrid[0 : means.shape[0], 0 : means.shape[1]]
        areas = np.nan_to_num(fractions).ravel() * _LARGEST
        style = {"cmap": cmap, "edgecolors": "0.6", "linewidths": 0.4}
        dots = ax.scatter(x.ravel(), y.ravel(), s=areas, c=means.ravel(), **style)
        self._name(ax, names)
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
        names, chosen = self._chosen(columns)
        values, suffix = self._scaled(statistic, chosen, scale)
        width, height = self._inches(names, least=5)
        ax = axes_for(ax, inches=(width + 1, height))
        picture = ax.imshow(values, cmap=cmap, aspect="auto", interpolation="nearest")
        self._name(ax, names)
        bar = ax.figure.colorbar(picture, ax=ax, shrink=0.7)
        bar.set_label(f"{statistic}{suffix}", fontsize="small", **RAW)
        return ax

    def _chosen(self, columns: Sequence[str] | str | None) -> tuple[list[str], list[int]]:
        """Return the chosen entries, and where they stand among those of the profile."""
        rows_axis, columns_axis = self.content.axis_names
        if isinstance(columns, Mapping):
            raise errors.InvalidInputError(
                f"columns= is a list of entries of {columns_axis!r}, not a dict; pass those of "
                "all its values as one list"
            )
        place_of = {entry: place for place, entry in enumerate(self.content.entries.to_pylist())}
        n_groups, listed = self.content.sizes.size, list(place_of if columns is None else columns)
        chosen = [columns] if isinstance(columns, str) else listed
        if not chosen or not n_groups:
            why = f"the profile has no groups, since no {rows_axis} was chosen"
            why = why if not n_groups else f"columns= names no {columns_axis}"
            raise errors.InvalidInputError(f"there is nothing to draw: {why}")
        for entry in chosen:
            if not isinstance(entry, str):
                raise errors.InvalidInputError(
                    f"columns= is a list of entries of {columns_axis!r}, not of {entry!r}"
                )
            if entry not in place_of:
                raise errors.EntryNotFoundError(
                    f"the profile of {len(place_of):,} {columns_axis} has none called {entry!r}"
                    f"{errors.nearest(entry, place_of)}"
                )
        if len(chosen) * n_groups > _MAX_DOTS:
            raise errors.InvalidInputError(
                f"{n_groups:,} groups x {len(chosen):,} {columns_axis} are more than "
                f"{_MAX_DOTS:,} dots; choose some with columns="
            )
        return chosen, [place_of[entry] for entry in chosen]

    def _scaled(
        self, statistic: Statistic, chosen: Sequence[int], scale: Scale
    ) -> tuple[npt.NDArray[np.float64], str]:
        """Return a statistic of the chosen columns, and what is said of its range."""
        check_choice(scale, Scale, "scale")
        values = self.content.moments.statistic(statistic)[:, chosen].astype(np.float64)
        return (values, "") if scale == "none" else (_scaled(values), " (0 to 1)")

    def _inches(self, names: Sequence[str], *, least: int) -> tuple[float, float]:
        """Return the size of a figure with room for names, and for so many groups at least."""
        width = _INCHES * (len(names) + 1) + names_inches(self.content.labels())
        title = _TITLE_INCHES * len(self._title())
        height = _INCHES * (max(self.content.sizes.size, least) + 2) + names_inches(names)
        return max(width, title), height

    def _name(self, ax: Any, names: Sequence[str]) -> None:
        write_names(ax.xaxis, names, rotation=90)
        write_names(ax.yaxis, self.content.labels())
        write_labels(ax, title=self._title())

    def _title(self) -> str:
        return (
            f"{self.content.name} by {', '.join(self.content.groups) or self.content.axis_names[0]}"
        )


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
    least, greatest = np.fmin.reduce(values), np.fmax.reduce(values)
    with np.errstate(all="ignore"):
        between = (values - least) / (greatest - least)
    scaled: npt.NDArray[np.float64] = np.where(greatest == least, values - least, between)
    return scaled
