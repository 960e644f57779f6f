"""The columns of an axis of many data sets, of those names that queries had so far."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from daf_query._cancellation import check_cancelled
from daf_query.sql._data_set_schema import DafSchema
from daf_query.table import TableColumns


@dataclass(frozen=True, slots=True, eq=False)
class NarrowColumns:
    """The columns of an axis that have some names, of each data set."""

    names: frozenset[str]
    """What was looked for; not all of them need be there."""
    identities: Mapping[str, Hashable]
    """What shows that a data set changed, by its name."""
    columns: Mapping[str, TableColumns]
    """Those of each data set."""


def narrow_columns(
    members: Mapping[str, DafSchema],
    axis: str,
    names: frozenset[str],
    known: NarrowColumns | None,
) -> NarrowColumns:
    """Return the columns of some names, and of those of before; the same if nothing changed.

    Metadata that were read count as long as the data set shows no change; of a new name, only the
    metadata of that vector are read.

    Parameters
    ----------
    members
        The data sets that have the axis.
    known
        What the last query had.
    """
    wanted = names if known is None else names | known.names
    # What shows a change is looked at before the metadata: one in between shows the next time.
    identities = {name: member.daf.axis_identity(axis, wanted) for name, member in members.items()}
    if known is not None and wanted == known.names and identities == known.identities:
        return known
    columns: dict[str, TableColumns] = {}
    for name, member in members.items():
        check_cancelled()
        same = None if known is None else _unchanged(member, axis, name, identities[name], known)
        if same is None or known is None:
            columns[name] = member.columns_among(axis, wanted)
        elif wanted == known.names:
            columns[name] = same
        else:
            columns[name] = member.columns_added(axis, wanted - known.names, same)
    return NarrowColumns(wanted, identities, columns)


def _unchanged(
    member: DafSchema, axis: str, name: str, identity: Hashable, known: NarrowColumns
) -> TableColumns | None:
    """Return the columns that are known of a data set; None if it changed since.

    Of an archive, one value shows any change; of a directory, one for the names of before does.
    """
    before = known.identities.get(name)
    if before is None or name not in known.columns:
        return None
    is_same = identity == before or member.daf.axis_identity(axis, known.names) == before
    return known.columns[name] if is_same else None
