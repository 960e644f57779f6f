"""Opening data sets that are on a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from daf_storage import errors
from daf_storage.paths import ARCHIVE_SUFFIX, DIRECTORY_SUFFIX, SHARED_ARCHIVE_SUFFIX
from daf_storage.stores import RemoteArchive, RemoteFiles, RemoteStore, shown_url
from daf_storage.trees import ZarrFormat, ZarrTree, zarr_formats

Connect = Callable[[str], RemoteFiles]


def open_remote_tree(url: str, connect: Connect = RemoteFiles) -> ZarrTree:
    """Return the tree of a data set at a URL.

    Raises
    ------
    SourceNotFoundError
        The server has nothing there.
    NotADafError
        There is a directory without consolidated metadata, and servers cannot be asked for a list.
    RemoteError
        The server fails, or cannot be reached.
    InvalidInputError
        The URL does not end as the path of a data set does.
    """
    base, _, group = url.partition("#")
    path = urlsplit(base).path.rstrip("/")
    if path.endswith(DIRECTORY_SUFFIX) and not group:
        return ZarrTree(_directory(connect(base)))
    is_shared = path.endswith(SHARED_ARCHIVE_SUFFIX) and bool(group.strip("/"))
    if (path.endswith(ARCHIVE_SUFFIX) and not group) or is_shared:
        folder, _, name = base.rstrip("/").rpartition("/")
        return ZarrTree(RemoteArchive(connect(folder), unquote(name)), group.strip("/"))
    raise errors.InvalidInputError(
        f"can't parse as URL of a data set: {shown_url(url)}; expected one of: "
        f"<url>{DIRECTORY_SUFFIX}, <url>{ARCHIVE_SUFFIX}, <url>{SHARED_ARCHIVE_SUFFIX}#/<group>"
    )


def _directory(files: RemoteFiles) -> RemoteStore:
    for documents in zarr_formats():
        data = files.read(documents.consolidated_file)
        if data is not None:
            return RemoteStore(files, _listed(files, documents, data))
    raise errors.NotADafError(
        f"failed to open remote zarr group: {files.location}; there is nothing, or a directory "
        "without a consolidated .zmetadata or zarr.json, which is needed where nothing can be "
        "listed: open it for writing once where it is stored, or run 'daf repair' on it"
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
                "field, which is needed where nothing can be listed: open it for writing once "
                "where it is stored, or run 'daf repair' on it"
            )
        return documents.listed(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, errors.DafError):
            raise
        raise errors.CorruptDataError(
            f"{files.location}: its {name} is malformed ({error!r})"
        ) from None
