# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""What synchronous code waits with. _async/_io.py is its other half."""

from __future__ import annotations

import time

import httpx
import websockets.sync.client

HTTPClient = httpx.Client
HTTPTransport = httpx.BaseTransport
Socket = websockets.sync.client.ClientConnection
sleep = time.sleep


def connect(url: str, headers: dict[str, str], proxied: bool) -> Socket:
    return websockets.sync.client.connect(
        url, additional_headers=headers, max_size=1 << 20, proxy=True if proxied else None, compression=None
    )


def receive(socket: Socket, timeout: float | None) -> str | bytes:
    """The next message. TimeoutError: there was none in time."""
    return socket.recv(timeout)
