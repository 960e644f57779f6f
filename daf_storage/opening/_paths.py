"""Paths and URLs of data sets, parsed, and what is at a URL; rules: docs/reference/format.md.

What a path ends in says what is there; where it says nothing, the first bytes of a file, or the
documents of a directory do.  A directory on a server is known by its consolidated metadata.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from daf_storage import errors
from daf_storage.base import name_problem
from daf_storage.data import layout
from daf_storage.files_daf import DAF_FILE, METADATA_FILE, FilesTree, documents_of
from daf_storage.stores import (
    RemoteArchive,
    RemoteFiles,
    RemoteStore,
    is_url_pattern,
    os_errors,
    shown_url,
)
from daf_storage.trees import FORMATS, Hdf5Tree, RemoteHdf5File, StoredTree, ZarrFormat, ZarrTree

ContainerKind: TypeAlias = Literal["directory", "archive", "hdf5", "mapping", "url"]
"""What holds a data set: a directory, a ZIP archive, an HDF5 file, a mapping, or a server."""

Form: TypeAlias = Literal["zarr", "files", "hdf5"]
"""How a data set is stored in its container: as Zarr, as plain files, or as HDF5."""


class Ending(NamedTuple):
    """What the end of a path says."""

    kind: ContainerKind
    form: Form
    holds: Literal["one", "several", "any"] = "one"
    """Whether there is one data set, or several as groups; or either."""
    is_foreign: bool = False
    """Whether it is none of Daf's: such files are read in place."""


SHARED_ARCHIVES: Final = (".dafs.zarr.zip", ".dafs.zip")
SHARED_HDF5_SUFFIX: Final = ".h5dfs"
_ENDINGS: Final[Mapping[str, Ending]] = {
    ".daf.zarr": Ending("directory", "zarr"),
    ".daf.zarr.zip": Ending("archive", "zarr"),
    ".dafs.zarr.zip": Ending("archive", "zarr", "several"),
    ".daf": Ending("directory", "files"),
    ".daf.zip": Ending("archive", "files"),
    ".dafs.zip": Ending("archive", "files", "several"),
    ".h5df": Ending("hdf5", "hdf5"),
    SHARED_HDF5_SUFFIX: Ending("hdf5", "hdf5", "several"),
    ".h5": Ending("hdf5", "hdf5", "any"),
    ".hdf5": Ending("hdf5", "hdf5", "any"),
    ".h5ad": Ending("hdf5", "hdf5", "any", is_foreign=True),
    ".h5mu": Ending("hdf5", "hdf5", "any", is_foreign=True),
    ".zarr": Ending("directory", "zarr", "any", is_foreign=True),
    ".zarr.zip": Ending("archive", "zarr", "any", is_foreign=True),
}
"""By suffix; of two that fit the longer one comes first."""
_FORMS: Final = {"one": "<stem>{}", "several": "<stem>{}#/<group>", "any": "<stem>{}"}
_EXPECTED, _READ = (
    ", ".join(
        _FORMS[each.holds].format(suffix)
        for suffix, each in _ENDINGS.items()
        if each.is_foreign == is_foreign
    )
    for is_foreign in (False, True)
)
_SUFFIX: Final = re.compile(r"(\.dafs?)?(\.zarr|\.h5dfs?|\.h5ad|\.h5mu|\.h5|\.hdf5)?(\.zip)?$")
_ZARR_DOCUMENTS: Final = (".zgroup", ".zmetadata", "zarr.json")
HDF5_BEGINNING: Final = b"\x89HDF\r\n\x1a\n"
_ZIP_BEGINNING: Final = b"PK\3\4"
NOT_A_PATTERN: Final = (
    "; a pattern is taken by connect() and the commands that query, slice or concatenate: "
    "name one data set"
)


@dataclass(frozen=True, slots=True)
class DafPath:
    """Where a data set is."""

    given: str
    """The path as the caller wrote it, or the URL; of a mapping, what messages call it."""
    container: Path
    """The directory or the file, as an absolute path."""
    kind: ContainerKind
    """What the container is."""
    group: str = ""
    """The group within an archive or file; empty for all of it."""
    form: Form = "zarr"
    """How the data set is stored in the container."""
    is_foreign: bool = False
    """Whether it is none of Daf's, and is read in place."""
    opened: Any = None
    """A store of the mapping; of an HDF5 file the group of h5py, if one was passed, which stays
    open."""

    @property
    def full(self) -> str:
        """The absolute path, with the group; the URL."""
        if self.kind == "url":
            return self.given
        return f"{self.container}#/{self.group}" if self.group else str(self.container)

    @property
    def given_container(self) -> str:
        """The container as the caller wrote it."""
        return self.given.partition("#/")[0] if self.group else self.given


