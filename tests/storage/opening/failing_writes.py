"""Changes an HDF5 file on a disk whose n-th write fails; started by `test_h5df`, which preloads.

Prints what each change said, and what the file holds: all as before, all as after, or a mixture.
"""

from __future__ import annotations

import errno
import json
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from daf_storage import DafWriter, errors, open_daf
from tests.faulty_disk import FOR_EVER, faults, in_child
from tests.support import contents

_LENGTH = 60
_CHANGES: dict[str, Callable[[DafWriter], None]] = {
    "reorder": lambda daf: daf.reorder_axis("cell", np.arange(_LENGTH)[::-1].copy()),
    "vector": lambda daf: daf.set_vector("cell", "new", np.arange(_LENGTH)),
    "strings": lambda daf: daf.set_vector("cell", "new", [str(i) for i in range(_LENGTH)]),
    "matrix": lambda daf: daf.set_matrix("cell", "cell", "new", np.eye(_LENGTH)),
}


def _fill(path: Path) -> None:
    with open_daf(path, "w") as daf:
        assert isinstance(daf, DafWriter)
        daf.add_axis("cell", [f"c{i}" for i in range(_LENGTH)])
        for number in range(6):
            daf.set_vector("cell", f"v{number}", np.arange(_LENGTH) * 10 + number)


def _attempt(change: Callable[[DafWriter], None], path: Path, first: int, last: int) -> int:
    try:
        with faults(path, first, last, errno.EIO), open_daf(path, "r+") as daf:
            assert isinstance(daf, DafWriter)
            change(daf)
    except errors.StorageError:
        return 1
    return 0


def _state(path: Path, before: Any, after: Any) -> str:
    """Return what the file holds; after a writer has opened it, where a reader is refused."""
    for mode in ("r", "r+"):
        try:
            with open_daf(path, "r" if mode == "r" else "r+") as daf:
                found = contents(daf)
        except (errors.FormatError, errors.StorageError):
            continue
        return "before" if found == before else "after" if found == after else "a mixture"
    return "refused"


def main(folder: Path, every: int) -> None:
    """Let each of the writes of each change fail, once or for ever."""
    warnings.simplefilter("ignore")
    base, path = folder / "base.h5df", folder / "x.h5df"
    _fill(base)
    with open_daf(base) as daf:
        before = contents(daf)
    for name, change in _CHANGES.items():
        shutil.copy(base, path)
        with faults(path, FOR_EVER, FOR_EVER, 0) as count, open_daf(path, "r+") as daf:
            assert isinstance(daf, DafWriter)
            change(daf)
            most, after = count(), contents(daf)
        found: Counter[str] = Counter()
        for last in (0, FOR_EVER):
            for first in range(2, most + 1, every):
                shutil.copy(base, path)
                status = in_child(partial(_attempt, change, path, first, last or first))
                how = "for ever" if last else "once"
                found[f"{how}: {status}, {_state(path, before, after)}"] += 1
        sys.stdout.write(json.dumps({name: found}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
