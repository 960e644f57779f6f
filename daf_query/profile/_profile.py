"""Profiles: a query result, an AnnData of groups x columns, and plots."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy.typing as npt
import pyarrow as pa

from daf_query._provenance import KEY, as_json, refuse_own_files
from daf_query._row_files import Format
from daf_query.matrix import AlignedAxis
from daf_query.moments import LAYERS, GroupProfile, Statistic
from daf_query.profile._plot import ProfilePlots
from daf_query.scan import NAME
from daf_query.slice import aligned_axis_frame
from daf_query.sql import Engine, TableResult, pandas_frame, rows_page
from daf_storage import ShowProgress, errors
from daf_storage.anndata import axis_frame, write_anndata
from daf_storage.base import optional_import
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
        self._content = content

    def _page(self, rows: pa.Table) -> str:
        content = self._content
        groups, columns = content.sizes.size, content.columns.positions.size
        title = (
            f"profile of {content.name} over {' x '.join(content.axis_names)}: "
            f"{groups:,} groups x {columns:,} {content.axis_names[1]}"
        )
        return rows_page(rows, self.count(), title=title)

    @property
    def content(self) -> GroupProfile:
        """The groups, the columns and the numbers as arrays."""
        return self._content

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
        return self._content.moments.statistic(statistic)

    @property
    def column_entries(self) -> pa.Array:
        """The entries of the columns axis, as they were when the profile was made."""
        count = self._content.columns.positions.size
        return self._table.column(self._content.axis_names[1]).slice(0, count).combine_chunks()

    @property
    def plot(self) -> ProfilePlots:
        """Plots; they need the extra ``plot``."""
        return ProfilePlots(self._content, self.column_entries.to_pylist())

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
        moments, groups = self._content.moments, self._content.groups
        values = moments.statistic(statistic).copy()
        self._check_columns()
        var, uns = self._columns_frame()
        self._check_columns()
        layers = {name: moments.statistic(name) for name in LAYERS}
        obs = pandas_frame(pa.table({**groups, "count": pa.array(self._content.sizes)}))
        obs.index = self._content.labels()
        adata = anndata.AnnData(X=values, obs=obs, var=var, layers=layers, uns=uns)
        if self.is_described(provenance):
            adata.uns[KEY] = as_json(self.provenance())
        return adata

    def _columns_frame(self) -> tuple[Any, dict[str, Any]]:
        """Return the vectors of the columns, and the colours of their categoricals."""
        axis, positions = self._content.axes[1], self._content.columns.positions
        if isinstance(axis, AlignedAxis):
            return aligned_axis_frame(axis, positions)
        [daf] = axis.members.values()
        return axis_frame(daf, axis.axis, positions, unreadable="warn")

    def _check_columns(self) -> None:
        """Refuse vectors of other entries than those that the columns had."""
        content, axis = self._content, self._content.axes[1]
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
        if format == H5AD or (format is None and Path(path).suffix == f".{H5AD}"):
            self.save_h5ad(path, provenance=provenance)
            return self.count()
        return super().save(path, format=format, progress=progress, provenance=provenance)

    def save_h5ad(
        self, path: str | Path, *, statistic: Statistic = "mean", provenance: bool | None = None
    ) -> None:
        """Write what `to_anndata` returns to an AnnData file, which appears when it is complete."""
        refuse_own_files(self._engine.connections.data_sets(), path)
        adata = self.to_anndata(statistic=statistic, provenance=provenance)
        with output_path(Path(path)) as prepared:
            report = write_anndata(adata, prepared)
        report.warn()
