"""Profiles that become matrices: a statistic of each group and column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.profile import Profile, Statistic
from daf_query.session._placed_matrix import Place, placed
from daf_query.session._storable import is_any_string, one_array, storable
from daf_storage import DafWriter, IfExists, errors


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """What is stored of a profile, and how."""

    statistic: Statistic
    fill: Any
    relayout: bool
    if_exists: IfExists


def group_axis_of(profile: Profile) -> str | None:
    """Return what the axis of the groups is called by default: as the only group column."""
    groups = list(profile.content.groups)
    return groups[0] if len(groups) == 1 else None


def save_profile(daf: DafWriter, place: Place, profile: Profile, choice: ProfileChoice) -> None:
    """Store a statistic of a profile; where there is no axis of the groups, with that.

    Raises
    ------
    InvalidInputError
        A group is NULL; two groups have one name; or there is an axis of the groups of which not
        all entries, or columns, are in the profile, and there is no value to fill the rest with.
    EntryNotFoundError
        There is an axis of the groups, and it lacks one.
    """
    names = _group_names(profile)
    columns_axis = place.axes[1]
    values = profile.statistic(choice.statistic)
    columns = place.daf.axis_indices(columns_axis, one_array(profile.column_entries))
    if daf.has_axis(place.axes[0]):
        rows = daf.axis_indices(place.axes[0], names)
        matrix = placed(place, place.shape, values, (rows, columns), choice.fill)
        daf.set_matrix(
            *place.axes, place.name, matrix, if_exists=choice.if_exists, relayout=choice.relayout
        )
        return
    shape = len(names), daf.axis_length(columns_axis)
    rows = np.arange(len(names))
    matrix = placed(place, shape, values, (rows, columns), choice.fill)
    daf.add_axis(
        place.axes[0],
        names,
        vectors=_vectors(profile),
        matrices={(columns_axis, place.name): matrix},
    )


def _group_names(profile: Profile) -> pa.Array:
    """Return a name for each group: its values, joined."""
    groups = profile.content.groups
    if not groups:
        return pa.array(["all"])
    strings = []
    for column, values in groups.items():
        if values.null_count:
            raise errors.InvalidInputError(
                f"the profile has a group whose {column!r} is NULL, which is no name of an entry; "
                f'leave it out with rows="... IS NOT NULL", or name it with coalesce()'
            )
        strings.append(one_array(values).cast(pa.string()))
    names = pc.binary_join_element_wise(*strings, "_")
    counts = pc.value_counts(names)
    repeated = pc.filter(counts.field("values"), pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise errors.InvalidInputError(
            f"two groups of the profile would be called {repeated[0].as_py()!r}, which are the "
            f"values of {', '.join(groups)}; group by one expression that tells them apart"
        )
    return names


def _vectors(profile: Profile) -> dict[str, pa.Array]:
    """Return the vectors of an axis of groups: their sizes, and what the names do not say."""
    groups = profile.content.groups
    vectors: dict[str, pa.Array] = {"count": pa.array(profile.content.moments.count)}
    for column, values in groups.items():
        plain = one_array(values)
        if len(groups) > 1 or not is_any_string(plain.type):
            what = f"vector {column!r} of the groups"
            vectors[column] = storable(plain, what, f"values of {what}")
    return vectors
