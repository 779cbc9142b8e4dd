# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""Computers for AI agents on your own server.

    import warren

    with warren.machine() as m:
        print(m.run("echo hello"))

Warren is the client, AsyncWarren the one for asyncio.
"""

from __future__ import annotations

from typing import Any

from . import types
from ._async.client import AsyncWarren
from ._async.files import AsyncFiles
from ._async.machine import AsyncMachine, AsyncMachines, AsyncProcess, AsyncStream
from ._async.terminal import AsyncTerminal
from ._config import VERSION as __version__
from ._errors import (
    BusyError,
    CorruptError,
    DeniedError,
    ExistsError,
    GuestError,
    InternalError,
    InterruptedRequestError,
    InvalidError,
    LimitError,
    NoSpaceError,
    NotFoundError,
    StateError,
    TimedOutError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedError,
    WarrenError,
)
from ._sync.client import Warren
from ._sync.files import Files
from ._sync.machine import Machine, Machines, Process, Stream
from ._sync.terminal import Terminal
from ._wire import CommandError, CommandTimeout, Output, Result


def machine(image: str | None = None, **options: Any) -> Machine:
    """Makes a machine on the server that the environment names: Warren().machine(...)."""
    return Warren().machine(image, **options)


__all__ = [
    "AsyncFiles", "AsyncMachine", "AsyncMachines", "AsyncProcess", "AsyncStream", "AsyncTerminal", "AsyncWarren", "BusyError",
    "CommandError", "CommandTimeout", "CorruptError", "DeniedError", "ExistsError", "Files", "GuestError", "InternalError",
    "InterruptedRequestError", "InvalidError", "LimitError", "Machine", "Machines", "NoSpaceError", "NotFoundError", "Output",
    "Process", "Result", "StateError", "Stream", "Terminal", "TimedOutError", "UnauthenticatedError", "UnavailableError",
    "UnsupportedError", "Warren", "WarrenError", "__version__", "machine", "types",
]  # fmt: skip
