"""Access to servers: from a URL and the environment to a client, without secrets in between.

Credentials come from the variables and files that the tools of each cloud read, never from a URL.
They stay in the client: no message, name, `repr`, pickle or provenance has them.
"""

from __future__ import annotations

import configparser
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from daf_storage import errors
from daf_storage.base import SERVER_CLIENT, optional_import

SILENT_SECONDS: Final = 10.0
RETRIES: Final = 4
_WHOLE_SECONDS: Final = 600
"""How long an answer may take of which something comes again and again."""
_CONNECT_SECONDS: Final = 5
_PROBE_SECONDS: Final = 1
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
    """How the data of one cloud is reached."""

    name: str
    """As messages call it."""
    credentials: tuple[str, ...]
    """Variables of the environment, each of which says where credentials come from."""
    unsigned: str
    """The variable that asks for no credentials."""
    files: tuple[tuple[str, str], ...]
    """Files with credentials: the variable with the path, and the usual path."""
    metadata: tuple[str, str]
    """The server that gives a machine in this cloud its own: the variable, and the usual host."""

    def has_credentials(self) -> bool:
        """Return whether the environment says where credentials come from, or that none are."""
        variables = (*self.credentials, self.unsigned)
        return any(os.environ.get(name) for name in variables) or any(
            Path(os.environ.get(name) or usual).expanduser().is_file() for name, usual in self.files
        )

    def has_metadata_server(self) -> bool:
        """Return whether this machine runs in the cloud: its metadata server can be reached."""
        variable, usual = self.metadata
        address = os.environ.get(variable) or usual
        parts = urlsplit(address if "//" in address else f"//{address}")
        try:
            with socket.create_connection((parts.hostname, parts.port or 80), _PROBE_SECONDS):
                return True
        except (OSError, ValueError):
            return False


