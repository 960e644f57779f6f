"""Sessions: sources are connected, and asked SQL questions.

Sources are paths, patterns of paths, readers, lists and tables.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar

from daf_query.scan import DEFAULT_OPTIONS, ScanOptions
from daf_query.session._later import engines, plots, slices, tables
from daf_query.session._queries import CACHE_BYTES
from daf_query.session._writing import Frame, Writing
from daf_query.sql import Collection, Connectable
from daf_query.table import UserTable, is_user_table, table_name, user_table
from daf_storage import DafReader, DafWriter, Relation, errors, open_daf, open_overlay
from daf_storage._terminal_text import visible_name
from daf_storage.base import is_remote
from daf_storage.data import data_set_section, is_in_place
from daf_storage.display import (
    Markup,
    PreviewBudget,
    html_details,
    html_element,
    html_page,
    html_table,
    joined_html,
    shortened,
)
from daf_storage.opening import in_unicode, short_names, stem_of
from daf_storage.sidecars import is_sidecar
from daf_storage.stores import MmapZipStore, is_url_pattern, matching_urls
from daf_storage.trees import INDEXES_SUFFIX

Source: TypeAlias = (
    "str | Path | DafReader | tables.TableDataset | Sequence[str | Path | DafReader]"
)
"""A path of a data set, a reader of one, or a table; a pattern or a list for several as one."""

AxisNames: TypeAlias = Mapping[str, Any]
"""``obs_is`` and ``var_is``: what the axes of an AnnData that is read in place are called."""
NO_NAMES: Final[AxisNames] = {}

Mode: TypeAlias = Literal["r", "r+"]
"""Whether data sets are opened for reading, or for changing what is there as well."""

_T = TypeVar("_T")

_DAF: Final = re.compile(r"\.(dafs?\.zarr|h5dfs?)(\.zip)?(#/.*)?$")
_GROUP_FILES: Final = ("meta/zarr.json", "meta/.zgroup")
_OF_CALLS: Final = (errors.InvalidInputError, errors.MissingDependencyError)
"""What is wrong with a call, or with what is installed, and with no data set."""
_LEAVE_OUT: Final = errors.Remedy("pass ", errors.SKIP_BROKEN, " to leave it out")


def opened(
    source: object,
    closing: ExitStack,
    mode: Mode = "r",
    *,
    names: AxisNames = NO_NAMES,
    skip_broken: bool | None = None,
) -> Connectable:
    """Open what can be connected: a data set, several as one, or a table.

    Parameters
    ----------
    closing
        What closes the readers that are opened by their paths, and not passed, if it is closed
        itself: whoever connects them takes them out of it.
    names
        What the axes of AnnData that are opened by their paths are called.
    skip_broken
        Whether those of several that cannot be opened are left out; None if the caller has no
        choice.

    Raises
    ------
    ReadOnlyError
        The mode is ``r+``, and what is asked for is only read.
    """
    if isinstance(source, DafReader):
        return _in_mode(source, mode)
    if isinstance(source, Collection):
        return source
    if is_user_table(source):
        return source if isinstance(source, tables.TableDataset) else user_table(source)
    if isinstance(source, str | Path):
        if _is_table(source):
            return tables.zarr_table(source)
        if not is_pattern(source):
            return closing.enter_context(open_daf(source, mode, **names))
        location, source = str(source), matching_paths(str(source))
    elif isinstance(source, Sequence) and source:
        location = f"{len(source):,} data sets"
    else:
        raise _not_connectable(source)
    readers = usable(source, lambda each: _member(each, mode, names, closing), skip_broken, mode)
    paths = [daf.name if daf.location.startswith("<") else daf.location for daf in readers]
    return Collection(location, _named(short_names(paths), readers, location))


def usable(
    sources: Sequence[Any],
    opening: Callable[[Any], _T],
    skip_broken: bool | None,  # noqa: FBT001 - as it was given
    mode: Mode = "r",
) -> list[_T]:
    """Return what can be opened; there is a warning for each of the others.

    Parameters
    ----------
    skip_broken
        Whether those that cannot be opened are left out; None if the caller has no choice.
    mode
        How they are opened: one that may not be read is left out, one that may not be written not.

    Raises
    ------
    InvalidInputError
        There is none.
    DafError
        One cannot be opened, and is not to be left out.
    """
    found = []
    of_calls = _OF_CALLS if mode == "r" else (*_OF_CALLS, errors.ReadOnlyError)
    for each in sources:
        try:
            found.append(opening(each))
        except errors.DafError as error:
            if not skip_broken or isinstance(error, of_calls):
                if skip_broken is False and not isinstance(error, of_calls):
                    errors.with_remedy(error, error.remedy or _LEAVE_OUT)
                raise
            errors.warn(f"left out: {error}", errors.DafWarning)
    if not found:
        raise errors.InvalidInputError(f"none of {len(sources):,} data sets can be opened")
    return found


def _member(source: object, mode: Mode, names: AxisNames, closing: ExitStack) -> DafReader:
    """Open one of several; the names are of those that are AnnData."""
    if isinstance(source, DafReader):
        return _in_mode(source, mode)
    daf = open_daf(str(source), mode)
    if names and is_in_place(daf):
        daf.close()
        daf = open_daf(str(source), mode, **names)
    return closing.enter_context(daf)


def _not_connectable(source: object) -> errors.InvalidInputError:
    """Say what can be connected instead of something else."""
    if isinstance(source, Sequence):
        return errors.InvalidInputError("cannot connect to an empty list; name a data set in it")
    kind = type(source)
    if kind.__name__ == "AnnData":
        return errors.InvalidInputError(
            "cannot connect to an AnnData in memory; pass the path of its file, which is read in "
            "place, or make a data set of it: connect(daf_storage.from_anndata(adata))"
        )
    return errors.InvalidInputError(
        f"cannot connect to {shortened(repr(source))} of type {kind.__name__}; pass a path, a "
        "reader, a pattern of paths, a list, a data frame, or a mapping of names to any of them"
    )


def opened_overlay(
    source: object,
    overlay: str | Path | DafWriter,
    closing: ExitStack,
    mode: Mode | None,
    *,
    names: AxisNames,
    skip_broken: bool,
) -> tuple[str, DafReader]:
    """Open one data set for reading, and another one on top of it; return its name, too.

    Parameters
    ----------
    mode
        ``r`` opens the overlay for reading; else it is written, and made if it is missing unless
        the mode is ``r+``.

    Raises
    ------
    InvalidInputError
        There are several data sets, or none that an overlay can be on top of.
    """
    if isinstance(source, Mapping):
        raise errors.InvalidInputError(
            f"overlay={str(overlay)!r} is on top of one data set, and a mapping names several; "
            "connect that alone"
        )
    if isinstance(source, Sequence) and not isinstance(source, str) and len(source) == 1:
        source = source[0]
    base = opened(source, closing, names=names, skip_broken=skip_broken)
    if isinstance(base, Collection) and len(base.members) == 1:
        base = next(iter(base.members.values()))
    if not isinstance(base, DafReader):
        what = f"{base.location} holds several" if isinstance(base, Collection) else "it is a table"
        raise errors.InvalidInputError(
            f"overlay={str(overlay)!r} is on top of one data set, and {what}; connect that alone"
        )
    return schema_name(source, base), open_overlay(base, overlay, mode or "w+")


def _in_mode(daf: DafReader, mode: Mode) -> DafReader:
    if mode == "r+" and not isinstance(daf, DafWriter):
        raise errors.ReadOnlyError(
            f"{daf.location}: it was opened for reading; open it with mode 'r+', or pass its path"
        )
    return daf


def _is_table(path: str | Path) -> bool:
    """Return whether a path is of a Zarr group that is no Daf data set."""
    if is_remote(path) or _DAF.search(str(path)):
        return False
    if str(path).endswith(".zip"):
        # A pipe may never have a writer: what is no file is refused where it is opened.
        return os.path.isfile(path) and _has_group(path)  # noqa: PTH113 - see below
    # Path.is_file raises where a folder may not be entered, which is said where it is opened.
    return any(os.path.isfile(Path(path, name)) for name in _GROUP_FILES)  # noqa: PTH113


def _has_group(path: str | Path) -> bool:
    try:
        with MmapZipStore(path) as archive:
            return any(name in archive for name in _GROUP_FILES)
    except errors.DafError:  # whoever opens it says what is wrong with it
        return False


def is_pattern(path: str | Path) -> bool:
    """Return whether a path means several: a file may have any characters in its name."""
    if is_remote(path):
        return is_url_pattern(path)
    try:
        return glob.has_magic(str(path)) and not Path(path).stat()
    except (OSError, ValueError) as error:  # whoever opens it says that it may not be looked at
        return not isinstance(error, PermissionError)


def matching_paths(pattern: str) -> list[str]:
    """Return the paths of the data sets that a pattern means.

    Raises
    ------
    SourceNotFoundError
        There is none.
    """
    before, separator, group = pattern.partition("#/")
    if is_remote(pattern):
        matching = matching_urls(before)
    else:
        names = sorted(glob.glob(before, recursive=True))  # noqa: PTH207 - Path.glob is relative
        is_index = cache(_is_index)
        matching = [p for p in names if not any(map(is_index, (Path(p), *Path(p).parents)))]
    paths = [path + separator + group for path in matching]
    if not paths:
        hint = errors.unresolved(pattern)
        raise errors.SourceNotFoundError(f"no file or directory matches {pattern!r}{hint}")
    return paths


def _is_index(folder: Path) -> bool:
    """Return whether a directory has the indexes of the file beside it, or is a sidecar."""
    is_beside = folder.name.endswith(INDEXES_SUFFIX) and folder.with_suffix("").is_file()
    return is_beside or is_sidecar(folder)


def _named(names: Sequence[str], found: Sequence[_T], location: str) -> dict[str, _T]:
    """Return what was opened by its names, which have to differ."""
    named = dict(zip(names, found, strict=True))
    if len(named) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise errors.ExistsError(
            f"two of {location} are called {twice!r}; pass each once, and readers by names of "
            "their own"
        )
    return named


def schema_name(source: object, connected: Connectable) -> str:
    """Return what people would call a data set: its file name; several, that of their folder."""
    if isinstance(connected, DafReader):
        return stem_of(connected.location)
    if isinstance(connected, tables.TableDataset):
        return connected.table_columns.table
    if isinstance(connected, UserTable):
        if isinstance(source, str | Path):
            return table_name(source)
        raise errors.InvalidInputError(
            f"{connected.location} has no name; say what queries call it: "
            "register(frame, 'samples')"
        )
    folder = in_unicode(Path(source).parent.name) if isinstance(source, str | Path) else ""
    return folder if folder and not glob.has_magic(folder) else "all"


def named_sources(sources: Sequence[str | Path]) -> dict[str, Connectable]:
    """Open sources, each by the name that people would call it; by what differs, if two share it.

    Raises
    ------
    ExistsError
        Two are the same.
    """
    with ExitStack() as closing:
        found = [opened(source, closing) for source in sources]
        names = [schema_name(source, each) for source, each in zip(sources, found, strict=True)]
        if len(set(names)) < len(names):
            names = short_names([each.location for each in found])
        named = _named(names, found, f"{len(names):,} data sets")
        closing.pop_all()
    return named


_MEMBERS: Final = 20


class DafSession(Writing):
    """Data sets that are connected, each a SQL schema; `connect` makes one.

    May be used from several threads.  Closing it closes nothing that it handed out.
    """

    @property
    def cached_bytes(self) -> int:
        """How much is remembered of what was decoded."""
        return self._connections.cache.nbytes

    def __repr__(self) -> str:
        return f"DafSession({', '.join(map(visible_name, self._connections.schemas))})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the data sets; arrays and slices handed out earlier stay valid."""
        self._connections.close()

    @property
    def context(self) -> engines.SessionContext:
        """The DataFusion session, for what this class does not offer.  It may write."""
        engines.ENGINE.enter()
        return self._engine.context

    @property
    def schemas(self) -> dict[str, DafReader]:
        """The data sets by schema name; several that are asked as one are not among them."""
        return self._connections.readers()

    def tables(self) -> list[str]:
        """Return the names of the tables, as queries write them.

        Examples
        --------
        >>> import daf_query, daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("cell", ["TATA", "GATA", "CATA"], vectors={"age": [30, 60, 90]})
        >>> db = daf_query.connect(daf)
        >>> db.tables()
        ['cell', 'matrices', 'relations', 'scalars']
        """
        return self._connections.table_names

    def relations(self, schema: str | None = None) -> list[Relation]:
        """Return the vectors whose values are entries of an axis; the table ``relations`` has them.

        In a collection, those of all data sets, each once.

        Parameters
        ----------
        schema
            Which data set, where several are connected.

        Examples
        --------
        >>> import daf_storage
        >>> daf = daf_storage.MemoryDaf()
        >>> daf.add_axis("type", ["B", "T"])
        >>> daf.add_axis("cell", ["TATA", "GATA"])
        >>> daf.set_vector("cell", "type", ["T", "T"])
        >>> connect(daf).relations()
        [Relation(axis='cell', vector='type', to_axis='type', source='name')]
        """
        readers = self._connections.schema(schema).readers().values()
        return sorted({relation for daf in readers for relation in daf.relations()})

    @property
    def plot(self) -> plots.SessionPlots:
        """Plots: embeddings; they need the extra ``plot``."""
        return plots.SessionPlots(self._engine)

    def register(self, source: Source | Frame, name: str | None = None) -> None:
        """Connect another data set, as a schema, or a table of your own.

        Parameters
        ----------
        source
            A path or a reader of a data set; a pattern of paths or a list, for several as one
            (see `connect`); a path of a Zarr group or a table, such as `zarr_table` makes; a data
            frame of pandas or polars, a DuckDB relation, an Arrow table, dataset or stream; a
            Parquet, Arrow, CSV or TSV file (also ``.csv.gz``).
        name
            The schema or table name; by default that of the file, or of the table.  A frame
            needs one.

        Raises
        ------
        ExistsError
            Something is connected by this name, or an axis has it.
        SourceNotFoundError, CorruptDataError
            There is no such file, or it is not what its suffix says.

        Examples
        --------
        >>> import daf_storage
        >>> session = connect(daf_storage.MemoryDaf(name="one"))
        >>> other = daf_storage.MemoryDaf(name="two")
        >>> other.add_axis("donor", ["N1", "N2"])
        >>> session.register(other, "other")
        >>> session.sql("SELECT count(*) AS n FROM other.donor").to_pydict()
        {'n': [2]}

        >>> import pandas
        >>> session.register(pandas.DataFrame({"id": ["N1"], "centre": ["Basel"]}), "samples")
        >>> session.sql(
        ...     "SELECT name, centre FROM other.donor JOIN samples ON name = samples.id"
        ... ).to_pydict()
        {'name': ['N1'], 'centre': ['Basel']}
        """
        with ExitStack() as closing:
            connected = opened(source, closing)
            title = schema_name(source, connected) if name is None else name
            self._connections.connect(title, connected)
            closing.pop_all()

    def unregister(self, name: str) -> None:
        """Let go of a data set or a table; what was opened for it is closed."""
        self._connections.disconnect(name)

    def _repr_html_(self) -> str:
        return _session_page(self._connections)


