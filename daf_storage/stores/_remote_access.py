"""Access to servers: from a URL and the environment to a client, without secrets in between.

Credentials come from the variables and files that the tools of each cloud read, never from a URL.
They stay in the client: no message, name, `repr`, pickle or provenance has them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
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
        )


def _may_use_http() -> bool:
    """Return whether the environment names a server of its own that speaks plain HTTP.

    Those variables are read by the library itself, but for the permission to use them.
    """
    asked = (os.environ.get(f"{name}_ALLOW_HTTP", "") for name in ("AWS", "AZURE", "GOOGLE"))
    return any(value.strip().lower() in _TRUE for value in asked) or any(
        os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS
    )
