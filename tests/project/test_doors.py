"""Tests of what each door imports: who asks for the version waits for no library.

Nothing is timed here: `benchmarks/doors.py` prints the seconds.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import daf_query
import daf_storage
import daf_storage.spi
from daf_query.cli import main
from daf_query.moments import Statistic
from daf_storage import CodecName, DafWriter, MemoryDaf, ZarrDaf, copy_all

ROOT = Path(__file__).parents[2]

EXTRAS = (
    "IPython",
    "anndata",
    "duckdb",
    "h5py",
    "hdf5plugin",
    "matplotlib",
    "obstore",
    "polars",
    "tqdm",
)
LIBRARIES = ("datafusion", "numcodecs", "pandas", "scipy", "zarr")
ARROW = ("pyarrow.compute", "pyarrow.csv", "pyarrow.dataset", "pyarrow.parquet")
BASE = ("numpy", "pyarrow")

NOTHING = (*EXTRAS, *LIBRARIES, *ARROW, *BASE)
NO_QUERY = (*EXTRAS, *LIBRARIES, *ARROW)
NO_SLICE = (*EXTRAS, "numcodecs", "scipy", "zarr", "pyarrow.csv", "pyarrow.parquet")
"""What DataFusion imports, pandas too, is there as soon as a session is."""


def _command(*arguments: str) -> str:
    return f"""
from daf_query.cli import main
try:
    main({list(arguments)!r})
except SystemExit:
    pass
"""


DOORS = {
    "daf --version": (_command("--version"), NOTHING),
    "daf --help": (_command("--help"), NOTHING),
    "daf sql --help": (_command("sql", "--help"), NOTHING),
    "daf info": (_command("info", "tiny.daf.zarr"), NO_QUERY),
    "import daf_storage": ("import daf_storage", NOTHING),
    "import daf_query": ("import daf_query", NOTHING),
    "a vector": (
        "import daf_storage; daf_storage.open_daf('tiny.daf.zarr').get_np_vector('cell', 'age')",
        NO_QUERY,
    ),
    "sql": (
        "import daf_query; daf_query.connect('tiny.daf.zarr').sql('SELECT age FROM cell').to_pydict()",
        NO_SLICE,
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small data set."""
    path = tmp_path_factory.mktemp("doors")
    daf = MemoryDaf()
    daf.add_axis("cell", ["a", "b", "c"], vectors={"age": [1, 2, 3]})
    daf.set_scalar("organism", "human")
    daf.set_vector("cell", "type", ["T", "B", "T"])
    with ZarrDaf(path / "tiny.daf.zarr", "w") as written:
        assert isinstance(written, DafWriter)
        copy_all(daf, written)
    return path


@pytest.mark.sampled(4)
@pytest.mark.parametrize("door", DOORS)
def test_a_door_does_not_import_what_it_does_not_need(door: str, folder: Path) -> None:
    """In a fresh interpreter; the list of each door names what must stay out."""
    script, unwanted = DOORS[door]
    script += "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True
    )
    loaded = json.loads(done.stderr)
    assert "daf_storage" in loaded
    assert [name for name in unwanted if name in loaded] == []


def test_the_parser_offers_what_the_commands_know(capsys: pytest.CaptureFixture[str]) -> None:
    """It has lists of its own, since the modules that define the formats are expensive."""
    for command, available in (("convert", CodecName), ("save-matrix", Statistic)):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"{{{','.join(get_args(available))}}}" in capsys.readouterr().out.replace("\n", "")


def _lazy_doors() -> Iterator[Path]:
    for package in ("daf_query", "daf_storage"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "_ = lazy_names(" in path.read_text():
                yield path


def _imports_for_types(tree: ast.Module) -> dict[str, set[str]]:
    """Return the names that a module imports from each module below TYPE_CHECKING."""
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    statements = [node for node in ast.walk(blocks[0]) if isinstance(node, ast.ImportFrom)]
    found: dict[str, set[str]] = defaultdict(set)
    for node in statements:
        found[node.module or ""] |= {alias.name for alias in node.names}
    return found


def _table(tree: ast.Module) -> dict[str, set[str]]:
    """Return the names that a door takes from each module."""
    (call,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "lazy_names"
    )
    return {module: set(names) for module, names in ast.literal_eval(call.args[1]).items()}


@pytest.mark.parametrize("path", [*_lazy_doors()], ids=lambda path: str(path.relative_to(ROOT)))
def test_types_and_programs_find_the_same_names_behind_a_door(path: Path) -> None:
    """What a type checker reads is what is imported."""
    tree = ast.parse(path.read_text())
    assert _table(tree) == _imports_for_types(tree)


@pytest.mark.parametrize("door", [daf_storage, daf_query, daf_storage.spi])
def test_every_name_can_be_taken_from_a_door(door: object) -> None:
    """Each that is exported is there, and listed by ``dir``, with no others."""
    names = door.__all__  # type: ignore[attr-defined]  # a module has it
    assert set(names) == {name for name in dir(door) if not name.startswith("__")}
    assert all(getattr(door, name) is not None for name in names)


def test_a_door_names_itself_when_there_is_no_such_name() -> None:
    """Like any module."""
    with pytest.raises(AttributeError, match="module 'daf_storage' has no attribute 'open_dat'"):
        daf_storage.open_dat  # type: ignore[attr-defined]  # noqa: B018 - that is the mistake
