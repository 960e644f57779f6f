"""Print what it costs to come in: CPU seconds and imported libraries of each door.

    python benchmarks/doors.py            the shortest of five runs of each
    python benchmarks/doors.py --small    one run of each

The seconds are those of a fresh interpreter, user and system together, so that other programs of
the machine hardly count.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from daf_storage import ZarrDaf

LIBRARIES = (
    *("numpy", "pyarrow", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "pandas"),
    *("scipy", "zarr", "numcodecs", "h5py", "anndata", "datafusion"),
)

_COMMAND = "from daf_query.cli import main\ntry:\n    main({})\nexcept SystemExit:\n    pass"

DOORS = {
    "python": "pass",
    "daf --version": _COMMAND.format(["--version"]),
    "daf --help": _COMMAND.format(["--help"]),
    "daf info": _COMMAND.format(["info", "tiny.daf.zarr"]),
    "import daf_storage": "import daf_storage",
    "open_daf": "import daf_storage; daf_storage.open_daf('tiny.daf.zarr')",
    "import daf_query": "import daf_query",
    "connect": "import daf_query; daf_query.connect('tiny.daf.zarr')",
    "connect, sql": "import daf_query\n"
    "daf_query.connect('tiny.daf.zarr').sql('SELECT count(*) FROM cell').to_pydict()",
    "import numpy, pyarrow": "import numpy, pyarrow",
    "import datafusion": "import datafusion",
}

_REPORT = """
import json, resource, sys
usage = resource.getrusage(resource.RUSAGE_SELF)
report = {"seconds": usage.ru_utime + usage.ru_stime, "modules": sorted(sys.modules)}
print(json.dumps(report), file=sys.stderr)
"""


def run(script: str, folder: Path) -> tuple[float, list[str]]:
    """Return the CPU seconds of a script in a fresh interpreter, and the modules it imported."""
    done = subprocess.run(
        [sys.executable, "-c", f"{script}\n{_REPORT}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stderr)
    return report["seconds"], report["modules"]


def main() -> None:
    """Run every door and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    repeats = 1 if parser.parse_args().small else 5
    with tempfile.TemporaryDirectory() as folder:
        with ZarrDaf(Path(folder, "tiny.daf.zarr"), "w") as daf:
            daf.add_axis("cell", ["a", "b"])
            daf.set_vector("cell", "age", [1, 2])
        for door, script in DOORS.items():
            runs = [run(script, Path(folder)) for _ in range(repeats)]
            seconds = min(taken for taken, _ in runs)
            modules = runs[0][1]
            libraries = ", ".join(name for name in LIBRARIES if name in modules) or "no library"
            print(f"{door:24}{seconds:6.3f} s  {len(modules):5} modules: {libraries}")


if __name__ == "__main__":
    main()
