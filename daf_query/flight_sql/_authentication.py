"""Who may ask: tokens, sent as ``Bearer``, or as the password of ``Basic``.

A client that sends ``Basic`` gets the ``Bearer`` to use from then on, as JDBC and ADBC expect it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyarrow import flight

from daf_storage import errors

_SHORTEST: Final = 16
CLIENT: Final = "client"
"""The name of the middleware that says who a client is."""


class Client(flight.ServerMiddleware):  # type: ignore[misc] # pyarrow has no types
    """Who a call is from."""

    def __init__(self, name: str, answer: Mapping[str, str]) -> None:
        self.name = name
        """Different for each token."""
        self._answer = dict(answer)

    def sending_headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return self._answer


class Tokens(flight.ServerMiddlewareFactory):  # type: ignore[misc] # the same
    """Lets those in who have one of some tokens; without tokens, everyone.

    Raises
    ------
    InvalidInputError
        A token is short enough to be guessed, or cannot be sent in a header.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        if isinstance(tokens, str):
            raise errors.InvalidInputError(
                "tokens= is a string; pass a list of tokens, of one too: tokens=[...]"
            )
        for number, token in enumerate(tokens, 1):
            which = "the token" if len(tokens) == 1 else f"token {number}"
            if len(token) < _SHORTEST:
                raise errors.InvalidInputError(
                    f"{which} has {len(token)} characters, and needs {_SHORTEST}, so that it "
                    'cannot be guessed; make one with python -c "import secrets; '
                    'print(secrets.token_urlsafe())"'
                )
            if not (token.isascii() and token.isprintable()) or " " in token:
                raise errors.InvalidInputError(
                    f"{which} has characters that a header cannot hold; use letters and digits"
                )
        self._digests = [_digest(token) for token in tokens]

    def start_call(self, info: Any, headers: Mapping[str, Sequence[Any]]) -> Client:  # noqa: ARG002 - as it is called
        """Let a call in, or not."""
        if not self._digests:
            return Client("", {})
        sent = next(iter(headers.get("authorization", ())), "")
        scheme, _, credentials = str(sent).partition(" ")
        token = _password(credentials) if scheme.lower() == "basic" else credentials
        if scheme.lower() not in ("basic", "bearer") or not self._is_known(token):
            raise flight.FlightUnauthenticatedError(
                "the server needs a token: send it as 'authorization: Bearer TOKEN', or as the "
                "password of any user"
            )
        answer = {"authorization": f"Bearer {token}"} if scheme.lower() == "basic" else {}
        return Client(_digest(token).hex(), answer)

    def _is_known(self, token: str) -> bool:
        """Compare with all, each in a time that does not depend on where they differ."""
        digest = _digest(token)
        return sum(hmac.compare_digest(digest, known) for known in self._digests) > 0


class AnyHandshake(flight.ServerAuthHandler):  # type: ignore[misc] # the same
    """Answers a handshake: who a client is, its headers say."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:  # noqa: ARG002 - as it is called
        """Answer with an empty message, for which some clients wait."""
        outgoing.write(b"")

    def is_valid(self, token: bytes) -> bytes:  # noqa: ARG002 - as it is called
        """Accept what `Tokens` has let in."""
        return b""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _password(credentials: str) -> str:
    """Return the password of ``user:password`` in base 64, which Go leaves without padding."""
    try:
        return (
            base64.b64decode(credentials + "=" * (-len(credentials) % 4), validate=True)
            .decode()
            .partition(":")[2]
        )
    except (binascii.Error, ValueError):
        return ""
