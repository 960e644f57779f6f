"""TileDB-SOMA: an experiment made by its own import of h5ad."""

from __future__ import annotations

from typing import Any

from benchmarks._systems._base import Place, System


class Soma(System):
    """An experiment of one measurement."""

    modules = ("tiledbsoma", "tiledbsoma.io", "pandas", "scipy.sparse")
    packages = ("tiledbsoma", "anndata")
    _experiment: Any

    def prepare(self, place: Place) -> None:
        """Import the h5ad file."""
        import tiledbsoma.io

        tiledbsoma.io.from_h5ad(
            str(place.folder / "x.soma"), str(place.source), measurement_name="RNA"
        )

    def open(self, place: Place) -> None:
        """Open the experiment."""
        import tiledbsoma

        self.data = place.data
        self._experiment = tiledbsoma.Experiment.open(str(place.folder / "x.soma"))

    def _matrix(self, **queries: Any) -> Any:
        """Return what a query leaves, as CSR."""
        with self._experiment.axis_query("RNA", **queries) as query:
            return query.to_anndata(X_name="data", column_names={"obs": [], "var": []}).X

    def _coordinates(self, places: Any) -> Any:
        import tiledbsoma

        return tiledbsoma.AxisQuery(coords=(places,))

    def filter_slice(self) -> Any:
        """Return the rows of the cells that the filter leaves."""
        import tiledbsoma

        condition = self.data.filter.replace("=", "==").replace("AND", "and")
        return self._matrix(obs_query=tiledbsoma.AxisQuery(value_filter=condition))

    def gene(self) -> Any:
        """Return a gene of all cells."""
        place = int(self.data.gene.removeprefix("gene_"))
        found = self._matrix(var_query=self._coordinates([place]))
        return found.toarray().ravel()

    def mean_by(self) -> Any:
        """Return counts and means, as pandas."""
        obs = self._experiment.obs.read(column_names=["donor", "score"]).concat().to_pandas()
        groups = obs.groupby("donor", observed=True)["score"].agg(n="count", mean="mean")
        frame = groups.reset_index()
        frame["donor"] = frame["donor"].astype(str)
        return frame

    def scattered(self) -> Any:
        """Return some columns of some rows."""
        cells, genes = self.data.scattered
        return self._matrix(obs_query=self._coordinates(cells), var_query=self._coordinates(genes))

    def many_rows(self) -> Any:
        """Return many rows."""
        return self._matrix(obs_query=self._coordinates(self.data.many))

    def close(self) -> None:
        """Close the experiment."""
        self._experiment.close()
