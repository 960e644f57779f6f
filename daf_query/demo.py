"""The demonstration: ask a real h5ad file, import it, ask more, extract a slice, plot.

The data are the 700 blood cells that scanpy ships, from the installed package; nothing is
downloaded.
"""

from __future__ import annotations

import filecmp
import importlib.util
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from daf_query.session import connect
from daf_storage import errors
from daf_storage.base import install_command, optional_import

_FILE = "10x_pbmc68k_reduced.h5ad"

_BY_PHASE = """SELECT phase, count(*) AS cells, round(avg(n_genes)) AS genes
FROM obs GROUP BY phase ORDER BY cells DESC"""

_BY_TYPE = """SELECT bulk_labels AS type, count(*) AS cells, round(avg(n_genes)) AS genes_per_cell
FROM cell GROUP BY type ORDER BY cells DESC"""

_JOINED = """SELECT cell.name, cell.n_genes, louvain.name AS cluster, louvain.color
FROM cell JOIN louvain ON cell.louvain = louvain.name
WHERE cell.bulk_labels = 'CD34+' AND cell.phase <> 'G1' ORDER BY n_genes DESC LIMIT 5"""

Command = Callable[[Sequence[str]], int]


def find_pbmc() -> Path:
    """Return the path of the PBMC data set in the installed scanpy, which is not imported.

    Raises
    ------
    MissingDependencyError
        scanpy is not installed.
    """
    scanpy = importlib.util.find_spec("scanpy")
    for folder in (scanpy.submodule_search_locations or []) if scanpy else []:
        path = Path(folder) / "datasets" / _FILE
        if path.exists():
            return path
    raise errors.MissingDependencyError(
        f"the demonstration needs the data set {_FILE} that scanpy ships; "
        f"install it with: {install_command('demo')}"
    )


def run_demo(target: Path, command: Command) -> None:
    """Run the demonstration, typing each command as a person would.

    Parameters
    ----------
    target
        The folder for the results, created if missing; or the data set to make, whose folder the
        other results go to.
    command
        Runs the arguments of one ``daf`` command and returns its exit code.
    """
    is_data = target.name.endswith((".daf.zarr", ".daf.zarr.zip"))
    folder = target.parent if is_data else target
    data = target if is_data else folder / "pbmc.daf.zarr"
    source, part, picture = (folder / name for name in ("pbmc.h5ad", "dendritic.h5ad", "umap.png"))
    folder.mkdir(parents=True, exist_ok=True)
    _copy_data(source)
    steps = [
        ("1. Ask an h5ad file as it is.", ["sql", str(source), _BY_PHASE]),
        (
            "2. Import it. Matrices are streamed, and stored by cell and by gene.",
            [
                *("import", str(source), str(data)),
                *("--obs-is", "cell", "--var-is", "gene", "--overwrite"),
            ],
        ),
        ("3. What is in it? Only metadata is read.", ["info", str(data)]),
        ("4. Ask about the cells, in SQL.", ["sql", str(data), _BY_TYPE]),
        ("5. Join two axes: the cells and their clusters.", ["sql", str(data), _JOINED]),
        (
            "6. Take just a slice of the matrix: dendritic cells, variable genes.",
            [
                *("extract", str(data), "--matrix", "X", "--rows", "bulk_labels = 'Dendritic'"),
                *("--columns", "highly_variable", "-o", str(part)),
            ],
        ),
    ]
    for title, arguments in steps:
        typed = " ".join(f'"{word}"' if "'" in word else shlex.quote(word) for word in arguments)
        print(f"\n# {title}\n$ daf {typed}")
        if command(arguments) != 0:
            raise errors.DafError("the demonstration stopped here; see the error above")
    print(f"\n# 7. The same from Python, and a picture.\n{_PYTHON.format(path=data)}")
    optional_import("matplotlib", extra="plot")
    with connect(data) as session:
        axes = session.plot.embedding("X_umap", "bulk_labels")
        axes.figure.savefig(picture, dpi=150, bbox_inches="tight")
    print(f"wrote {picture}")
    print(f"\n# 8. Look at them in the browser.\n$ daf explore {data} --color bulk_labels")


def _copy_data(path: Path) -> None:
    """Copy the data set, unless it is there; another file of that name is not replaced."""
    pbmc = find_pbmc()
    if not path.exists():
        shutil.copyfile(pbmc, path)
    elif not filecmp.cmp(pbmc, path, shallow=False):
        raise errors.ExistsError(
            f"{path} is not the file of the demonstration; name another folder: daf demo FOLDER"
        )


_PYTHON = """>>> db = daf_query.connect("{path}")
>>> db.plot.embedding("X_umap", "bulk_labels").figure.savefig("umap.png")"""
