"""The connected data sets of a session, which all of its parts need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from daf_query.scan import DEFAULT_OPTIONS, ScanOptions
from daf_query.sql import Collection, Connections, Engine
from daf_query.table import Categoricals
from daf_storage import DafReader, DafWriter, errors
from daf_storage.data import writing_remedy

CACHE_BYTES = 512 << 20
"""Default size of the decode cache of a session, in bytes."""


class Connected:
    """Data sets that are connected, and the engine that plans queries over them."""

    def __init__(
        self,
        data_sets: Mapping[str, DafReader | Collection],
        *,
        cache_bytes: int = CACHE_BYTES,
        scan_options: ScanOptions = DEFAULT_OPTIONS,
        categoricals: Categoricals = "string",
        provenance: bool = True,
    ) -> None:
        self._engine = Engine(
            Connections(
                data_sets,
                cache_bytes,
                scan_options=scan_options,
                categoricals=categoricals,
                provenance=provenance,
            )
        )

    def reader(self, schema: str | None = None) -> DafReader:
        """Return the reader of a data set; with one connected, of that.

        Raises
        ------
        InvalidInputError
            There are several behind it, or several are connected and none was named.
        NotFoundError
            There is no such schema.
        """
        return self._connections.reader(self._connections.schema(schema).name)

    def members(self, schema: str | None = None) -> dict[str, DafReader]:
        """Return the data sets behind a schema: several by name that are asked as one, or the one.

        Examples
        --------
        >>> import daf_storage
        >>> from daf_query import connect
        >>> runs = [daf_storage.MemoryDaf(name=name) for name in ("first_run", "second_run")]
        >>> list(connect(runs).members())
        ['first_run', 'second_run']
        """
        return self._connections.schema(schema).readers()

    def _writable(self, schema: str | None, *axes: str) -> tuple[str, DafWriter]:
        """Return the name of a schema, and its data set, which has axes and can be changed."""
        name = self._connections.schema(schema).name
        daf = self._connections.reader(name)
        for axis in axes:
            if not daf.has_axis(axis):
                raise errors.axis_not_found(daf.location, axis, daf.axes_set())
        if not isinstance(daf, DafWriter):
            raise errors.ReadOnlyError(f"{daf.location}: {writing_remedy(daf)}")
        return name, daf

    def _over(self, data_sets: Mapping[str, DafReader | Collection]) -> Self:
        """Return another session over other data sets, with the options of this one."""
        connections = self._connections
        return type(self)(
            data_sets,
            cache_bytes=connections.cache_bytes,
            scan_options=connections.scan_options,
            categoricals=connections.categoricals,
            provenance=connections.provenance,
        )

    def _served(self, memory_bytes: int | None = None) -> Self:
        """Return a session of the same data sets for a service, whose queries read no other files.

        Parameters
        ----------
        memory_bytes
            How much memory all its queries together may take.
        """
        session = object.__new__(type(self))
        session._engine = self._engine.served(memory_bytes)
        return session

    @property
    def _connections(self) -> Connections:
        return self._engine.connections
