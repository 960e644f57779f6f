"""Access to servers: from a URL and the environment to a client, errors, and patterns of URLs.

Credentials come from the variables and files that the tools of each cloud read, never from a URL.
They stay in the client: no message, name, `repr`, pickle or provenance has them.  The messages of
the library are only searched: they have whole URLs in them, signatures too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from daf_storage import errors
from daf_storage.base import SERVER_CLIENT, optional_import

SILENT_SECONDS: Final = 10.0
RETRIES: Final = 4
_WHOLE_SECONDS: Final = 600
"""How long an answer may take of which something comes again and again."""
_CONNECT_SECONDS: Final = 5
_TRUE: Final = frozenset({"1", "true", "on", "yes", "y"})
_ENDPOINTS: Final = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT",
    "AZURE_ENDPOINT",
    "AZURE_STORAGE_ENDPOINT",
    "GOOGLE_BASE_URL",
)
_CONTAINER_IN_USER: Final = ("abfs", "abfss")
"""Schemes that write the container where other URLs have the user."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """How messages speak of one cloud; its client reads the environment itself."""

    name: str
    """As messages call it."""
    credentials: str
    """How credentials are passed."""
    unsigned: str
    """The variable that asks for no credentials."""

    @property
    def remedy(self) -> str:
        """How credentials are passed, and how a public bucket is read without."""
        return f"{self.credentials}; for a public bucket, set {self.unsigned}=true"


AMAZON: Final = Cloud("S3", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "AWS_SKIP_SIGNATURE")
GOOGLE: Final = Cloud(
    "Google Cloud Storage",
    "set GOOGLE_APPLICATION_CREDENTIALS, or run 'gcloud auth application-default login'",
    "GOOGLE_SKIP_SIGNATURE",
)
AZURE: Final = Cloud(
    "Azure",
    "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or AZURE_USE_AZURE_CLI=true after "
    "'az login'",
    "AZURE_SKIP_SIGNATURE",
)
_CLOUDS: Final = {
    "s3": AMAZON,
    "gs": GOOGLE,
    "az": AZURE,
    "abfs": AZURE,
    "abfss": AZURE,
}
SCHEMES: Final = ("http://", "https://", *(f"{scheme}://" for scheme in _CLOUDS))


def is_remote(path: object) -> bool:
    """Return whether a path is the URL of something on a server."""
    return isinstance(path, str) and path.startswith(SCHEMES)


def cloud_of(url: str) -> Cloud | None:
    """Return the cloud that a URL is of; None for a web server."""
    return _CLOUDS.get(url.partition("://")[0])


def shown_url(url: str) -> str:
    """Return a URL without what may be a secret: user, password and query.

    >>> shown_url("https://me:secret@example.org/x.daf.zarr?token=1")
    'https://example.org/x.daf.zarr'
    >>> shown_url("abfs://container@account.dfs.core.windows.net/x.daf.zarr")
    'abfs://container@account.dfs.core.windows.net/x.daf.zarr'
    """
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    if parts.scheme in _CONTAINER_IN_USER and user and ":" not in user:
        host = f"{user}@{host}"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def open_access(url: str, *, silent_seconds: float = SILENT_SECONDS, retries: int = RETRIES) -> Any:
    """Return a client for what is below a URL: a store of obstore.

    Parameters
    ----------
    silent_seconds
        For how long nothing may come of an answer: of one that is slow, something does.
    retries
        How often to ask again after an error of the server, within that time.

    Raises
    ------
    InvalidInputError
        The URL names no bucket, or has credentials in it; settings of the environment contradict.
    """
    cloud = cloud_of(url)
    options: dict[str, Any] = {
        "timeout": f"{_WHOLE_SECONDS}s",
        "read_timeout": f"{round(silent_seconds * 1000)}ms",
        "connect_timeout": f"{round(min(silent_seconds, _CONNECT_SECONDS) * 1000)}ms",
    }
    if cloud is None:
        options["allow_http"] = url.startswith("http://")
    else:
        _check_url(url)
        options["allow_http"] = _may_use_http()
    limit = timedelta(seconds=silent_seconds)
    SERVER_CLIENT.enter()
    from_url = optional_import("obstore.store", extra="cloud").from_url
    try:
        return from_url(
            url.rstrip("/"),
            client_options=options,
            retry_config={"max_retries": retries, "retry_timeout": limit},
        )
    except Exception as error:
        if cloud is None or isinstance(error, errors.DafError):
            raise
        raise errors.InvalidInputError(_unusable(cloud, url, str(error))) from None


def _unusable(cloud: Cloud, url: str, text: str) -> str:
    """Say why no client could be made; the library's own words may have a key in them."""
    if "Account must be specified" in text:
        return (
            f"{shown_url(url)}: which storage account is not said; set AZURE_STORAGE_ACCOUNT_NAME, "
            "or write abfs://<container>@<account>.dfs.core.windows.net/<path>"
        )
    return (
        f"{shown_url(url)}: the variables of the environment for {cloud.name} cannot be used: one "
        "of them is malformed, or they contradict each other"
    )


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    has_password = ":" in user or (user != "" and parts.scheme not in _CONTAINER_IN_USER)
    if has_password or parts.query:
        raise errors.InvalidInputError(
            f"{shown_url(url)}: the URL has credentials or a query in it, which are not accepted "
            "there, since URLs are shown and stored; pass credentials in the environment"
            + ("" if "=" in parts.query else "; in a pattern write * for any part of a name")
        )


