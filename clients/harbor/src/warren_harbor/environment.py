# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""An environment of Harbor that is a machine of Warren."""

from __future__ import annotations

import io
import math
import re
import shlex
import tarfile
from pathlib import Path
from typing import Any, Self, override
from uuid import uuid4

import warren
from pydantic import Field

from harbor.environments.base import BaseEnvironment, ExecResult, transfer_tar_filter
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.environments.compose_service_ops import ComposeServiceOpsMixin, ComposeServiceTransport
from harbor.environments.definition import require_agent_environment_definition
from harbor.environments.options import EnvironmentOptions
from harbor.environments.tar_transfer import tar_pack_succeeded
from harbor.models.task.config import NetworkMode, NetworkPolicy

from .stack import Stack

OWN_IMAGE = "warren:"  # a docker_image that begins so is an image or a snapshot of Warren


class WarrenOptions(EnvironmentOptions):
    """What `--ek NAME=VALUE` sets."""

    url: str | None = Field(default=None, description="The server. Default: WARREN_API_URL.")
    api_key: str | None = Field(default=None, description="A key of it. Default: WARREN_API_KEY.")
    image: str = Field(default="docker", description="An image or a snapshot with Docker, for tasks that have containers.")


class WarrenEnvironment(ComposeServiceOpsMixin, BaseEnvironment):
    """A machine for each trial. A task's containers run in it; a task of `warren:IMAGE` is the machine itself."""

    options_model = WarrenOptions
    options: WarrenOptions

    def __init__(self, **made_with: Any) -> None:
        self._made_with = made_with
        image = made_with["task_env_config"].docker_image or ""
        self._own_image = image.removeprefix(OWN_IMAGE) if image.startswith(OWN_IMAGE) else ""
        self._stack = None if self._own_image else Stack(self)
        self._client: warren.AsyncWarren | None = None
        self._machine: warren.AsyncMachine | None = None
        super().__init__(**made_with)

    @staticmethod
    @override
    def type() -> str:
        return "warren"

    @property
    @override
    def _uses_compose(self) -> bool:
        return self._stack is not None

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(
            disable_internet=True,
            network_allowlist=True,
            network_allowlist_hostnames=True,
            network_allowlist_wildcard_hostnames=True,
            network_allowlist_ipv4_addresses=True,
            network_allowlist_ipv4_cidrs=True,
            dynamic_network_policy=True,
            docker_compose=self._stack is not None,
        )

    @classmethod
    @override
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(cpu_limit=True, cpu_request=True, memory_limit=True, memory_request=True)

    @override
    def _validate_definition(self) -> None:
        require_agent_environment_definition(
            self.environment_dir,
            docker_image=self.task_env_config.docker_image,
            extra_docker_compose_paths=self.extra_docker_compose_paths,
        )

    @property
    def machine(self) -> warren.AsyncMachine:
        """The machine, once it is started."""
        if self._machine is None:
            raise RuntimeError("the environment is not started")
        return self._machine

    # Its life.

    @override
    async def start(self, force_build: bool) -> None:
        self._client = warren.AsyncWarren(self.options.url, self.options.api_key)
        self._machine = await self._create(self._client)
        try:
            if self._stack is None:
                await self.ensure_dirs(self._mount_targets(writable_only=True))
                await self._upload_environment_dir_after_start()
            else:
                await self._stack.start(force_build)
        except BaseException:
            await self.stop(delete=True)
            raise

    async def _create(self, client: warren.AsyncWarren) -> warren.AsyncMachine:
        # Images are pulled and built before the task's policy is applied: see Stack.start.
        network = "open" if self._stack else words(self.network_policy)
        cpus, memory, storage = self._effective_cpus, self._effective_memory_mb, self._effective_storage_mb
        wanted: dict[str, Any] = {
            "name": re.sub(r"[^a-z0-9-]+", "-", self.session_id.lower()).strip("-")[:40].strip("-"),
            "network": network,
            "labels": {"harbor": "environment"},
            "vcpus": math.ceil(cpus) if cpus else None,
            # Containers have what the task asks for; the engine beside them needs more.
            "memory_mib": memory + (512 if self._stack else 0) if memory else None,
            "idle_timeout": 0,
        }
        image = self._own_image or self.options.image
        if storage:
            try:
                return await client.create(image, disk_gib=math.ceil(storage / 1024), **wanted)
            except warren.InvalidError:
                pass  # the image's disk is larger, or the next create tells what is wrong
        return await client.create(image, **wanted)

    @override
    async def stop(self, delete: bool) -> None:
        """Deletes the machine, or suspends it: `warren ls` shows it then, and a command wakes it."""
        if self._machine is not None:
            try:
                await (self._machine.delete() if delete else self._machine.suspend())
            except warren.NotFoundError:
                pass  # somebody has deleted it
            self._machine = None
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    # Search over states of a trial.

    async def fork(self, count: int = 1) -> list[Self]:
        """Running copies of this environment, with its files, processes and containers. Stop each when it is done."""
        return [self._copy(m.id, m.name) for m in await self.machine.fork(count)]

    def _copy(self, machine: str, name: str) -> Self:
        made_with = {**self._made_with, "session_id": f"{self.session_id}__{name or machine}"}
        other = type(self)(**made_with)
        other.default_user, other._network_policy = self.default_user, self._network_policy
        other._client = warren.AsyncWarren(self.options.url, self.options.api_key)
        other._machine = warren.AsyncMachine(other._client, machine, name)
        if self._stack is not None and other._stack is not None:
            other._stack.adopt(self._stack)
        return other

    async def checkpoint(self, name: str | None = None) -> str:
        """Stores the state of this environment, memory included, and returns its id."""
        return await self.machine.snapshot(name)

    async def restore(self, checkpoint: str) -> None:
        """Brings this environment back to a checkpoint of it: files, processes and containers."""
        await self.machine.rollback(checkpoint)

    # Commands.

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        user, env, cwd = self._resolve_user(user), self._merge_env(env), cwd or self.task_env_config.workdir
        if self._stack is not None:
            return await self._stack.exec(command, cwd=cwd, env=env, timeout_sec=timeout_sec, user=user)
        return await self.run(["bash", "-c", command], cwd=cwd, env=env, timeout_sec=timeout_sec, user=user)

    async def run(
        self,
        command: list[str],
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Runs a command in the machine itself, beside the containers."""
        tell = self._output_callback()
        kept: dict[str, list[str]] = {"stdout": [], "stderr": []}
        stream = await self.machine.stream(command, cwd=cwd, env=env, timeout=timeout_sec, user=None if user is None else str(user))
        async with stream:
            async for piece in stream:
                kept[piece.stream].append(piece.text)
                if tell is not None and piece.text:
                    await tell(piece.text, piece.stream)
        if stream.status.get("timedOut"):
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        return ExecResult(stdout="".join(kept["stdout"]), stderr="".join(kept["stderr"]), return_code=stream.exit_code)

    async def run_checked(self, command: list[str], what: str, **how: Any) -> ExecResult:
        """Runs a command in the machine, which must succeed."""
        done = await self.run(command, **how)
        if done.return_code != 0:
            raise RuntimeError(f"{what}: {(done.stderr or done.stdout or '').strip()}")
        return done

    # Files.

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        if self._stack is not None:
            await self._stack.upload_file(source_path, target_path)
        else:
            await self.put_file(source_path, target_path)

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        if self._stack is not None:
            await self._stack.upload_dir(source_dir, target_dir)
        else:
            await self.put_dir(source_dir, target_dir)

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        if self._stack is not None:
            await self._stack.download_file(source_path, target_path)
        else:
            await self.get_file(source_path, target_path)

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        if self._stack is not None:
            await self._stack.download_dir(source_dir, target_dir)
        else:
            await self.get_dir(source_dir, target_dir)

    async def put_file(self, source: Path | str, target: str) -> None:
        """Writes a file of the machine."""
        source = Path(source)
        await self.machine.files.write(target, source.read_bytes(), mode=source.stat().st_mode & 0o777)

    async def put_dir(self, source: Path | str, target: str) -> None:
        """Writes a directory of the machine, with modes and links."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for child in sorted(Path(source).iterdir()):
                archive.add(child, arcname=child.name, filter=owned_by_root)
        away = f"/var/tmp/harbor-{uuid4().hex}.tar.gz"
        await self.machine.files.write(away, packed.getvalue())
        line = f"mkdir -p {shlex.quote(target)} && tar xzf {away} -C {shlex.quote(target)}; s=$?; rm -f {away}; exit $s"
        await self.run_checked(["sh", "-c", line], f"cannot write {target}")

    async def get_file(self, source: str, target: Path | str) -> None:
        """Reads a file of the machine."""
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(target).write_bytes(await self.machine.files.read(source))

    async def get_dir(self, source: str, target: Path | str) -> None:
        """Reads a directory of the machine. Its links may not lead out of the target."""
        away = f"/var/tmp/harbor-{uuid4().hex}.tar.gz"
        done = await self.run(["tar", "czf", away, "-C", source, "."])
        if not tar_pack_succeeded(done.return_code, stdout=done.stdout, stderr=done.stderr, logger=self.logger):
            raise RuntimeError(f"cannot read {source}: {(done.stderr or '').strip()}")
        packed = await self.machine.files.read(away)
        await self.run(["rm", "-f", away])
        Path(target).mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
            archive.extractall(target, filter=transfer_tar_filter)

    # The network, and the services of Compose.

    @override
    async def _apply_network_policy(self, network_policy: NetworkPolicy) -> None:
        await self.set_network(words(network_policy))

    async def set_network(self, network: str) -> None:
        """Says what the machine may reach, at once. Other connections of it are closed."""
        if self._client is None:
            raise RuntimeError("the environment is not started")
        await self._client.call("setNetwork", path={"vm": self.machine.id}, body={"network": network})

    @override
    def _compose_service_transport(self, service: str | None) -> ComposeServiceTransport:
        if self._stack is None:
            raise self._compose_unsupported(service)
        return self._stack


def words(policy: NetworkPolicy) -> str:
    """A policy of Harbor in the words of Warren. A host name is allowed on the ports 80 and 443."""
    match policy.network_mode:
        case NetworkMode.PUBLIC:
            return "open"
        case NetworkMode.ALLOWLIST:
            return ",".join(["closed", *policy.allowed_hosts])
    return "closed"


def owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member
