"""The part of a session that makes data sets fast which are read in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from daf_query.index import accelerated
from daf_query.session._connected import Connected
from daf_query.slice import ByteSize, byte_count
from daf_storage import ShowProgress, SidecarStatus, remove_sidecar


class Acceleration(Connected):
    """The part of a session that writes and removes sidecars."""

    def accelerate(
        self,
        matrices: str | Sequence[str] = (),
        *,
        indexes: Mapping[str, Sequence[str] | None] | None = None,
        path: str | Path | None = None,
        max_bytes: ByteSize | None = None,
        schema: str | None = None,
        progress: ShowProgress = "auto",
    ) -> SidecarStatus:
        """Write a sidecar beside an AnnData that is read in place; what it has is used at once.

        It has the layout of each matrix that the file lacks, so that one gene is no longer a pass
        over a file that is stored by cells; columns that take long to decode; and indexes.  It is
        used whenever the file is opened, as long as that is unchanged.

        Parameters
        ----------
        matrices
            Names of matrices of two axes.
        indexes
            Vectors whose rows are to be found by value, by axis: ``{"obs": ["barcode"]}``;
            None for the entries, and for vectors of strings with many different values.
        path
            Where to write it, a name that ends in ``.daf.zarr``; by default beside the file.
            ``open_daf(file, sidecar=path)`` finds one elsewhere.
        max_bytes
            How large it may become.
        schema
            Which data set, where several are connected.
        progress
            Whether to show a bar on stderr.

        Returns
        -------
        SidecarStatus
            What the sidecar has.

        Raises
        ------
        InvalidInputError
            The data set is not one that is read in place.
        NotFoundError
            There is no such matrix, axis or vector.
        BudgetError
            It would be larger than ``max_bytes``.

        Examples
        --------
        >>> import tempfile, anndata, numpy as np, scipy.sparse as sp
        >>> from daf_query import connect
        >>> path = f"{tempfile.mkdtemp()}/atlas.h5ad"
        >>> anndata.AnnData(sp.csr_matrix(np.eye(3, dtype="f4"))).write_h5ad(path)
        >>> db = connect(path)
        >>> db.accelerate("X").properties
        ('axes/obs', 'axes/var', 'matrices/obs/var/X')
        >>> db.remove_sidecar()
        True
        """
        daf = self._connections.reader(self._connections.schema(schema).name)
        return accelerated(
            daf,
            matrices,
            indexes=indexes,
            path=None if path is None else str(path),
            max_bytes=None if max_bytes is None else byte_count(max_bytes, keyword="max_bytes"),
            progress=progress,
        )

    def remove_sidecar(self, *, schema: str | None = None) -> bool:
        """Delete the sidecar of a data set; return whether there was one.

        Parameters
        ----------
        schema
            Which data set, where several are connected.

        Raises
        ------
        InvalidInputError
            The data set is not one that is read in place.
        """
        return remove_sidecar(self._connections.reader(self._connections.schema(schema).name))
