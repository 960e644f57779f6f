"""Parts of an AnnData that lie beside the data: those of no axis are merged as scalars are."""

from __future__ import annotations

import numpy as np

from daf_storage.concat._members import Member
from daf_storage.concat._options import Options
from daf_storage.concat._shared_properties import LeftOut
from daf_storage.data import DafWriter, kept, new_property
from daf_storage.data.kept import KeptPart


def write_kept_parts(
    daf: DafWriter, members: list[Member], options: Options, left_out: LeftOut
) -> None:
    """Merge what is kept of ``uns``; what is aligned to an axis is left out, and noted."""
    given: dict[str, list[KeptPart]] = {}
    for member in members:
        for part in kept.parts(member.daf.tree):
            if part.axes:
                what = f"{part.part}[{part.key!r}]" if part.key else part.part
                left_out(
                    what, f"it lies beside the data in {member.name!r}, and is not concatenated"
                )
            else:
                given.setdefault(part.path, []).append(part)
    for path, parts in given.items():
        action = options.merge_action(parts[0].key)
        last = parts[-1].array.read()
        is_same = all(np.array_equal(part.array.read(), last) for part in parts)
        if action == "last" or (action == "same" and is_same):
            with new_property(daf, path) as changes:
                kept.make_groups(daf.tree, changes, path)
                changes.write_array(path, last)
        else:
            left_out(f"uns[{parts[0].key!r}]", "merge= keeps it, if it is 'last', or 'same' and is")
