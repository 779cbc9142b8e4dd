# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a machine."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from .. import types
from .._errors import CorruptError, from_body
from .._wire import without_none

if TYPE_CHECKING:
    from .client import Warren


class Files:
    """Reads and writes files. Paths that are not absolute begin in the user's home."""

    def __init__(self, client: Warren, machine: str) -> None:
        self._client = client
        self._machine = machine

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        answer = self._client._send("GET", f"{self._machine}/raw/{quote(path, safe='')}")
        length = answer.headers.get("warren-length")
        if length is not None and int(length) != len(answer.content):
            raise CorruptError(f"{path}: {len(answer.content)} of {length} bytes have come")
        return answer.content

    def read_text(self, path: str) -> str:
        """The text of a file."""
        return (self.read(path)).decode()

    def write(self, path: str, data: str | bytes, *, mode: int | None = None, user: str | None = None) -> None:
        """Writes a file, completely or not at all. Directories above it are made."""
        self._client._send(
            "PUT",
            f"{self._machine}/raw/{quote(path, safe='')}",
            query=without_none(parents=True, mode=None if mode is None else f"{mode:o}"),
            content=data.encode() if isinstance(data, str) else data,
            headers={"Content-Type": "application/octet-stream", **_as(user)},
        )

    def list(self, path: str) -> builtins.list[types.FileInfo]:
        """The entries of a directory."""
        found = self._client._json("GET", self._machine + "/fs/list", query={"path": path})
        return cast(builtins.list[types.FileInfo], found["files"])

    def stat(self, path: str) -> types.FileInfo:
        """One entry. A link is not followed."""
        return cast(types.FileInfo, self._client._json("GET", self._machine + "/fs/stat", query={"path": path}))

    def mkdir(self, path: str) -> None:
        """Makes a directory, and those above it."""
        self._change("mkdir", path=path, parents=True)

    def rename(self, old: str, new: str) -> None:
        """Gives an entry another name."""
        self._change("rename", **{"from": old, "to": new})

    def remove(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file or a directory, with `recursive` with all that is in it."""
        self._change("remove", path=path, recursive=recursive)

    def watch(self, path: str) -> Iterator[types.FileEvent]:
        """Changes below a directory, as they happen."""
        query = {"path": path, "recursive": True}
        answer = self._client._send("GET", self._machine + "/fs/watch", query=query, stream=True)
        for line in self._client._lines(answer):
            if not line.strip():
                continue  # the server shows that it is there
            event = json.loads(line)
            if "code" in event:
                raise from_body(200, event)
            yield cast(types.FileEvent, event)

    def _change(self, verb: str, **body: Any) -> None:
        self._client._json("POST", f"{self._machine}/fs/{verb}", json=body)


def _as(user: str | None) -> dict[str, str]:
    return {} if user is None else {"X-Freestyle-Vm-Linux-User-Id": user}