def _may_use_http() -> bool:
    """Return whether the environment names a server of its own that speaks plain HTTP.

    Those variables are read by the library itself, but for the permission to use them.
    """
    requested = (os.environ.get(f"{name}_ALLOW_HTTP", "") for name in ("AWS", "AZURE", "GOOGLE"))
    return any(value.strip().lower() in _TRUE for value in requested) or any(
        os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS
    )


_STATUS: Final = re.compile(r"status code: (\d+)")
_LATE: Final = re.compile(r"kind: Timeout|TimedOut|timed out")
_NO_BUCKET: Final = re.compile("NoSuchBucket|ContainerNotFound|bucket does not exist")
_WRONG_REGION: Final = re.compile(
    "redirect without LOCATION|PermanentRedirect|AuthorizationHeaderMalformed|"
    "IllegalLocationConstraint"
)
_MACHINE: Final = re.compile(
    "latest/api/token|latest/meta-data|computeMetadata|metadata/identity|169.254.169.254"
)
"""Where a client asks for the credentials of the machine, if there are no others."""
_EXPECTED_REGION: Final = re.compile(r"expecting '([a-z0-9-]{1,40})'|<Region>([a-z0-9-]{1,40})<")


def is_missing_bucket(error: Exception) -> bool:
    """Return whether not only a file is absent, but all of its bucket."""
    return _NO_BUCKET.search(str(error)) is not None


def lacks_range(error: Exception) -> bool:
    """Return whether a file has no such range, as an empty one has none."""
    return "Invalid range" in str(error) or "status code: 416" in str(error)


def request_failure(where: str, error: Exception, cloud: Cloud | None) -> errors.DafError:
    """Return the error to raise for a failed request.

    Parameters
    ----------
    where
        What was asked for, as messages name it.
    error
        What the library raised.
    cloud
        The cloud that was asked; None for a web server.
    """
    text = str(error)
    status = _STATUS.search(text)
    if cloud is not None and (refused := _cloud_failure(where, error, cloud)) is not None:
        return refused
    if isinstance(error, FileNotFoundError):
        return errors.SourceNotFoundError(f"{where}: the server says that there is none (404)")
    if status is not None:
        return errors.RemoteError(
            f"{where}: the server answered with status {status.group(1)}, also when asked again"
        )
    reason = "did not answer in time" if _LATE.search(text) else "cannot be reached, or hung up"
    return errors.RemoteError(f"{where}: the server {reason}; try again later")


def _cloud_failure(where: str, error: Exception, cloud: Cloud) -> errors.DafError | None:
    name, text = type(error).__name__, str(error)
    if _MACHINE.search(text) is not None:
        return errors.AccessDeniedError(
            f"{where}: the environment has no credentials for {cloud.name}; {cloud.remedy}"
        )
    if is_missing_bucket(error):
        return errors.SourceNotFoundError(
            f"{where}: {cloud.name} has no bucket or container of this name; check the spelling, "
            "and the endpoint and account in the environment"
        )
    if cloud is AMAZON and _WRONG_REGION.search(text):
        region = _EXPECTED_REGION.search(text)
        which = (region.group(1) or region.group(2)) if region else "<its region>"
        return errors.RemoteError(
            f"{where}: the bucket is in another region than the one that was asked; set "
            f"AWS_REGION={which}"
        )
    if name in ("PermissionDeniedError", "UnauthenticatedError") or re.search(
        r"status code: 40[13]", text
    ):
        return errors.AccessDeniedError(
            f"{where}: {cloud.name} refuses access: the credentials of the environment are not "
            "valid or do not allow it, or there is nothing of this name and they do not allow to "
            f"know; {cloud.remedy}"
        )
    return None


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
    _check_url(pattern)
    steps = [part for part in path.split("/") if part]
    return [f"{root}/{name}" for name in sorted(_matching(root, open_access(root), "", steps))]


def _matching(root: str, store: Any, folder: str, steps: list[str]) -> Iterator[str]:
    """Yield the names below a folder of a bucket, one step of a pattern after another."""
    plain = next((at for at, step in enumerate(steps) if _MAGIC.search(step)), len(steps) - 1)
    folder = "/".join([*([folder] if folder else []), *steps[:plain]])
    step, rest = steps[plain], steps[plain + 1 :]
    try:
        listed = optional_import("obstore", extra="cloud").list_with_delimiter(
            store, folder or None
        )
    except Exception as error:  # noqa: BLE001 - its classes have no common root
        where = f"{shown_url(root)}/{folder}"
        raise request_failure(where, error, cloud_of(root)) from None
    files = [] if rest else [str(meta["path"]) for meta in listed["objects"]]
    for name in [*map(str, listed["common_prefixes"]), *files]:
        if fnmatchcase(name.rsplit("/", 1)[-1], step):
            yield from _matching(root, store, name, rest) if rest else [name]
