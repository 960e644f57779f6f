"""daf-query: flat, packed, in one file, and on an h5ad file in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from benchmarks._systems._base import Place, SqlSystem

BY_DONOR = "SELECT donor, count(*) AS n, avg(score) AS mean FROM cell GROUP BY donor ORDER BY donor"


class Flat(SqlSystem):
    """A directory of uncompressed arrays, which are mapped."""

    modules = ("daf_query", "daf_storage", "daf_storage.h5ad")
    packages = ("daf-query", "datafusion", "pyarrow", "numpy")
    file_name: ClassVar[str] = "x.daf.zarr"
    _session: Any = None

    def prepare(self, place: Place) -> None:
        """Import the h5ad file, or the columns of the Parquet files."""
        import daf_storage

        path = place.folder / self.file_name
        if place.data.kind == "matrix":
            daf_storage.import_h5ad(
                place.source,
                path,
                obs_is="cell",
                var_is="gene",
                **self.options(place),
                progress="never",
            )
        else:
            with daf_storage.open_daf(path, "w", **self.options(place)) as destination:
                _import_parquet(place.source, destination)

    def options(self, place: Place) -> dict[str, Any]:
        """Return how it is written."""
        del place
        return {}

    def open(self, place: Place) -> None:
        """Connect."""
        import daf_query

        self.data = place.data
        self._session = daf_query.connect(place.folder / self.file_name)

    def sql(self, query: str) -> Any:
        """Return the rows."""
        return self._session.sql(query).to_arrow_table()

    def filter_slice(self) -> Any:
        """Return the rows of the cells that the filter leaves."""
        return self._session.matrix("cell", "gene", "X", rows=self.data.filter).to_scipy()

    def gene(self) -> Any:
        """Return a gene of all cells."""
        return self._session.matrix("cell", "gene", "X", columns=[self.data.gene]).to_numpy()[:, 0]

    def mean_by(self) -> Any:
        """Return counts and means, as pandas."""
        return self._session.sql(BY_DONOR).to_pandas()

    def scattered(self) -> Any:
        """Return some columns of some rows."""
        cells, genes = self.data.scattered
        return self._session.matrix("cell", "gene", "X", rows=cells, columns=genes).to_scipy()

    def many_rows(self) -> Any:
        """Return many rows."""
        return self._session.matrix("cell", "gene", "X", rows=self.data.many).to_scipy()

    def close(self) -> None:
        """Close the session."""
        self._session.close()


class Packed(Flat):
    """The same, compressed in small chunks: of a matrix the counts as integers, in both layouts."""

    def options(self, place: Place) -> dict[str, Any]:
        """Return what is smallest and still fast."""
        import daf_storage

        if place.data.kind != "matrix":
            return {"packed": True}
        small = daf_storage.Packing("blosc-zstd-shuffle", level=8, chunk_kb=128)
        return {"packed": small, "counts_as": "uint16"}

    def filter_slice(self) -> Any:
        """Return the rows as floats, which others have."""
        return super().filter_slice().astype("f4")

    def gene(self) -> Any:
        """Return a gene as floats."""
        return super().gene().astype("f4")

    def scattered(self) -> Any:
        """Return some columns of some rows as floats."""
        return super().scattered().astype("f4")

    def many_rows(self) -> Any:
        """Return many rows as floats."""
        return super().many_rows().astype("f4")


class Indexed(Flat):
    """The same, with indexes of the names and of the donors."""

    def prepare(self, place: Place) -> None:
        """Import, and index."""
        import daf_query

        super().prepare(place)
        with daf_query.connect(place.folder / self.file_name, mode="r+") as session:
            session.build_index("cell", ["name", "donor"])


class Archive(Flat):
    """The same in one ZIP file, which is mapped."""

    file_name = "x.daf.zarr.zip"


class InPlace(Flat):
    """The h5ad file itself."""

    in_place = True

    def open(self, place: Place) -> None:
        """Attach the file."""
        import daf_query

        self.data = place.data
        self._session = daf_query.connect(place.source, obs_is="cell", var_is="gene")


def _import_parquet(source: Path, destination: Any) -> None:
    import pyarrow.parquet as pq

    for axis in ("donor", "cell"):
        file = pq.ParquetFile(source / f"{axis}.parquet")
        for name in file.schema_arrow.names:
            values = file.read(columns=[name]).column(0)
            if name == "name":
                destination.add_axis(axis, values)
            else:
                destination.set_vector(axis, name, values)