def connect(  # noqa: PLR0913 - how data sets are opened, and how they are asked
    source: Source | Mapping[str, Source | Frame],
    *,
    mode: Mode | None = None,
    overlay: str | Path | DafWriter | None = None,
    obs_is: str | None = None,
    var_is: str | None = None,
    cache_bytes: int = CACHE_BYTES,
    scan_options: ScanOptions = DEFAULT_OPTIONS,
    categoricals: tables.Categoricals = "string",
    provenance: bool = True,
    skip_broken: bool = False,
) -> DafSession:
    """Open one data set or several for SQL.

    Parameters
    ----------
    source
        A path, a reader, or a mapping of schema names to either.  The schema of a path is its
        file name without suffixes: ``data/pbmc.daf.zarr`` is ``pbmc``.  A pattern of paths
        (``runs/*.daf.zarr``) or a list of data sets is one schema, ``runs``: its tables have the
        rows of all of them, and a column ``dataset`` with the name of each.  Any other Zarr
        directory or archive with a group ``meta`` is one table, ``meta`` (see `zarr_table`).
        In a mapping also tables of your own, see `DafSession.register`.
    mode
        ``r+`` opens paths so that `DafSession.save_vector` and `DafSession.reorder_axis` work; by
        default ``r``.
    overlay
        The path of a data set of your own on top of one that is only read: what is saved goes
        there, and hides what it replaces. It is made if it is missing, unless ``mode="r+"``; with
        ``mode="r"`` it is only read. See `daf_storage.open_overlay`.
    obs_is, var_is
        What the axes of AnnData that are opened in place by a path or a pattern are called; by
        default what they say of themselves, else ``obs`` and ``var``.  With ``obs_is="cell"`` a
        folder of h5ad files and of data sets of Daf has one table ``cell``.
    cache_bytes
        How much of what was decoded (strings, their codes, packed chunks) is remembered for later
        queries, about; the least recently used is forgotten first.
    scan_options
        How tables are cut, pruned and read; the defaults suit all sizes.
    categoricals
        ``dictionary`` shows categoricals that an AnnData import noted as Arrow dictionaries, which
        are ordered where the categorical was: ``Categorical`` in pandas, ``Enum`` in polars.
    provenance
        Whether files and AnnData that are made of answers say where they come from (see
        `daf_query.provenance`), unless a call says otherwise.
    skip_broken
        Whether data sets of a pattern or a list that cannot be opened are left out, with a warning
        for each.

    Returns
    -------
    DafSession
        With one data set its tables are ``cell`` (and ``pbmc.cell``); with several they are
        ``pbmc.cell``, ``liver.cell`` and so on.

    Raises
    ------
    SourceNotFoundError
        There is nothing at a path, or a pattern matches nothing.
    InvalidInputError
        There are several data sets below an overlay, or it is of another one.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf(name="tiny")
    >>> daf.add_axis("cell", ["TATA", "GATA"])
    >>> daf.set_vector("cell", "age", [30, 60])
    >>> connect(daf).sql("SELECT name FROM cell WHERE age > 40").to_pydict()
    {'name': ['GATA']}
    """
    given = {"obs_is": obs_is, "var_is": var_is}
    names = {name: axis for name, axis in given.items() if axis is not None}
    if names and isinstance(source, DafReader):
        raise errors.InvalidInputError(
            f"{source.location}: obs_is= and var_is= of connect() are for what it opens by a path; "
            "pass them to open_daf"
        )
    if skip_broken and isinstance(source, str | Path) and not is_pattern(source):
        raise errors.InvalidInputError(
            f"skip_broken= is for a pattern, and {source} is one path; leave it out"
        )
    if isinstance(source, Mapping) and not source:
        raise errors.InvalidInputError("connect() was given no data set")
    if cache_bytes != CACHE_BYTES:  # only that needs slices
        cache_bytes = slices.byte_count(cache_bytes, keyword="cache_bytes")
    if mode not in ("r", "r+", None):
        raise errors.InvalidModeError(
            f"connect() has the modes 'r' and 'r+', not {mode!r}; create a data set with open_daf()"
        )
    how: dict[str, Any] = {"names": names, "skip_broken": skip_broken}
    with ExitStack() as closing:
        named: dict[str, Any]
        if overlay is not None:
            named = dict([opened_overlay(source, overlay, closing, mode, **how)])
        elif isinstance(source, Mapping):
            named = {n: opened(each, closing, mode or "r", **how) for n, each in source.items()}
        else:
            connected = opened(source, closing, mode or "r", **how)
            named = {schema_name(source, connected): connected}
        connections = engines.Connections(
            named,
            cache_bytes,
            scan_options=scan_options,
            categoricals=categoricals,
            provenance=provenance,
        )
        closing.pop_all()
    return DafSession(connections)


