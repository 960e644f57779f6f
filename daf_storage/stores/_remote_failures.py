"""Failures of requests to servers as errors of this software.

The messages of the library are only searched: they have whole URLs in them, signatures too.
"""

from __future__ import annotations

import re
from typing import Final

from daf_storage import errors
from daf_storage.stores._remote_access import AMAZON, Cloud

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
