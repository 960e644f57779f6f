"""Writes h5ad files on a disk whose n-th write fails; started by `test_h5ad`, since that preloads.

Prints, for each n, whether the file was right, refused (and is not there), or anything else.
"""

from __future__ import annotations

import errno
import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import scipy.sparse as sp

from daf_query import connect
from daf_storage import DafWriter, MemoryDaf, errors, export_h5ad, to_anndata
from tests.faulty_disk import FOR_EVER, faults, in_child

_OUTCOMES = ("right", "refused", "refused badly", "wrong")
N_CELLS, N_GENES = 300, 40


def sample() -> DafWriter:
    """Return a data set of text, numbers, and sparse and dense matrices."""
    random = np.random.default_rng(1)
    daf = MemoryDaf()
    text = [f"kind {i % 7}" for i in range(N_CELLS)]
    daf.add_axis(
        "obs", [f"c{i}" for i in range(N_CELLS)], vectors={"n": np.arange(N_CELLS), "t": text}
    )
    daf.add_axis("var", [f"g{i}" for i in range(N_GENES)])
    counts = random.poisson(0.4, (N_CELLS, N_GENES)).astype("f4")
    daf.set_matrix("obs", "var", "X", sp.csc_array(counts))
    daf.set_matrix("obs", "var", "dense", counts / 2)
    daf.set_scalar("organism", "human")
    return daf


def _is_right(path: Path, expected: Any) -> bool:
    found = anndata.read_h5ad(path)
    frames = found.obs.equals(expected.obs) and list(found.var_names) == list(expected.var_names)
    matrices = [(found.X, expected.X)] + [
        (found.layers[k], expected.layers[k]) for k in expected.layers
    ]
    return frames and all(np.array_equal(_dense(one), _dense(other)) for one, other in matrices)


def _dense(matrix: Any) -> Any:
    return matrix.toarray() if sp.issparse(matrix) else matrix


def _outcome(write: Callable[[Path], Any], path: Path, expected: Any, first: int, last: int) -> int:
    try:
        with faults(path.parent, first, last, errno.ENOSPC):
            write(path)
    except errors.StorageFullError as error:
        is_ours = str(error).startswith(str(path)) and not path.exists()
        return _OUTCOMES.index("refused" if is_ours else "refused badly")
    return _OUTCOMES.index("right" if _is_right(path, expected) else "wrong")


def main(folder: Path, every: int) -> None:
    """Let each of the writes fail, once or for ever."""
    warnings.simplefilter("ignore")
    daf = sample()
    path = folder / "x.h5ad"
    with connect(daf) as session:
        part = session.matrix("obs", "var", "X", rows="n >= 0")
        whole: dict[str, tuple[Callable[[Path], Any], Any]] = {
            "export": (lambda where: export_h5ad(daf, where, progress="never"), to_anndata(daf)),
            "slice": (part.save, part.to_anndata()),
        }
        for name, (write, expected) in whole.items():
            path.unlink(missing_ok=True)
            with faults(folder, FOR_EVER, FOR_EVER, 0) as count:
                write(path)
                most = count()
            outcomes = {}
            for last in (0, FOR_EVER):
                for first in range(1, most + 1, every):
                    path.unlink(missing_ok=True)
                    attempt = partial(_outcome, write, path, expected, first, last or first)
                    status = in_child(attempt)
                    is_known = status in map(str, range(len(_OUTCOMES)))
                    outcome = _OUTCOMES[int(status)] if is_known else status
                    outcomes[f"{first}-{last or first}"] = outcome
            sys.stdout.write(json.dumps({name: outcomes}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