def _session_page(connections: engines.Connections) -> Markup:
    """Return the page of a session; the budget of previews is that of all data sets together."""
    budget = PreviewBudget()
    readers = connections.readers()
    parts = []
    for place, (name, schema) in enumerate(connections.schemas.items()):
        heading = html_element("strong", shortened(name))
        if schema.is_collection:
            parts.append(html_details(heading, _collection(schema)))
        else:
            daf = readers[name]
            section = data_set_section(daf.summary(), daf, budget)
            parts.append(html_details(heading, section, is_open=place == 0))
    others = sorted(connections.shared)
    if others:
        names = ", ".join(map(shortened, others))
        parts.append(html_element("div", f"tables: {names}"))
    return html_page(*parts)


def _collection(schema: engines.AxisSchema) -> Markup:
    """Return the lengths of the axes of a collection, and its data sets; reads metadata only."""
    readers = schema.readers()
    axes = sorted(schema.axes_set(), key=lambda axis: (-schema.axis_length(axis), axis))
    rows = [(shortened(axis), f"{schema.axis_length(axis):,}") for axis in axes]
    names = ", ".join(map(shortened, list(readers)[:_MEMBERS]))
    more = len(readers) - _MEMBERS
    others = f" and {more:,} more" if more > 0 else ""
    return joined_html(
        (
            html_element("div", f"collection of {len(readers):,} data sets: {schema.location}"),
            html_table(("axis", "entries"), rows),
            html_element("div", f"data sets: {names}{others}", class_="note"),
        )
    )