def path_input(path: object, other: str = "a mutable mapping of keys to bytes") -> str:
    """Return a path as a string.

    >>> path_input(Path("x.daf.zarr"))
    'x.daf.zarr'

    Raises
    ------
    InvalidInputError
        It is neither a string nor a path; ``other`` is what may be passed instead of one.  Or a
        NUL character is in it.
    """
    given = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if isinstance(given, str) and "\0" in given:
        raise errors.InvalidInputError(
            f"not the path of a data set: {given!r}; no path has a NUL character in it"
        )
    if isinstance(given, str):
        return given
    shown = "an open data set" if hasattr(path, "axes_set") else repr(path)
    if isinstance(path, bytes):
        shown += "; decode it with os.fsdecode"
    raise errors.InvalidInputError(
        f"not the path of a data set: {shown}; pass a str or a pathlib.Path, or {other}"
    )


def parse_path(path: str | Path, *, is_read: bool = False, expects_files: bool = False) -> DafPath:
    """Return what a path means.

    Parameters
    ----------
    is_read
        Whether it may also be of what is read in place, such as an AnnData.
    expects_files
        Whether a path that has no other form is that of a FilesDaf, also where nothing is there.

    >>> parse_path("x.dafs.zarr.zip#/day/1").group, parse_path("x.h5ad", is_read=True).kind
    ('day/1', 'hdf5')

    Raises
    ------
    InvalidInputError
        It has none of the forms of a data set's path.
    """
    given = path_input(path)
    container, group, ending = _split(given, is_read=is_read)
    if ending is None:
        with os_errors(given):  # a name may be too long to look for it
            ending = _by_contents(container, expects_files=expects_files, is_read=is_read)
    if ending is None or (not group and ending.holds == "several"):
        raise _no_path(given, container)
    for part in group.split("/") if group else ():
        if (problem := name_problem(part)) is not None:
            raise errors.InvalidNameError(f"{given}: the group {part!r} {problem}")
    where = Path(os.path.abspath(container))
    return DafPath(given, where, ending.kind, group, ending.form, ending.is_foreign)


def _split(given: str, *, is_read: bool) -> tuple[str, str, Ending | None]:
    """Return a container and a group in it, and what the end of the container says."""
    endings = {suffix: each for suffix, each in _ENDINGS.items() if is_read or not each.is_foreign}
    for suffix, ending in endings.items():
        before, separator, group = given.partition(f"{suffix}#/")
        if separator:
            _check_group(given, suffix, ending, group)
            return before + suffix, group.strip("/"), ending
    plain = given.rstrip("/")
    for suffix, ending in endings.items():
        if plain.endswith(suffix):
            return plain, "", ending
    container, _, group = given.partition("#/") if is_read else (plain, "", "")
    return container if group else plain, group.strip("/"), None


def _check_group(given: str, suffix: str, ending: Ending, group: str) -> None:
    """Refuse a group where there are none, or without a name."""
    if ending.holds == "one":
        what, hint, several = suffix, "it holds one data set", suffix.replace(".daf.", ".dafs.")
        if several in SHARED_ARCHIVES:
            what = "ZarrDaf" if ending.form == "zarr" else "FilesDaf"
            hint = f"an archive of several data sets is called <stem>{several}, and one of them "
            hint += f"<stem>{several}#/<group>"
        raise errors.InvalidInputError(
            f"can't address a sub-daf in a singular {what} path: {given}; {hint}"
        )
    if not group.strip("/"):
        raise errors.InvalidInputError(f"empty group name after '#/' in path: {given}")


