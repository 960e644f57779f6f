"""homeobox: an atlas of LanceDB tables and Zarr arrays."""

from __future__ import annotations

from typing import Any

from benchmarks._systems._base import Place, System

SPACE = "gene_expression"


class Homeobox(System):
    """An atlas with one data set, of which a snapshot is open."""

    modules = ("homeobox", "anndata", "polars", "pandas", "scipy.sparse")
    packages = ("homeobox", "lancedb", "zarr", "anndata")
    _atlas: Any
    _uids: dict[str, str]

    def prepare(self, place: Place) -> None:
        """Ingest the AnnData, optimize, and take a snapshot."""
        import anndata
        import homeobox as hox
        import numpy as np
        import pandas as pd
        import polars as pl

        feature, cell = _schemas()
        atlas = hox.create_or_open_atlas(
            atlas_path=str(place.folder / "atlas"),
            obs_schemas={"cells": cell},
            dataset_table_name="datasets",
            dataset_schema=hox.DatasetSchema,
            registry_schemas={SPACE: feature},
        )
        adata = anndata.read_h5ad(place.source)
        adata.X = adata.X.astype(np.uint32)  # its layer of counts has only these
        adata.obs["place"] = np.arange(adata.n_obs)
        for name in ("donor", "type"):
            adata.obs[name] = adata.obs[name].astype(str)
        var = pd.DataFrame({"gene_symbol": adata.var_names.tolist()}, index=adata.var_names)
        feature.compute_stable_uids(var)
        atlas.register_features(SPACE, pl.from_pandas(var))
        adata.var = var
        record = hox.DatasetSchema(zarr_group="data", feature_space=SPACE, n_rows=adata.n_obs)
        hox.add_from_anndata(
            atlas, adata, field_name=SPACE, zarr_layer="counts", dataset_record=record
        )
        atlas.optimize()
        atlas.snapshot()

    def open(self, place: Place) -> None:
        """Check the newest snapshot out."""
        import homeobox as hox

        _schemas()
        self.data = place.data
        self._atlas = hox.RaggedAtlas.checkout_latest(str(place.folder / "atlas"))
        registry = self._atlas.feature_registry(SPACE)
        self._uids = dict(zip(registry["gene_symbol"], registry["uid"], strict=True))

    def _matrix(self, query: Any, genes: list[str] | None = None) -> Any:
        """Return rows in the order of the axis, and columns in that of the genes."""
        import numpy as np
        import scipy.sparse as sp

        names = genes or [f"gene_{number}" for number in range(self.data.genes)]
        if genes:
            query = query.features([self._uids[name] for name in genes], SPACE)
        adata = query.select(["place"]).to_anndata()
        rows = np.argsort(adata.obs["place"].to_numpy(), kind="stable")
        columns = adata.var_names.get_indexer([self._uids[name] for name in names])
        if (columns < 0).any():
            columns = adata.var["gene_symbol"].to_frame().reset_index(drop=True)
            columns = columns.reset_index().set_index("gene_symbol")["index"][names].to_numpy()
        matrix = sp.csr_matrix(adata.X)
        if (np.diff(rows) != 1).any():
            matrix = matrix[rows]
        if (np.diff(columns) != 1).any() or columns.size != matrix.shape[1]:
            matrix = matrix[:, columns]
        return matrix.astype(np.float32)

    def filter_slice(self) -> Any:
        """Return the rows of the cells that the filter leaves."""
        return self._matrix(self._atlas.query().where(self.data.filter))

    def gene(self) -> Any:
        """Return a gene of all cells."""
        return self._matrix(self._atlas.query(), [self.data.gene]).toarray().ravel()

    def mean_by(self) -> Any:
        """Return counts and means, as pandas."""
        import polars as pl

        obs = self._atlas.query().select(["donor", "score"]).to_polars()
        groups = obs.group_by("donor").agg(n=pl.len(), mean=pl.col("score").mean()).sort("donor")
        return groups.to_pandas()

    def scattered(self) -> Any:
        """Return some columns of some rows."""
        cells, genes = self.data.scattered
        rows = self._atlas.query().where(f"place IN ({', '.join(map(str, cells))})")
        return self._matrix(rows, [f"gene_{gene}" for gene in genes])

    def close(self) -> None:
        """Forget the atlas."""
        del self._atlas


def _schemas() -> tuple[Any, Any]:
    """Return the classes of features and cells."""
    import homeobox as hox

    feature = type(
        "GeneFeature",
        (hox.FeatureBaseSchema,),
        {
            "__annotations__": {"gene_symbol": str},
            "__module__": __name__,
            "gene_symbol": hox.StableUIDField.declare(default=...),
        },
    )
    cell = type(
        "CellSchema",
        (hox.HoxBaseSchema,),
        {
            "__annotations__": {
                "place": int,
                "age": int,
                "donor": str,
                "score": float,
                "type": str,
                SPACE: hox.SparseZarrPointer | None,
            },
            "__module__": __name__,
            SPACE: hox.PointerField.declare(feature_space=SPACE),
        },
    )
    return feature, cell
