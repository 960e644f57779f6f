"""Requests of the page: JSON objects and positions, checked before anything is done with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.requests import Request

from daf_query.explore._failures import RequestError, refusal

_T = TypeVar("_T")

_MAX_JSON_BYTES: Final = 4 << 20
_MAX_QUERY_BYTES: Final = 1 << 20
_MAX_DEPTH_ERROR: Final = "the request is nested too deeply"
_KINDS: Final[Mapping[type, str]] = {
    str: "a string",
    int: "a whole number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


async def body_of(request: Request, *, max_bytes: int) -> bytes:
    """Return the body of a request.

    Raises
    ------
    RequestError
        It is larger than it may be.
    """
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > max_bytes:
            raise refusal(413, f"the request is larger than {max_bytes:,} bytes")
        parts.append(part)
    return b"".join(parts)


async def asked_of(request: Request) -> Asked:
    """Return the JSON object that a request has.

    Raises
    ------
    RequestError
        It has none.
    """
    body = await body_of(request, max_bytes=_MAX_JSON_BYTES)
    try:
        content = json.loads(body)
    except ValueError as error:
        raise refusal(400, f"the request is no JSON: {error}") from None
    except RecursionError:
        raise refusal(400, _MAX_DEPTH_ERROR) from None
    if not isinstance(content, dict):
        raise refusal(400, "the request is no JSON object")
    return Asked(content)


def address_part(request: Request, name: str) -> str:
    """Return what an address has after ``NAME=``.

    Raises
    ------
    RequestError
        It has no such part.
    """
    value = request.query_params.get(name)
    if not value:
        raise refusal(400, f"the address needs {name!r}, as in ?{name}=...")
    return value


@dataclass(frozen=True, slots=True)
class Asked:
    """A JSON object that the page sent, or a part of one."""

    content: Mapping[str, Any]

    def string(self, name: str) -> str:
        """Return a string that has to be there."""
        return self._of(name, str)

    def optional_string(self, name: str) -> str | None:
        """Return a string, or None where it is missing, null or empty."""
        return None if self.content.get(name) in (None, "") else self.string(name)

    def sql(self, name: str = "sql") -> str:
        """Return SQL, which has to be there."""
        sql = self.string(name)
        if len(sql.encode("utf-8", "replace")) > _MAX_QUERY_BYTES:
            raise refusal(413, f"{name!r} is longer than {_MAX_QUERY_BYTES:,} bytes")
        return sql

    def whole_number(self, name: str, default: int) -> int:
        """Return a number that is not negative."""
        number = self._of(name, int) if name in self.content else default
        if number < 0:
            raise refusal(400, f"{name!r} is negative: {number}")
        return number

    def flag(self, name: str) -> bool:
        """Return whether something is asked for; by default not."""
        return self._of(name, bool) if self.content.get(name) is not None else False

    def part(self, name: str) -> Asked:
        """Return an object that has to be there."""
        return Asked(self._of(name, dict))

    def strings(self, name: str) -> list[str]:
        """Return a list of strings that has to be there."""
        listed = self._of(name, list)
        if not all(isinstance(each, str) for each in listed):
            raise refusal(400, f"{name!r} has to be a list of strings")
        return listed

    def _of(self, name: str, kind: type[_T]) -> _T:
        value = self.content.get(name)
        is_other = isinstance(value, bool) and kind is not bool
        if not isinstance(value, kind) or is_other:
            raise _wrong(name, kind)
        return value


def _wrong(name: str, kind: type) -> RequestError:
    return refusal(400, f"the request needs {name!r}, {_KINDS[kind]}")
