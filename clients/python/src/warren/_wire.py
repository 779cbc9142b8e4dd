# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""What commands print and how they end, for both clients."""

from __future__ import annotations

import base64
import codecs
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ._errors import GuestError, TimedOutError, WarrenError, from_body

# The most bytes that run() keeps of each stream. A stream() has no limit, since it keeps nothing.
MOST_OUTPUT = 64 << 20


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it printed. As text it is its standard output."""

    stdout: str
    stderr: str
    exit_code: int
    signal: str = ""  # the signal that ended it, such as "KILL"
    truncated: bool = False  # it printed more than was kept

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    def __str__(self) -> str:
        return self.stdout


class CommandError(WarrenError):
    """A command that was run with check=True failed."""

    kind = "command"

    def __init__(self, result: Result) -> None:
        last = (result.stderr or result.stdout).rstrip().rsplit("\n", 1)[-1]
        super().__init__(f"the command ended with exit code {result.exit_code}" + (f": {last}" if last else ""), code="COMMAND_FAILED")
        self.result = result


class CommandTimeout(TimedOutError):
    """A command ran longer than its timeout and was ended."""

    def __init__(self, result: Result, seconds: float | None) -> None:
        super().__init__(f"the command ran longer than {seconds} s and was ended", code="EXEC_TIMED_OUT", hint="give a longer timeout")
        self.result = result


@dataclass(frozen=True)
class Output:
    """A piece of what a command prints."""

    stream: Literal["stdout", "stderr"]
    data: bytes
    text: str  # a character that is cut in two is in the later piece


@dataclass
class Messages:
    """Turns the lines of an exec answer into output, and keeps how the command ended."""

    process_id: str = ""
    status: dict[str, Any] | None = None
    _decoders: dict[str, codecs.IncrementalDecoder] = field(default_factory=dict)

    def take(self, line: str) -> Output | None:
        if not line.strip():
            return None
        m = json.loads(line)
        match m.get("type"):
            case "started":
                self.process_id = m["process"]["id"]
            case "stdout" | "stderr" as name:
                data = base64.b64decode(m.get("data", ""))
                decoder = self._decoders.setdefault(name, codecs.getincrementaldecoder("utf-8")("replace"))
                return Output(name, data, decoder.decode(data))
            case "exit":
                self.status = m["status"]
            case "error":
                raise from_body(200, m.get("error"))
        return None

    def ended(self) -> dict[str, Any]:
        if self.status is None:
            raise GuestError(f"the output of {self.process_id or 'the command'} ended before the command did")
        return self.status


class Collected:
    """Keeps what a command prints, up to a limit."""

    def __init__(self) -> None:
        self._kept: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._truncated = False

    def add(self, o: Output) -> None:
        kept = self._kept[o.stream]
        room = MOST_OUTPUT - len(kept)
        kept += o.data[:room]
        self._truncated |= len(o.data) > room

    def result(self, status: Mapping[str, Any]) -> Result:
        out, err = (self._kept[name].decode("utf-8", "replace") for name in ("stdout", "stderr"))
        return Result(out, err, status["code"], status.get("signal", ""), self._truncated)


def command_body(
    command: str | Sequence[str],
    cwd: str | None,
    env: Mapping[str, str] | None,
    user: str | None,
    timeout: float | None,
) -> dict[str, Any]:
    """The members of a request that runs a command."""
    body: dict[str, Any] = {"command": command} if isinstance(command, str) else {"argv": list(command)}
    if cwd is not None:
        body["cwd"] = cwd
    if env:
        body["env"] = dict(env)
    if user is not None:
        body["user"] = user
    if timeout is not None:
        body["timeoutMs"] = max(1, int(timeout * 1000))
    return body


def without_none(**members: Any) -> dict[str, Any]:
    """The members that were given."""
    return {k: v for k, v in members.items() if v is not None}