def _by_contents(path: str, *, expects_files: bool, is_read: bool) -> Ending | None:
    """Return what there is where the end of a path does not say it; None if it is not known."""
    is_any = expects_files and "#" not in path and not path.endswith((".zip", ".zarr"))
    if is_any or Path(path, DAF_FILE).is_file():
        return Ending("directory", "files")
    if not is_read:
        return None
    if any(Path(path, name).is_file() for name in _ZARR_DOCUMENTS):
        return _ENDINGS[".zarr"]
    beginning = b""
    if Path(path).is_file():
        with open(path, "rb") as file:
            beginning = file.read(len(HDF5_BEGINNING))
    is_zip = beginning.startswith(_ZIP_BEGINNING) and path.endswith(".zip")
    ending = ".h5ad" if beginning == HDF5_BEGINNING else ".zarr.zip" if is_zip else ""
    return _ENDINGS.get(ending)


def _no_path(given: str, container: str) -> errors.InvalidInputError:
    """Say what is wrong with a path: a group is missing, or it is of no known form."""
    plain = container.rstrip("#")
    if plain.endswith((*SHARED_ARCHIVES, SHARED_HDF5_SUFFIX)):
        return errors.InvalidInputError(
            f"missing '#/<group>' in plural path: {given}; say which of the data sets"
        )
    for suffix, ending in _ENDINGS.items():
        before, separator, group = given.partition(f"{suffix}#")
        if separator and ending.holds != "one" and not group.startswith("/"):
            return errors.InvalidInputError(
                f"can't parse as path of a data set: {given}; a group is written with a slash: "
                f"{before}{suffix}#/{group}"
            )
    hint = ""
    if given.endswith(".h5ad"):
        path = errors.in_shell(given)
        hint = f"; turn an h5ad file into one with: daf import {path} OUT.daf.zarr"
        if not Path(given).exists():  # it was to be written
            hint = f"; write another one first, and then: daf export OUT.daf.zarr {path}"
    elif given.endswith((".zarr", ".zarr.zip")):  # of an AnnData, which is only read
        before, _, after = given.rpartition(".zarr")
        hint = f"; a Daf data set is called {before}.daf.zarr{after}"
    elif given and Path(container or given).is_dir():
        hint = f"; it is a directory: a pattern takes what is in it, as {container}/*.h5ad"
    return errors.InvalidInputError(
        f"can't parse as path of a data set: {given or repr(given)}{hint}; expected one of: "
        f"{_EXPECTED}; to be read also an AnnData, {_READ}"
    )


def foreign_path(path: str | Path) -> DafPath | None:
    """Return what the path of something that is read in place means; None for Daf's own.

    >>> foreign_path("a/atlas.h5ad").kind, foreign_path("x.daf.zarr") is None
    ('hdf5', True)
    """
    try:
        where = parse_path(path, is_read=True)
    except errors.InvalidInputError:  # whoever opens it says why
        return None
    return where if where.is_foreign else None


# Names


def stem_of(location: str) -> str:
    """Return what people would call a data set: its file name without suffixes, or its group.

    >>> stem_of("runs/run0.h5ad"), stem_of("week.dafs.zarr.zip#/monday"), stem_of("<memory> (view)")
    ('run0', 'monday', 'memory')
    """
    name = re.split(r"[\\/]", location.removesuffix(" (view)").rstrip("/\\"))[-1]
    return in_unicode(_SUFFIX.sub("", name).strip("<>")) or "daf"


