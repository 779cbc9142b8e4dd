# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""A machine, and the commands that run in it."""

from __future__ import annotations

import base64
import builtins
import time
from collections.abc import Iterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import httpx

from .. import _config, types
from .._errors import NotFoundError, TimedOutError
from .._wire import Collected, CommandError, CommandTimeout, Messages, Output, Result, command_body, without_none
from .files import Files
from .terminal import Terminal

if TYPE_CHECKING:
    from .client import Warren

TURN = 60.0  # the longest that one request waits for something


class Machine:
    """A machine: a whole Linux computer. `with` deletes it at the end, if this program made it."""

    def __init__(self, client: Warren, id: str, name: str = "", *, delete_on_exit: bool = False) -> None:
        self._client = client
        self._path = f"/v1/vms/{_config.segment(id)}"
        self.id = id
        self.name = name
        self.delete_on_exit = delete_on_exit
        self.files = Files(client, self._path)

    def __repr__(self) -> str:
        return f"<machine {self.name or self.id}>"

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.delete_on_exit:
            try:
                self.delete()
            except NotFoundError:
                pass  # it was deleted within the block

    def info(self) -> types.VM:
        """Its record: state, size, image and more."""
        return cast(types.VM, self._client._json("GET", self._path))

    def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        input: str | bytes | None = None,
        check: bool = False,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
    ) -> Result:
        """Runs a command and returns its output and exit code.

        A string is run by the shell, a list as it is. `timeout` is in seconds; a command
        that runs longer is ended, and CommandTimeout raised. With `check`, an exit code
        other than 0 raises CommandError. on_stdout and on_stderr get the output as it comes.
        If this program ends first, the command is ended.
        """
        kept = Collected()
        stream = self.stream(command, cwd=cwd, env=env, user=user, timeout=timeout, input=input)
        with stream:
            for piece in stream:
                kept.add(piece)
                told = on_stdout if piece.stream == "stdout" else on_stderr
                if told is not None and piece.text:
                    told(piece.text)
        result = kept.result(stream.status)
        if stream.status.get("timedOut"):
            raise CommandTimeout(result, timeout)
        if check and not result.ok:
            raise CommandError(result)
        return result

    def stream(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        input: str | bytes | None = None,
    ) -> Stream:
        """Runs a command and returns its output piece by piece: iterate over it.

        Leaving the loop early and closing the stream ends the command.
        """
        body = {**command_body(command, cwd, env, user, timeout), "owned": True}
        if input is not None:
            data = input.encode() if isinstance(input, str) else input
            body |= {"stdin": True, "input": base64.b64encode(data).decode()}
        answer = self._client._send("POST", self._path + "/exec", json=body, stream=True)
        return Stream(self._client, answer)

    def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> Process:
        """Starts a command in the background. It keeps running when this program ends."""
        made = self._client._json("POST", self._path + "/processes", json=command_body(command, cwd, env, user, None))
        return Process(self._client, self._path, made["id"])

    def processes(self) -> builtins.list[types.Process]:
        """The commands that were started, running or ended."""
        found = self._client._json("GET", self._path + "/processes")
        return cast(builtins.list[types.Process], found["processes"])

    def process(self, id: str) -> Process:
        """The command with an id, such as "p1"."""
        return Process(self._client, self._path, id)

    def wait_port(self, port: int, timeout: float | None = None) -> None:
        """Waits until a program in the machine accepts connections on a TCP port."""
        _waiting(self._client, f"{self._path}/ports/{port}/wait", timeout)

    def fork(
        self, count: int = 1, *, name: str | None = None, ttl: int | None = None, network: str | None = None, volumes: str | None = None
    ) -> Machines:
        """Makes running copies of it, all or none, while it keeps running.

        With a `name` the copies are NAME-1, NAME-2 and so on. `with` over the list
        deletes them all at the end.
        """
        body = without_none(count=count, name=name, ttlSeconds=ttl, network=network, volumes=volumes)
        made = self._client._json("POST", self._path + "/fork", json=body)
        return Machines(Machine(self._client, f["id"], f.get("name", ""), delete_on_exit=True) for f in made["forks"])

    def snapshot(self, name: str | None = None, *, disk_only: bool | None = None) -> str:
        """Captures a snapshot while it keeps running. Its id is an image for machine()."""
        made = self._client._json("POST", self._path + "/snapshot", json=without_none(name=name, diskOnly=disk_only))
        return str(made["snapshotId"])

    def rollback(self, to: str | None = None) -> types.RolledBackVM:
        """Restores a generation or a snapshot of it; without `to` the newest."""
        return cast(types.RolledBackVM, self._client._json("POST", self._path + "/rollback", json=without_none(to=to)))

    def suspend(self) -> None:
        """Saves memory and disk and ends it. resume() continues the same programs."""
        self._client._json("POST", self._path + "/suspend", json={})

    def resume(self) -> None:
        """Starts it, if it is suspended or stopped."""
        self._client._json("POST", self._path + "/start", json={})

    def stop(self) -> None:
        """Shuts it down: its disk is kept, its memory is not."""
        self._client._json("POST", self._path + "/stop", json={})

    def delete(self) -> None:
        """Deletes it, with its disk."""
        self._client._json("DELETE", self._path)

    def terminal(
        self,
        command: str | None = None,
        *,
        cols: int = 80,
        rows: int = 24,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        session_id: str | None = None,
    ) -> Terminal:
        """Opens a terminal with a login shell, or with a command, and attaches to it."""
        variables = [f"{k}={v}" for k, v in (env or {}).items()]
        query = without_none(cols=cols, rows=rows, exec=command, cwd=cwd, sessionId=session_id, env=variables or None)
        return Terminal._attach(self._client, self._path, "/pty", query, user)

    def attach(self, session_id: str, *, cols: int = 80, rows: int = 24, user: str | None = None) -> Terminal:
        """Attaches to a terminal that is open."""
        at = f"/pty/sessions/{_config.segment(session_id)}"
        return Terminal._attach(self._client, self._path, at, {"cols": cols, "rows": rows}, user)

    def preview(self, port: int, *, public: bool | None = None) -> types.Preview:
        """A port at the preview gateway; with `public` it is made public, or private again."""
        at = f"{self._path}/previews/{port}"
        if public is None:
            return cast(types.Preview, self._client._json("GET", at))
        return cast(types.Preview, self._client._json("PUT", at, json={"public": public}))

    def preview_link(self, port: int, *, seconds: int = 3600) -> str:
        """An address that opens a private port in a browser for a limited time."""
        made = self._client._json("POST", f"{self._path}/previews/{port}/links", json={"forSeconds": seconds})
        return str(made["url"])


