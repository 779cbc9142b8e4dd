# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""A deep agent whose files and commands are in a machine."""

import os
import sys

import warren
from deepagents import create_deep_agent
from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox


class WarrenSandbox(BaseSandbox):
    """A machine as a backend. The base class makes ls, read, write, edit, glob and grep of these four."""

    def __init__(self, machine: warren.Machine) -> None:
        self.machine = machine

    @property
    def id(self) -> str:
        return self.machine.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        try:
            ended = self.machine.run(command, timeout=timeout or 600)
        except warren.CommandTimeout as late:
            return ExecuteResponse(output=f"{late.result.stdout}{late.result.stderr}\n{late}", exit_code=124)
        return ExecuteResponse(output=ended.stdout + ended.stderr, exit_code=ended.exit_code, truncated=ended.truncated)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._failed(self.machine.files.write, path, data)) for path, data in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        kept: dict[str, bytes] = {}
        failed = {path: self._failed(lambda p: kept.update({p: self.machine.files.read(p)}), path) for path in paths}
        return [FileDownloadResponse(path=path, content=kept.get(path), error=failed[path]) for path in paths]

    @staticmethod
    def _failed(work, *args) -> str | None:
        """Does the work, and returns what went wrong."""
        try:
            work(*args)
        except warren.NotFoundError:
            return "file_not_found"
        except warren.WarrenError as err:
            return str(err)
        return None


with warren.machine("base") as machine:
    agent = create_deep_agent(
        model=os.environ.get("MODEL", "anthropic:claude-sonnet-4-6"),
        backend=WarrenSandbox(machine),
        system_prompt="You have a Linux computer of your own, and are root in it. Work in /work.",
    )
    done = agent.invoke({"messages": [{"role": "user", "content": sys.argv[1]}]})
    print(done["messages"][-1].text)
