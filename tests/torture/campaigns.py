"""All campaigns by name."""

from __future__ import annotations

from functools import partial

from tests.faulty_disk import has_faults
from tests.torture.alike import look_alike
from tests.torture.asking_many import ask_many
from tests.torture.disk import disk
from tests.torture.folding import fold
from tests.torture.interrupting import interrupt
from tests.torture.mutation import mutate, mutate_indexes
from tests.torture.naming import name_things
from tests.torture.samples import FOREIGN, FORMS
from tests.torture.serving import lie
from tests.torture.worker import Case
from tests.torture.writing import WRITABLE, fault, full_disk, kill, race

CAMPAIGNS: dict[str, Case] = {
    **{f"mutation {form}": partial(mutate, form) for form in (*FORMS, *FOREIGN)},
    **{f"indexes {form}": partial(mutate_indexes, form) for form in ("directory", "archive", "packed", "hdf5")},
    **{f"fault {form}": partial(fault, form) for form in ("directory", "packed", "archive", "files")},
    **{f"full disk {form}": partial(full_disk, form) for form in ("directory-v3", "archive-packed", "hdf5")},
    **{f"disk {form}": partial(disk, form) for form in ("hdf5", "hdf5-packed") if has_faults()},
    **{f"kill {form}": partial(kill, form) for form in ("directory", "archive", "hdf5", "files")},
    **{f"interrupts {form}": partial(interrupt, form) for form in ("directory", "packed", "archive", "hdf5")},
    **{f"race {form}": partial(race, form) for form in WRITABLE if "packed" not in form},
    **{f"server {form}": partial(lie, form) for form in ("directory", "directory-v3", "archive-packed", "files", "hdf5", *FOREIGN)},
    "sql of several data sets": ask_many,
    **{f"names {form}": partial(name_things, form) for form in FORMS},
    **{f"alike {form}": partial(look_alike, form) for form in ("directory", "packed", "archive", "hdf5", "files")},
    **{f"folding {kind}": partial(fold, kind) for kind in ("explorer", "flight")},
}  # fmt: skip