AMAZON: Final = Cloud(
    "S3",
    (
        "AWS_ACCESS_KEY_ID",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
    ),
    "AWS_SKIP_SIGNATURE",
    (),  # profiles are read here: the library does not know them
    ("AWS_METADATA_ENDPOINT", "169.254.169.254"),
)
GOOGLE: Final = Cloud(
    "Google Cloud Storage",
    (
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_BEARER_TOKEN",
    ),
    "GOOGLE_SKIP_SIGNATURE",
    (("GOOGLE_APPLICATION_CREDENTIALS", "~/.config/gcloud/application_default_credentials.json"),),
    ("GCE_METADATA_HOST", "metadata.google.internal"),
)
AZURE: Final = Cloud(
    "Azure",
    (
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_TOKEN",
        "AZURE_STORAGE_CLIENT_ID",
        "AZURE_CLIENT_ID",
        "AZURE_FEDERATED_TOKEN_FILE",
        "AZURE_USE_AZURE_CLI",
        "AZURE_STORAGE_USE_EMULATOR",
        "AZURE_MSI_ENDPOINT",
        "IDENTITY_ENDPOINT",
    ),
    "AZURE_SKIP_SIGNATURE",
    (),
    ("AZURE_MSI_ENDPOINT", "169.254.169.254"),
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
    AccessDeniedError
        The environment has no credentials, and does not ask for none.
    """
    cloud = cloud_of(url)
    options: dict[str, Any] = {
        "timeout": f"{_WHOLE_SECONDS}s",
        "read_timeout": f"{round(silent_seconds * 1000)}ms",
        "connect_timeout": f"{round(min(silent_seconds, _CONNECT_SECONDS) * 1000)}ms",
    }
    settings: dict[str, str] = {}
    if cloud is None:
        if url.startswith("http://"):
            options["allow_http"] = True
    else:
        _check_url(url)
        settings = _settings(cloud, url)
        options["allow_http"] = _may_use_http(settings.get("endpoint", ""))
    limit = timedelta(seconds=silent_seconds)
    SERVER_CLIENT.enter()
    from_url = optional_import("obstore.store", extra="cloud").from_url
    try:
        return from_url(
            url.rstrip("/"),
            client_options=options,
            retry_config={"max_retries": retries, "retry_timeout": limit},
            **settings,
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


def _may_use_http(endpoint: str) -> bool:
    """Return whether the environment names a server of its own that speaks plain HTTP.

    Those variables are read by the library itself, but for the permission to use them.
    """
    addresses = [endpoint, *(os.environ.get(name, "") for name in _ENDPOINTS)]
    is_allowed = any(_is_true(f"{name}_ALLOW_HTTP") for name in ("AWS", "AZURE", "GOOGLE"))
    return is_allowed or any(address.startswith("http://") for address in addresses)


def _is_true(variable: str) -> bool:
    return os.environ.get(variable, "").strip().lower() in _TRUE


def _settings(cloud: Cloud, url: str) -> dict[str, str]:
    """Return what the library does not read from the environment itself."""
    settings = _amazon_profile(url) if cloud is AMAZON else {}
    if "access_key_id" in settings or cloud.has_credentials():
        return settings
    is_off = cloud is AMAZON and _is_true("AWS_EC2_METADATA_DISABLED")
    if is_off or not cloud.has_metadata_server():
        raise errors.AccessDeniedError(
            f"{shown_url(url)}: the environment has no credentials for {cloud.name}; "
            f"{no_credentials_remedy(cloud)}"
        )
    return settings


def no_credentials_remedy(cloud: Cloud) -> str:
    """Say how credentials are passed, and how a public bucket is read without."""
    ways = {
        "S3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        "Google Cloud Storage": "set GOOGLE_APPLICATION_CREDENTIALS, or run 'gcloud auth "
        "application-default login'",
        "Azure": "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or "
        "AZURE_USE_AZURE_CLI=true after 'az login'",
    }
    return f"{ways[cloud.name]}; for a public bucket, set {cloud.unsigned}=true"


def _amazon_profile(url: str) -> dict[str, str]:
    """Return the keys, the region and the endpoint of the profile, as the tools of AWS choose it.

    Variables of the environment go before a profile.
    """
    name = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    profiles = _profiles(url, "AWS_CONFIG_FILE", "~/.aws/config")
    for key, values in _profiles(url, "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials").items():
        profiles[key] = {**profiles.get(key, {}), **values}
    profile = profiles.get(name or "default", {})
    settings = {}
    if not any(os.environ.get(key) for key in ("AWS_REGION", "AWS_DEFAULT_REGION")):
        settings["region"] = profile.get("region", "")
    if not any(os.environ.get(key) for key in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")):
        settings["endpoint"] = profile.get("endpoint_url", "")
    if not AMAZON.has_credentials():
        if name is not None and name not in profiles:
            known = errors.known_names(profiles, none="no profiles")
            raise errors.InvalidInputError(
                f"{shown_url(url)}: there is no profile {name!r} for AWS; it has {known}"
            )
        settings |= _keys_of(url, name or "default", profile)
    return {key: value for key, value in settings.items() if value}


def _keys_of(url: str, name: str, profile: Mapping[str, str]) -> dict[str, str]:
    if not profile.get("aws_access_key_id") and any(
        key.startswith("sso_") or key in ("role_arn", "credential_process") for key in profile
    ):
        raise errors.AccessDeniedError(
            f"{shown_url(url)}: the profile {name!r} has no keys, but says how they are asked for, "
            "which the tools of AWS do; run: "
            f'eval "$(aws configure export-credentials --profile {name} --format env)"'
        )
    return {
        "access_key_id": profile.get("aws_access_key_id", ""),
        "secret_access_key": profile.get("aws_secret_access_key", ""),
        "session_token": profile.get("aws_session_token", ""),
    }


def _profiles(url: str, variable: str, usual: str) -> dict[str, dict[str, str]]:
    """Return the profiles in a file of AWS; none if there is no such file."""
    path = Path(os.environ.get(variable) or usual).expanduser()
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(path.read_text("utf-8"))
    except (OSError, RuntimeError):
        return {}
    except (configparser.Error, UnicodeDecodeError):
        raise errors.InvalidInputError(
            f"{shown_url(url)}: the profiles in {path} cannot be read: the file is malformed"
        ) from None
    return {re.sub(r"^profile\s+", "", key): dict(parser[key]) for key in parser.sections()}
