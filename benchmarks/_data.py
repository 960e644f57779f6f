"""The data sets: matrices and tables of stated sizes out of seeded generators, written once into a folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from benchmarks.matrix_data import Scale, blocks

Order = Literal["random", "clustered"]

BLOCK_ROWS: Final = 1_000_000
ALL_COLUMNS: Final = 30
GROWTH_COLUMNS: Final = 6
"""Of the tables of growing size, so that a hundred million rows fit."""
DONORS: Final = [f"N{number}" for number in range(8)]
TYPES: Final = [f"T{number:02}" for number in range(30)]


@dataclass(frozen=True)
class MatrixData:
    """Cells and genes with counts, as an uncompressed h5ad file in CSR; what is asked of them is chosen by a seed."""

    cells: int
    genes: int
    per_cell: int
    """Stored elements of each cell."""
    order: Order = "random"
    """Whether cells of a donor and type are neighbours."""

    kind = "matrix"
    filter = "age > 60 AND donor = 'N3' AND score > 0.8"

    @property
    def key(self) -> str:
        """The name of its folder."""
        return f"matrix-{self.cells}x{self.genes}x{self.per_cell}-{self.order}"

    @property
    def title(self) -> str:
        """What it is, in words."""
        stored = self.cells * self.per_cell
        return f"{self.cells:,} cells x {self.genes:,} genes, {stored:,} stored, {self.order} order"

    @property
    def gene(self) -> str:
        """The gene that is asked for."""
        return f"gene_{self.genes // 3}"

    @cached_property
    def scattered(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions of up to 1,000 cells and 50 genes, ascending."""
        random = np.random.default_rng(1)
        cells = random.choice(self.cells, min(1_000, self.cells // 10), replace=False)
        genes = random.choice(self.genes, min(50, self.genes // 10), replace=False)
        return np.sort(cells), np.sort(genes)

    @cached_property
    def many(self) -> np.ndarray:
        """Positions of the cells, ascending, that have ten million stored elements, or half of all cells."""
        count = min(10_000_000 // self.per_cell, self.cells // 2)
        return np.sort(np.random.default_rng(2).choice(self.cells, count, replace=False))

    def source(self, folder: Path) -> Path:
        """Where the h5ad file is."""
        return folder / self.key / "source.h5ad"

    def make(self, folder: Path) -> Path:
        """Return the h5ad file, written now if it is not there."""
        return _made_once(self.source(folder), self._write)

    def twin(self) -> MatrixData:
        """Return a tiny data set of the same form, to warm up with."""
        return MatrixData(600, 300, 30, self.order)

    def _write(self, path: Path) -> None:
        import h5py
        import pandas as pd
        from anndata.io import write_elem

        random = np.random.default_rng(0)
        donor, cell_type = random.integers(0, 8, self.cells), random.integers(0, 30, self.cells)
        if self.order == "clustered":
            order = np.lexsort((cell_type, donor))
            donor, cell_type = donor[order], cell_type[order]
        obs = pd.DataFrame(
            {
                "age": random.integers(20, 90, self.cells),
                "donor": pd.Categorical.from_codes(donor, DONORS),
                "score": random.random(self.cells),
                "type": pd.Categorical.from_codes(cell_type, TYPES),
            },
            index=[f"cell_{number}" for number in range(self.cells)],
        )
        var = pd.DataFrame(
            {"is_marker": random.random(self.genes) < 0.05},
            index=[f"gene_{number}" for number in range(self.genes)],
        )
        count = self.cells * self.per_cell
        with h5py.File(path, "w") as file:
            file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
            write_elem(file, "obs", obs)
            write_elem(file, "var", var)
            for name in ("layers", "obsm", "obsp", "uns", "varm", "varp"):
                write_elem(file, name, {})
            matrix = file.create_group("X")
            matrix.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0"})
            matrix.attrs["shape"] = np.array([self.cells, self.genes])
            matrix["indptr"] = np.arange(self.cells + 1, dtype=np.int64) * self.per_cell
            matrix.create_dataset("indices", (count,), np.int32)
            matrix.create_dataset("data", (count,), np.float32)
            start = 0
            for indices, values in self._blocks(random):
                matrix["indices"][start : start + indices.size] = indices
                matrix["data"][start : start + values.size] = values
                start += values.size

    def _blocks(self, random: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the genes and counts of some cells after the other; most counts are small."""
        for indices, quarters in blocks(Scale(self.cells, self.genes, self.per_cell), random):
            yield indices, quarters * 4 - 1


@dataclass(frozen=True)
class TableData:
    """A table with columns of mixed types, as Parquet, and one of its fifty donors."""

    rows: int
    order: Order = "random"
    """Whether rows of a donor are neighbours."""
    columns: int = 30
    """At least six, which are those that are asked for."""

    kind = "table"

    @property
    def key(self) -> str:
        """The name of its folder."""
        few = "" if self.columns == ALL_COLUMNS else f"-{self.columns}"
        return f"table-{self.rows}-{self.order}{few}"

    @property
    def title(self) -> str:
        """What it is, in words."""
        return f"a table of {self.rows:,} rows and {self.columns} columns, {self.order} order"

    @property
    def name(self) -> str:
        """The name that is looked up."""
        return f"cell_{self.rows * 3 // 4}"

    def source(self, folder: Path) -> Path:
        """Where the Parquet files `cell.parquet` and `donor.parquet` are."""
        return folder / self.key / "source"

    def make(self, folder: Path) -> Path:
        """Return the folder of the Parquet files, written now if it is not there."""
        return _made_once(self.source(folder), self._write)

    def twin(self) -> TableData:
        """Return a tiny table of the same form, to warm up with."""
        return TableData(2_000, self.order, self.columns)

    def _write(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        path.mkdir()
        donors = [f"donor{number}" for number in range(50)]
        sex = [["f", "m"][number * 7 % 50 % 2] for number in range(50)]
        pq.write_table(pa.table({"name": donors, "sex": sex}), path / "donor.parquet")
        random = np.random.default_rng(0)
        writer: Any = None
        for start in range(0, self.rows, BLOCK_ROWS):
            table = self._block(start, min(start + BLOCK_ROWS, self.rows), donors, random)
            writer = writer or pq.ParquetWriter(path / "cell.parquet", table.schema)
            writer.write_table(table)
        writer.close()

    def _block(self, start: int, stop: int, donors: list[str], random: np.random.Generator) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        count = stop - start
        position = np.arange(start, stop)

        def strings(codes: np.ndarray, values: list[str]) -> Any:
            dictionary = pa.DictionaryArray.from_arrays(codes.astype("i4"), values)
            return dictionary.cast(pa.string())

        donor = (
            position * 50 // self.rows
            if self.order == "clustered"
            else random.integers(0, 50, count)
        )
        numbers = pa.array(position).cast(pa.string())
        columns: dict[str, Any] = {
            "name": pc.binary_join_element_wise("cell", numbers, "_"),
            "age": random.integers(0, 100, count).astype("u1"),
            "score": random.random(count),
            "donor": strings(donor, donors),
            "batch": (position * 1_000 // self.rows).astype("i4"),
            "small": random.random(count).astype("f4"),
        }
        for number in range(len(columns), self.columns):
            make = _OTHER_COLUMNS[number % len(_OTHER_COLUMNS)]
            values = make(random, count)
            columns[f"column_{number:02}"] = (
                strings(values, [f"value_{value}" for value in range(1_000)])
                if number % len(_OTHER_COLUMNS) == 0
                else values
            )
        return pa.table(columns)


Data = MatrixData | TableData

_OTHER_COLUMNS: Final[list[Any]] = [
    lambda random, count: random.integers(0, 1_000, count),  # becomes strings
    lambda random, count: random.integers(0, 1 << 14, count).astype("i2"),
    lambda random, count: random.random(count),
    lambda random, count: random.random(count) < 0.3,
    lambda random, count: random.integers(0, 1 << 40, count),
    lambda random, count: random.random(count).astype("f4"),
]


def from_json(described: dict[str, Any]) -> Data:
    """Return the data set that `to_json` described."""
    described = dict(described)
    kinds: dict[str, type[Data]] = {"matrix": MatrixData, "table": TableData}
    return kinds[described.pop("kind")](**described)


def to_json(data: Data) -> dict[str, Any]:
    """Return its parameters."""
    return {"kind": data.kind, **asdict(data)}


def _made_once(path: Path, write: Any) -> Path:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.unlink(missing_ok=True)
        write(part)
        part.rename(path)
    return path
