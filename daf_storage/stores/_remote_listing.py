"""Patterns of URLs: the data sets in a bucket that one matches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from daf_storage import errors
from daf_storage.base import optional_import
from daf_storage.stores._remote_access import cloud_of, is_remote, open_access, shown_url
from daf_storage.stores._remote_failures import request_failure

_MAGIC: Final = re.compile(r"[*\[]")


def is_url_pattern(path: object) -> bool:
    """Return whether a path is a URL that means several.

    A web server's may have brackets in it, around an address.

    >>> is_url_pattern("s3://bucket/runs/*.daf.zarr"), is_url_pattern("http://[::1]/x.daf.zarr")
    (True, False)
    >>> is_url_pattern("runs/*.daf.zarr"), is_url_pattern("http://host/x?key=*")
    (False, False)
    """
    if not isinstance(path, str) or not is_remote(path):
        return False
    place = path.partition("?")[0].partition("#/")[0]
    return "*" in place or (cloud_of(path) is not None and _MAGIC.search(place) is not None)


def matching_urls(pattern: str) -> list[str]:
    """Return the URLs of the files and folders in a bucket that match a pattern, sorted.

    ``*`` and ``[...]`` stand for parts of one name, as in a shell.  Each folder that may have
    a match is listed with one request per 1,000 names.

    Raises
    ------
    InvalidInputError
        It is the URL of a web server, which cannot be listed, or the pattern has ``**`` in it,
        or stands for buckets.
    """
    scheme, _, rest = pattern.partition("://")
    bucket, _, path = rest.partition("/")
    if cloud_of(pattern) is None:
        raise errors.InvalidInputError(
            f"{shown_url(pattern)}: a web server cannot be listed, so that a pattern has "
            "nothing to match; pass a list of URLs"
        )
    if "**" in path or _MAGIC.search(bucket):
        raise errors.InvalidInputError(
            f"{shown_url(pattern)}: in a pattern of URLs, each '*' stands for a part of one name "
            "behind the bucket: write s3://<bucket>/<folder>/*.daf.zarr, or pass a list of URLs"
        )
    root = f"{scheme}://{bucket}"
    steps = [part for part in path.split("/") if part]
    listing = _Listing(root)
    return [f"{root}/{name}" for name in sorted(listing.matching("", steps))]


class _Listing:
    """The names in a bucket."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._cloud = cloud_of(root)
        self._obs = optional_import("obstore", extra="cloud")
        self._store = open_access(root)

    def matching(self, folder: str, steps: list[str]) -> Iterator[str]:
        """Yield the names below a folder, one step of a pattern after another."""
        plain = next((at for at, step in enumerate(steps) if _MAGIC.search(step)), len(steps) - 1)
        folder = "/".join([*([folder] if folder else []), *steps[:plain]])
        step, rest = steps[plain], steps[plain + 1 :]
        folders, files = self._names(folder)
        for name in folders if rest else folders + files:
            if fnmatchcase(name.rsplit("/", 1)[-1], step):
                if rest:
                    yield from self.matching(name, rest)
                else:
                    yield name

    def _names(self, folder: str) -> tuple[list[str], list[str]]:
        """Return the folders and files directly in a folder."""
        try:
            listed: Any = self._obs.list_with_delimiter(self._store, folder or None)
        except Exception as error:  # noqa: BLE001 - its classes have no common root
            where = f"{shown_url(self._root)}/{folder}"
            raise request_failure(where, error, self._cloud) from None
        folders = [str(name) for name in listed["common_prefixes"]]
        return folders, [str(meta["path"]) for meta in listed["objects"]]
