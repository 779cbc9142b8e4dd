# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""Terminals of a machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

import websockets.exceptions

from .. import _config, types
from .._errors import UnavailableError, WarrenError, from_answer
from . import _io

if TYPE_CHECKING:
    from .client import Warren


class Terminal:
    """A terminal, attached. It stays open in the machine when this attachment ends."""

    def __init__(self, client: Warren, machine: str, socket: _io.Socket) -> None:
        self._client, self._machine, self._socket = client, machine, socket
        self.session_id = ""
        self.exit_code: int | None = None  # of its program, once that has ended

    @classmethod
    def _attach(
        cls, client: Warren, machine: str, at: str, query: Mapping[str, Any], user: str | None
    ) -> Terminal:
        url = "ws" + client.url.removeprefix("http") + machine + at + "?" + urlencode(query, doseq=True)
        headers = _config.headers(client._key)
        if user is not None:
            headers["X-Freestyle-Vm-Linux-User-Id"] = user
        try:
            socket = _io.connect(url, headers, client._proxied)
        except websockets.exceptions.InvalidStatus as err:
            raise from_answer(err.response.status_code, bytes(err.response.body or b"")) from err
        except (OSError, websockets.exceptions.WebSocketException) as err:
            raise UnavailableError(f"{client.url}: no server answers: {err}", hint="start the server: `warren serve`") from err
        terminal = cls(client, machine, socket)
        first = json.loads(_io.receive(socket, 60.0))
        terminal.session_id = first["session"]["sessionId"]
        return terminal

    def write(self, data: str | bytes) -> None:
        """Types into it."""
        self._socket.send(data.encode() if isinstance(data, str) else data)

    def read(self, timeout: float | None = None) -> bytes:
        """The next output; b"" once its program has ended. TimeoutError: there was none in time."""
        while self.exit_code is None:
            try:
                message = _io.receive(self._socket, timeout)
            except websockets.exceptions.ConnectionClosed as err:
                raise self._closed(err) from err
            if isinstance(message, bytes):
                return message
            told = json.loads(message)
            if told.get("type") == "exited":
                self.exit_code = int(told.get("exitCode", 0))
        return b""

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data

    def _closed(self, err: websockets.exceptions.ConnectionClosed) -> WarrenError:
        why = err.rcvd.reason if err.rcvd is not None else ""
        return UnavailableError(f"terminal {self.session_id}: {why or 'the connection ended'}", hint="attach to it again")

    def resize(self, cols: int, rows: int) -> None:
        """Changes its size."""
        self._socket.send(json.dumps({"type": "resize", "cols": cols, "rows": rows}))

    def signal(self, name: str) -> None:
        """Sends a signal to its programs, such as "INT"."""
        self._socket.send(json.dumps({"type": "signal", "signal": "SIG" + name.removeprefix("SIG")}))

    def screen(self) -> str:
        """What is on its screen, as text."""
        return str(self._client._json("GET", self._at + "/screen"))

    def send(self, text: str) -> types.PtyOutput:
        """Types text, waits until it is quiet, and returns the output: for programs without a screen."""
        return cast(types.PtyOutput, self._client._json("POST", self._at + "/input", json={"data": text}))

    def detach(self) -> None:
        """Ends this attachment. The terminal stays open."""
        self._socket.close()

    def close(self) -> None:
        """Ends its programs."""
        self._socket.close()
        self._client._json("DELETE", self._at)

    @property
    def _at(self) -> str:
        return f"{self._machine}/pty/sessions/{_config.segment(self.session_id)}"

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.detach()
