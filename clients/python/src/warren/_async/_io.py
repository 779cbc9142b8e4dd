# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""What asynchronous code waits with. _sync/_io.py is its other half."""

from __future__ import annotations

import asyncio

import httpx
import websockets.asyncio.client

AsyncHTTPClient = httpx.AsyncClient
AsyncHTTPTransport = httpx.AsyncBaseTransport
AsyncSocket = websockets.asyncio.client.ClientConnection
sleep = asyncio.sleep


async def connect(url: str, headers: dict[str, str], proxied: bool) -> AsyncSocket:
    return await websockets.asyncio.client.connect(
        url, additional_headers=headers, max_size=1 << 20, proxy=True if proxied else None, compression=None
    )


async def receive(socket: AsyncSocket, timeout: float | None) -> str | bytes:
    """The next message. TimeoutError: there was none in time."""
    return await asyncio.wait_for(socket.recv(), timeout)