def _waiting(client: Warren, path: str, timeout: float | None) -> Any:
    """Asks in turns, so that no request waits for longer than connections live."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = TURN if end is None else max(0.001, min(TURN, end - time.monotonic()))
        try:
            return client._json("POST", path, query={"timeoutMs": int(left * 1000)})
        except TimedOutError as err:
            if err.code != "EXEC_TIMED_OUT" or (end is not None and time.monotonic() >= end):
                raise


class Machines(builtins.list[Machine]):
    """A list of machines. `with` deletes at the end those that this program made."""

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *exc: object) -> None:
        failed: BaseException | None = None
        for machine in self:
            try:
                machine.__exit__(*exc)
            except Exception as err:  # the others are deleted before it is raised
                failed = failed or err
        if failed is not None:
            raise failed


class Stream:
    """The output of a command that runs."""

    def __init__(self, client: Warren, answer: httpx.Response) -> None:
        self._client, self._answer = client, answer
        self._messages = Messages()

    @property
    def process_id(self) -> str:
        """The command's id, such as "p1", once it has started."""
        return self._messages.process_id

    @property
    def status(self) -> Mapping[str, Any]:
        """How the command ended: code, signal, timedOut."""
        return self._messages.ended()

    @property
    def exit_code(self) -> int:
        return int(self.status["code"])

    def __iter__(self) -> Iterator[Output]:
        for line in self._client._lines(self._answer):
            piece = self._messages.take(line)
            if piece is not None:
                yield piece
        self._messages.ended()

    def close(self) -> None:
        """Ends the command, if it still runs."""
        self._answer.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Process:
    """A command in the background."""

    def __init__(self, client: Warren, machine: str, id: str) -> None:
        self._client = client
        self._path = f"{machine}/processes/{_config.segment(id)}"
        self.id = id

    def info(self) -> types.Process:
        """Its record. Once it has ended, that has an exitCode."""
        return cast(types.Process, self._client._json("GET", self._path))

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end and returns its exit code. TimedOutError: it still runs."""
        ended = _waiting(self._client, self._path + "/wait", timeout)
        return int(ended["exitCode"])

    def output(self) -> str:
        """What it has printed until now."""
        answer = self._client._send("GET", self._path + "/log")
        return answer.content.decode("utf-8", "replace")

    def follow(self) -> Iterator[str]:
        """Its output, line by line, until it ends."""
        answer = self._client._send("GET", self._path + "/log", query={"follow": True}, stream=True)
        for line in self._client._lines(answer):
            yield line

    def signal(self, name: str = "TERM") -> None:
        """Sends a signal to it and its children."""
        self._client._json("POST", self._path + "/signal", json={"signal": name})

    def kill(self) -> None:
        """Ends it at once."""
        self.signal("KILL")
