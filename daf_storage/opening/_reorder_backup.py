"""Backups that the reference implementation leaves when it is stopped while it reorders axes.

It links the files that it is going to change into ``.reorder.backup``, writes them one by one, and
deletes the backup at the end.  If that directory exists, the order of the data set is mixed, and
the backup has the old files.
"""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path

from daf_storage import errors
from daf_storage.data import RecoveryWarning
from daf_storage.opening._paths import DafPath

BACKUP = ".reorder.backup"


def refuse_backup(where: DafPath) -> None:
    """Raise if a reordering by the reference implementation was interrupted, or is going on."""
    if (where.container / BACKUP).exists():
        raise errors.CorruptDataError(
            f"{where.given}: another program is reordering its axes, or was stopped while it did: "
            "their entries and their data do not belong together; if it was stopped, open it for "
            f"writing or run 'daf repair {where.given}', to get back what was there"
        )


def restore_backup(where: DafPath) -> bool:
    """Put the files of an interrupted reordering back; say whether there was one."""
    folder = where.container / BACKUP
    if not folder.is_dir():
        return False
    for source in sorted(folder.rglob("*")):
        target = where.container / source.relative_to(folder)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            _replace(source, target)
    shutil.rmtree(folder)
    warnings.warn(
        f"{where.given}: another program was stopped while it reordered axes; what was there "
        "before is there again",
        RecoveryWarning,
        stacklevel=4,
    )
    return True


def _replace(source: Path, target: Path) -> None:
    """Copy a file to another place, atomically; the source stays for a second attempt."""
    aside = target.with_name(f".{target.name}.restored")
    shutil.copyfile(source, aside)
    os.replace(aside, target)