def in_unicode(name: str) -> str:
    """Return a name that a query can have, also of a file whose name is not UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode()


def short_names(paths: Sequence[str]) -> list[str]:
    """Return the file names in locations without suffixes; if all have one name, what differs.

    Other paths that share a name stay whole.

    >>> short_names(["a/x.h5ad", "b/y.h5ad"]), short_names(["r/s1/outs/x.h5", "r/s2/outs/x.h5"])
    (['x', 'y'], ['s1', 's2'])
    >>> short_names(["a.h5mu#/mod/rna", "b.h5mu#/mod/rna"])
    ['a', 'b']
    """
    stems = [stem_of(path) for path in paths]
    counts = Counter(stems)
    if len(counts) > 1 or len(paths) == 1:
        pairs = zip(stems, paths, strict=True)
        return [stem if counts[stem] == 1 else in_unicode(path) for stem, path in pairs]
    parts = [path.split("/") for path in paths]
    first, last = (
        next((n for n, each in enumerate(zip(*rows, strict=False)) if len(set(each)) > 1), 0)
        for rows in (parts, [row[::-1] for row in parts])
    )
    names = ["/".join(row[first : len(row) - last]) for row in parts]
    plain = [_SUFFIX.sub("", name.removesuffix("#")) for name in names]
    names = plain if len(set(plain)) == len(set(names)) else names
    return [in_unicode(name or path) for name, path in zip(names, paths, strict=True)]


# URLs


def parse_url(url: str) -> tuple[str, str, Ending | None]:
    """Return the URL of a container, the group in it, and what its end says.

    Raises
    ------
    InvalidInputError
        It is no URL, or that of no data set.
    """
    base, hash_, group = url.partition("#")
    path, shown = path_of_url(base), shown_url(url)
    suffix = next((suffix for suffix in _ENDINGS if path.endswith(suffix)), "")
    ending = _ENDINGS.get(suffix)
    if hash_:
        _check_group(shown, suffix, ending or Ending("archive", "zarr", "any"), group)
    elif ending is not None and ending.holds == "several":
        raise _no_path(shown, path)
    return base, group.strip("/"), ending


def path_of_url(base: str) -> str:
    """Return the path of a URL without slashes at its end, if its host and port are valid."""
    plain = re.sub("//[^/]*@", "//", base.partition("?")[0])  # no password, no token
    try:
        parts = urlsplit(base)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise errors.InvalidInputError(f"can't parse as URL: {plain} ({error})") from None
    if not host:
        raise errors.InvalidInputError(
            f"can't parse as URL: {plain} (it names no server); write http://<host>/<path>"
        )
    return parts.path.rstrip("/")


def siblings(root: Path) -> str:
    """Name what is nearly called like a path that does not exist, or else what is beside it.

    Of a symbolic link, say where it leads.
    """
    if root.is_symlink():
        return f"; it is a symbolic link to {root.readlink()}, which is not there"
    if literal := errors.unresolved(root):
        return literal
    if any(character in root.name for character in "*?["):
        return NOT_A_PATTERN
    beside = [
        each.name
        for each in root.parent.glob("[!.]*")
        if each.name.endswith(tuple(_ENDINGS)) and each.exists()
    ]
    word, *_ = root.name.split(".")
    near = [name for name in beside if errors.nearest(word, name.split(".")[:1])]  # all end alike
    others = f"; beside it: {errors.shown_names(beside)}" if beside else ""
    return errors.nearest(root.name, near) or others


# Files of others that are not read


@dataclass(frozen=True, slots=True)
class OtherKind:
    """A kind of files that is not read."""

    what: str
    advice: str
    """What to do, with the path and a name for what is made of it."""
    suffixes: tuple[str, ...] = ()
    holds: tuple[frozenset[str], ...] = ()
    """Names that a group or a directory has, all of one of these sets."""

    def error(self, path: str) -> errors.NotADafError:
        """Return the error that says what it is."""
        stem = Path(path).name.split(".")[0]
        paths = {"here": path, "folder": Path(path).parent, "made": f"{stem}.daf.zarr"}
        words = {name: errors.in_shell(each) for name, each in paths.items()}
        advice = self.advice.format(path=path, stem=stem, **words)
        return errors.NotADafError(f"{path}: this is {self.what}, which is not read; {advice}")


OTHER_KINDS: Final = (
    OtherKind(
        "a loom file",
        "convert it: python -c \"import anndata; anndata.io.read_loom('{path}')"
        ".write_h5ad('{stem}.h5ad')\"",
        holds=(frozenset({"matrix", "row_attrs", "col_attrs"}),),
    ),
    OtherKind(
        "an h5Seurat file",
        "convert it in R: SeuratDisk::Convert('{path}', dest = 'h5ad')",
        holds=(frozenset({"assays", "cell.names"}),),
    ),
    OtherKind(
        "an object of R, such as of Seurat or SingleCellExperiment",
        "convert it in R: anndataR::write_h5ad(anndataR::as_AnnData(readRDS('{path}')), "
        "'{stem}.h5ad')",
        suffixes=(".rds", ".rda", ".rdata"),
    ),
    OtherKind(
        "a file of Loupe Browser",
        "take the filtered_feature_bc_matrix.h5 that Cell Ranger wrote beside it",
        suffixes=(".cloupe", ".vloupe"),
    ),
    OtherKind(
        "a file of aligned reads",
        "count them first, as cellranger count does, and take its filtered_feature_bc_matrix.h5",
        suffixes=(".bam", ".cram", ".sam"),
    ),
    OtherKind(
        "a file of raw reads",
        "count them first, as cellranger count does, and take its filtered_feature_bc_matrix.h5",
        suffixes=(".fastq", ".fastq.gz", ".fq.gz"),
    ),
    OtherKind(
        "a matrix of Matrix Market",
        "import the folder that it is in: daf import {folder} {made}",
        suffixes=(".mtx", ".mtx.gz"),
    ),
    OtherKind(
        "a folder of Matrix Market",
        "import it: daf import {here} {made}",
        holds=(frozenset({"matrix.mtx"}), frozenset({"matrix.mtx.gz"})),
    ),
    OtherKind(
        "a SOMA experiment of TileDB",
        'convert it: python -c "import tiledbsoma.io; tiledbsoma.io.to_h5ad(tiledbsoma.open('
        "'{path}'), '{stem}.h5ad', 'RNA')\"",
        holds=(frozenset({"__group", "__meta"}),),
    ),
)
"""All kinds; another one is an entry."""


def other_kind(names: Collection[str], path: str = "") -> OtherKind | None:
    """Return what a group with these names is, or a file by its name."""
    for kind in OTHER_KINDS:
        if path.lower().endswith(kind.suffixes) or any(each <= set(names) for each in kind.holds):
            return kind
    return None


def other_kind_at(path: str | Path) -> errors.NotADafError | None:
    """Say what a file or a directory is that is not read; None if it is not known."""
    where, names = Path(path), set[str]()
    with suppress(OSError):  # whoever opens it says why
        if where.is_dir():
            names = {re.sub(r"^.*(?=matrix\.mtx)", "", each.name) for each in where.iterdir()}
        kind = other_kind(names, str(path) if where.is_file() else "")
        return None if kind is None else kind.error(str(path))
    return None


# On a server


Connect = Callable[[str], RemoteFiles]

_NOT_LISTED = (
    "needed where nothing can be listed: open it for writing once where it is stored, or run "
    "'daf repair' on it"
)


def open_remote_tree(url: str, connect: Connect = RemoteFiles) -> ZarrTree | FilesTree | Hdf5Tree:
    """Return the tree of a data set at a URL.

    What the URL ends in says what is there; if it ends in neither of the usual ways, the server
    is asked for the metadata of a directory, and then for the beginning of a file.

    Raises
    ------
    SourceNotFoundError
        The server has nothing there.
    NotADafError
        There is a directory without consolidated metadata, and servers cannot be asked for a list.
    RemoteError
        The server fails, or cannot be reached.
    InvalidInputError
        The URL names a group where there are none.
    """
    try:
        return _tree_at(url, connect)
    except (errors.SourceNotFoundError, errors.NotADafError) as error:
        if not is_url_pattern(url):
            raise
        raise errors.with_message(error, f"{error}{NOT_A_PATTERN}") from None


def _tree_at(url: str, connect: Connect) -> ZarrTree | FilesTree | Hdf5Tree:
    base, group, ending = parse_url(url)
    folder, name = _folder_and_name(base)
    if ending is not None and ending.kind == "hdf5":
        return Hdf5Tree(RemoteHdf5File(connect(folder), name), group)
    if ending is not None and ending.kind == "directory" and (group or not ending.is_foreign):
        files = connect(base)
        is_files = ending.form == "files"
        return _files_directory(files) if is_files else ZarrTree(remote_directory(files), group)
    if group or (ending is not None and not ending.is_foreign):
        return _archive_in(connect(folder), name, group)
    return _whatever_is_there(base, connect)


def remote_tree(url: str, held: ExitStack) -> StoredTree:
    def connect(url: str) -> RemoteFiles:
        files = RemoteFiles(url)
        held.callback(files.close)
        return files

    tree = open_remote_tree(url, connect)
    if isinstance(tree, Hdf5Tree):
        held.callback(tree.close)
    return tree


def _folder_and_name(base: str) -> tuple[str, str]:
    """Return the URL of a folder, with the query of the file's, and the name of the file in it."""
    place, mark, query = base.partition("?")
    folder, _, name = place.rstrip("/").rpartition("/")
    return f"{folder}{mark}{query}", unquote(name)


