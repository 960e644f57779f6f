"""The overview that the page begins with: the catalogue, and the limits."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response

from daf_query._runs import Interruptible
from daf_query.explore._catalogue import catalogue
from daf_query.explore._explorer import Explorer
from daf_query.explore._responses import Part, json_parts
from daf_query.explore._selections import selection_table


async def overview(explorer: Explorer, request: Request) -> Response:  # noqa: ARG001 - as routes are called
    """Answer with the catalogue; data sets that were replaced are opened again."""

    def produce(_: Interruptible) -> Iterator[Part]:
        session = explorer.data.opened()
        limits = explorer.limits
        yield from json_parts(
            {
                "version": explorer.data.version,
                "writable": explorer.data.overlay is not None,
                "overlay": explorer.data.overlay,
                "limits": {"rows": limits.rows, "bytes": limits.bytes, "seconds": limits.seconds},
                "selection": selection_table(explorer, session),
                "data_sets": catalogue(session),
            }
        )

    return explorer.response(produce)
