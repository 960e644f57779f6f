"""Scripts of a user, who has installed the wheel."""

from __future__ import annotations

from typing import Final

USER_SCRIPT: Final = """\
import daf_query
import daf_storage

with daf_storage.ZarrDaf("made.daf.zarr", "w") as daf:
    daf.add_axis("cell", ["A", "B"])
    daf.set_vector("cell", "age", [30, 60])

with daf_query.connect("made.daf.zarr") as session:
    print(session.sql("SELECT name FROM cell WHERE age > 40").to_pydict())
"""
"""Makes, saves, opens and queries a data set; it has no errors of types."""

USER_TYPES: Final = """\
import daf_query
import daf_storage

reveal_type(daf_query.connect("made.daf.zarr"))
daf_storage.open_daf("made.daf.zarr").add_axis("cell", [])
"""
"""What a type checker says of it names the types of the package; the last line is an error."""
