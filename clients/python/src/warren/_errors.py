# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""The errors of this package. Each kind of failure of the server has a class."""

from __future__ import annotations

import json
from typing import Any


class WarrenError(Exception):
    """A request failed. `hint` says what to do next, `code` is for programs."""

    kind = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        status: int = 0,
        hint: str = "",
        request_id: str = "",
        fields: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status  # of HTTP; 0: there was no answer
        self.hint = hint
        self.request_id = request_id
        self.fields = fields or {}  # what else the answer says about this error

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.hint})" if self.hint else self.message


class InternalError(WarrenError):
    """A bug in Warren."""


class InvalidError(WarrenError):
    """The request is malformed or contradicts itself."""

    kind = "invalid"


class UnauthenticatedError(WarrenError):
    """No or unknown API key or token."""

    kind = "unauthenticated"


class DeniedError(WarrenError):
    """This key or token may not do that."""

    kind = "denied"


class NotFoundError(WarrenError):
    """No such machine, image, process or path."""

    kind = "not-found"


class ExistsError(WarrenError):
    """The name or id is taken."""

    kind = "exists"


class StateError(WarrenError):
    """Not possible in the machine's state."""

    kind = "state"


class BusyError(WarrenError):
    """Another operation is in progress."""

    kind = "busy"


class LimitError(WarrenError):
    """A limit or the host's memory is reached."""

    kind = "limit"


class NoSpaceError(WarrenError):
    """No disk space."""

    kind = "no-space"


class UnsupportedError(WarrenError):
    """This host, image or version cannot do that."""

    kind = "unsupported"


class UnavailableError(WarrenError):
    """The server is not running or not ready, or the connection to it broke."""

    kind = "unavailable"


class TimedOutError(WarrenError, TimeoutError):
    """A deadline has passed."""

    kind = "timeout"


class GuestError(WarrenError):
    """The guest does not answer or answers wrongly."""

    kind = "guest"


class CorruptError(WarrenError):
    """Data failed its check."""

    kind = "corrupt"


class InterruptedRequestError(WarrenError):
    """The server ended the request before it was done."""

    kind = "cancelled"


_CLASSES: dict[str, type[WarrenError]] = {
    c.kind: c
    for c in (
        InternalError, InvalidError, UnauthenticatedError, DeniedError, NotFoundError, ExistsError, StateError, BusyError,
        LimitError, NoSpaceError, UnsupportedError, UnavailableError, TimedOutError, GuestError, CorruptError, InterruptedRequestError,
    )
}  # fmt: skip
_NAMED = ("code", "error", "message", "kind", "op", "subject", "hint", "requestId")


def from_body(status: int, body: Any) -> WarrenError:
    """The error that an answer describes."""
    if not isinstance(body, dict) or not isinstance(body.get("code"), str):
        return UnavailableError(
            f"the answer is not a Warren server's (status {status})",
            status=status,
            hint="check the address: WARREN_API_URL or url, and whether a proxy is in between",
        )
    return _CLASSES.get(str(body.get("kind")), InternalError)(
        str(body.get("message", body["code"])),
        code=body["code"],
        status=status,
        hint=str(body.get("hint", "")),
        request_id=str(body.get("requestId", "")),
        fields={k: v for k, v in body.items() if k not in _NAMED},
    )


def from_answer(status: int, data: bytes) -> WarrenError:
    """The error that the bytes of an answer describe."""
    try:
        return from_body(status, json.loads(data))
    except ValueError:
        return from_body(status, None)