def _archive_in(folder: RemoteFiles, name: str, group: str) -> ZarrTree | FilesTree:
    archive = RemoteArchive(folder, name)
    files = FilesTree(archive, group)
    return files if files.marker(layout.DAF) is not None else ZarrTree(archive, group)


def _files_directory(files: RemoteFiles) -> FilesTree:
    """Return the tree of a directory of plain files, by the file that repeats all documents."""
    marker = files.read(DAF_FILE)
    metadata = None if marker is None else files.read(METADATA_FILE)
    if marker is None or metadata is None:
        missing = DAF_FILE if marker is None else METADATA_FILE
        raise errors.NotADafError(
            f"not a daf data set: {files.location}; the server has no {missing} there, and both "
            f"{DAF_FILE} and {METADATA_FILE} are {_NOT_LISTED}"
        )
    documents = documents_of(metadata, what=f"{files.location}/{METADATA_FILE}")
    return FilesTree(RemoteStore(files, {**documents, DAF_FILE: marker}))


def _whatever_is_there(base: str, connect: Connect) -> ZarrTree | FilesTree | Hdf5Tree:
    """Return the tree of a directory or a file whose name does not say which it is."""
    directory: errors.DafError
    files = connect(base)
    try:
        return ZarrTree(remote_directory(files))
    except (errors.NotADafError, errors.AccessDeniedError) as error:
        with suppress(errors.AccessDeniedError):  # what is absent may be answered like this
            if files.read(DAF_FILE) is not None:
                return _files_directory(files)
        if not path_of_url(base):  # the server itself, whose name is not that of an archive
            raise
        directory = error
    folder, name = _folder_and_name(base)
    try:
        return _file_in(connect(folder), name)
    except (errors.SourceNotFoundError, errors.AccessDeniedError):
        if isinstance(directory, errors.AccessDeniedError):
            raise directory from None
        _refuse_matrix_folder(files)
        raise errors.NotADafError(
            f"{directory}; nor is there an archive or another file of this name"
        ) from None


