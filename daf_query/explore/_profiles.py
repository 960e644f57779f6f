"""Profiles: the mean, and the share that is not zero, of some columns in each group of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from starlette.requests import Request
from starlette.responses import Response

from daf_query._runs import Interruptible
from daf_query.explore._explorer import Explorer
from daf_query.explore._requests import asked_of
from daf_query.explore._responses import Part, json_parts
from daf_query.profile import Profile

_MISSING: Final = "(missing)"


async def profile(explorer: Explorer, request: Request) -> Response:
    """Answer with the numbers of a dot plot."""
    asked = await asked_of(request)
    names = ("schema", "rows_axis", "columns_axis", "matrix", "by")
    schema, rows_axis, columns_axis, matrix, by = (asked.string(name) for name in names)
    columns, rows = asked.strings("columns"), asked.optional_string("rows")

    def produce(_: Interruptible) -> Iterator[Part]:
        made = explorer.session.profile(
            rows_axis, columns_axis, matrix, by=by, rows=rows, columns=columns, schema=schema
        )
        yield from json_parts(
            {
                "groups": _groups(made),
                "columns": columns,
                "mean": _listed(made.statistic("mean")),
                "fraction": _listed(made.statistic("fraction")),
                "sizes": made.content.moments.count.tolist(),
            }
        )

    return explorer.response(produce, sql=by)


def _groups(made: Profile) -> list[str]:
    """Return a label for each group."""
    values = [group.to_pylist() for group in made.content.groups.values()]
    return [
        " | ".join(_MISSING if each is None else str(each) for each in row)
        for row in zip(*values, strict=True)
    ]


def _listed(values: npt.NDArray[Any]) -> list[list[float | None]]:
    """Return numbers for JSON, which has no NaN."""
    objects = values.astype(object)
    objects[~np.isfinite(values)] = None
    plain: list[list[float | None]] = objects.tolist()
    return plain