def _file_in(folder: RemoteFiles, name: str) -> ZarrTree | FilesTree | Hdf5Tree:
    """Return the tree of a file by what it begins with; an archive ends with what it is."""
    length = min(folder.size(name) or 0, len(HDF5_BEGINNING))
    beginning = bytes(folder.read_ranges(name, [(0, length)])[0]) if length else b""
    if beginning.startswith(HDF5_BEGINNING):
        return Hdf5Tree(RemoteHdf5File(folder, name), "")
    if kind := other_kind((), name):
        raise _not_read(kind, f"{folder.location}/{name}")
    return _archive_in(folder, name, "")


def _refuse_matrix_folder(files: RemoteFiles) -> None:
    """Say of what Cell Ranger writes beside its HDF5 file that it is read from the disk alone."""
    for name in ("matrix.mtx.gz", "matrix.mtx"):
        if files.size(name) is not None and (kind := other_kind({name})):
            raise _not_read(kind, files.location)


def _not_read(kind: OtherKind, location: str) -> errors.NotADafError:
    error = kind.error(location)
    return errors.with_message(error, f"{error}; download it first")


def remote_directory(files: RemoteFiles) -> RemoteStore:
    """Return the files of a Zarr directory on a server, as its consolidated metadata has them.

    Raises
    ------
    NotADafError
        There is nothing, or no consolidated metadata.
    """
    denied: errors.AccessDeniedError | None = None
    for documents in FORMATS.values():
        try:
            data = files.read(documents.consolidated_file)
        except errors.AccessDeniedError as error:  # what is absent may be answered like this
            denied = error
            continue
        if data is not None:
            return RemoteStore(files, _listed(files, documents, data))
    if denied is not None:
        raise denied
    raise errors.NotADafError(
        f"failed to open remote zarr group: {files.location}; there is nothing, or a directory "
        f"without a consolidated .zmetadata or zarr.json, which is {_NOT_LISTED}"
    )


def _listed(files: RemoteFiles, documents: ZarrFormat, data: bytes) -> dict[str, bytes]:
    """Return the documents of consolidated metadata by their keys."""
    name = documents.consolidated_file
    try:
        root = json.loads(data)
        if documents.version == 3 and root.get("node_type") != "group":
            raise errors.NotADafError(f"not a zarr group: {files.location}")
        if documents.version == 3 and root.get("consolidated_metadata") is None:
            raise errors.NotADafError(
                f"{files.location}: the remote zarr group lacks an inline consolidated_metadata "
                f"field, which is {_NOT_LISTED}"
            )
        return documents.listed(data)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, errors.DafError):
            raise
        raise errors.CorruptDataError(
            f"{files.location}: its {name} is malformed ({error!r})"
        ) from None
