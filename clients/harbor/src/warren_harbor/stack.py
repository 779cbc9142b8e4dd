# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""The containers of a task, by Docker Compose in a machine."""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, override

from harbor.environments.base import ExecResult
from harbor.environments.definition import should_use_prebuilt_docker_image
from harbor.environments.dind_compose import DinDComposeOps
from harbor.environments.docker import (
    COMPOSE_PREBUILT_PATH,
    ENV_COMPOSE_NAME,
    RESOURCES_COMPOSE_NAME,
    self_bind_mount,
    write_mounts_compose_file,
    write_resources_compose_file,
)
from harbor.environments.docker.compose_env import ComposeInfraEnvVars, legacy_log_mount_env_vars, merge_compose_env
from harbor.models.trial.config import ResourceMode

if TYPE_CHECKING:
    from .environment import WarrenEnvironment

FILES, TASK = "/harbor/compose", "/harbor/environment"
MOUNTS_NAME, BUILT_NAME = "docker-compose-mounts.json", "docker-compose-built.yaml"


class Stack(DinDComposeOps):
    """Harbor's operations on Compose, in the machine of an environment."""

    _SELF_BIND_LOG_DIRS = True
    _MAIN_LOGIN_SHELL = False

    def __init__(self, env: WarrenEnvironment) -> None:
        self._env = env
        self._main = ""  # the image of the service main
        self._project = ""
        self._files: list[str] = []

    def adopt(self, of: Stack) -> None:
        """Takes over the containers that a fork has copied."""
        self._main, self._project, self._files = of._main, of._project, of._files

    # What Harbor's operations are made of.

    @override
    async def _compose_exec(self, subcommand: list[str], timeout_sec: int | None = None) -> ExecResult:
        files = [word for path in self._files for word in ("-f", path)]
        command = ["docker", "compose", "-p", self._project, "--project-directory", TASK, *files, *subcommand]
        return await self._env.run(command, env=self._variables(), timeout_sec=timeout_sec)

    @override
    async def _host_exec(self, command: str, timeout_sec: int | None = None) -> ExecResult:
        return await self._env.run(["sh", "-c", command], timeout_sec=timeout_sec)

    @override
    async def _stage_file_to_host(self, source_path: Path | str, host_path: str) -> None:
        await self._env.put_file(source_path, host_path)

    @override
    async def _stage_dir_to_host(self, source_dir: Path | str, host_dir: str) -> None:
        await self._env.put_dir(source_dir, host_dir)

    @override
    async def _fetch_file_from_host(self, host_path: str, target_path: Path | str) -> None:
        await self._env.get_file(host_path, target_path)

    @override
    async def _fetch_dir_from_host(self, host_dir: str, target_dir: Path | str) -> None:
        await self._env.get_dir(host_dir, target_dir)

    def _variables(self) -> dict[str, str]:
        env = self._env
        memory = env._effective_memory_mb
        infra = ComposeInfraEnvVars(
            main_image_name=self._main,
            prebuilt_image_name=self._main,
            context_dir=TASK,
            cpus=env._effective_cpus,
            memory=f"{memory}M" if memory else None,
        ).to_env_dict()
        infra |= legacy_log_mount_env_vars(self._mounts(), host_value="target")
        return merge_compose_env(user_env=env._startup_env(), infra_env=infra, logger=env.logger)

    def _mounts(self) -> list[Any]:
        return [self_bind_mount(m) if m.get("type") == "bind" else m for m in self._env._mounts]

    # The start.

    async def start(self, force_build: bool) -> None:
        """Pulls and builds with an open network, applies the task's policy, and starts the containers."""
        env = self._env
        prebuilt = should_use_prebuilt_docker_image(
            env.environment_dir, docker_image=env.task_env_config.docker_image, force_build=force_build
        )
        self._main = env.task_env_config.docker_image if prebuilt and env.task_env_config.docker_image else f"hb__{env.environment_id}"
        self._project = re.sub(r"[^a-z0-9_-]", "-", env.session_id.lower())
        limit = round(env.task_env_config.build_timeout_sec)
        await self._stage()
        await self._build_services(prebuilt, limit)
        await self._pull(limit)
        if not env._network_is_public:
            await env._apply_network_policy(env.network_policy)
        await self._do(["up", "--detach", "--no-build", "--pull", "never", "--wait", "--wait-timeout", str(limit)], limit)
        await env._upload_environment_dir_after_start()

    async def _do(self, subcommand: list[str], limit: int) -> ExecResult:
        done = await self._compose_exec(subcommand, timeout_sec=limit)
        if done.return_code != 0:
            raise RuntimeError(f"docker compose {subcommand[0]}: {(done.stderr or done.stdout or '').strip()}")
        return done

    async def _stage(self) -> None:
        """Writes the files of the task and of Harbor. In case of doubt the later file decides."""
        env = self._env
        await env.put_dir(env.environment_dir, TASK)
        self._files = [f"{FILES}/{RESOURCES_COMPOSE_NAME}", f"{FILES}/{COMPOSE_PREBUILT_PATH.name}"]
        if (env.environment_dir / "docker-compose.yaml").exists():
            self._files.append(f"{TASK}/docker-compose.yaml")
        for i, extra in enumerate(env.extra_docker_compose_paths):
            self._files.append(f"{FILES}/docker-compose-extra-{i}.yaml")
            await env.put_file(extra, self._files[-1])
        await self._stage_env_compose_file(FILES)
        with tempfile.TemporaryDirectory() as temporary:
            here = Path(temporary)
            limit = {"cpu_limit": env._resource_limit_value("cpu", auto_mode=ResourceMode.LIMIT)}
            limit["memory_limit_mb"] = env._resource_limit_value("memory", auto_mode=ResourceMode.LIMIT)
            write_resources_compose_file(here / RESOURCES_COMPOSE_NAME, **limit)
            write_mounts_compose_file(here / MOUNTS_NAME, self._mounts())
            for path in (here / RESOURCES_COMPOSE_NAME, here / MOUNTS_NAME, COMPOSE_PREBUILT_PATH):
                await env.put_file(path, f"{FILES}/{path.name}")
        self._files += [f"{FILES}/{ENV_COMPOSE_NAME}", f"{FILES}/{MOUNTS_NAME}"]
        bound = [shlex.quote(m["source"]) for m in self._mounts() if m.get("type") == "bind"]
        if bound:
            await env.run_checked(["sh", "-c", f"mkdir -p {' '.join(bound)} && chmod 777 {' '.join(bound)}"], "cannot make the directories of logs")

    async def _services(self, limit: int) -> dict[str, Any]:
        return json.loads((await self._do(["config", "--format", "json"], limit)).stdout or "{}").get("services", {})

    async def _pull(self, limit: int) -> None:
        """Pulls the images that the machine lacks. Compose's own pull asks a registry for those that were built, too."""
        for image in sorted({said["image"] for said in (await self._services(limit)).values()}):
            if (await self._env.run(["docker", "image", "inspect", image])).return_code != 0:
                await self._env.run_checked(["docker", "pull", "-q", image], f"cannot pull {image}", timeout_sec=limit)

    async def _build_services(self, prebuilt: bool, limit: int) -> None:
        """Builds the services that say `build`, and has Compose use what was built.

        Compose itself builds only with buildx, which Debian's Docker has not.
        """
        services = await self._services(limit)
        builds = {name: said["build"] for name, said in services.items() if said.get("build")}
        if not prebuilt and (self._env.environment_dir / "Dockerfile").exists():
            builds.setdefault("main", {"context": TASK})
        if not builds:
            return
        lines = ["services:"]
        for name, build in builds.items():
            image = self._main if name == "main" else services[name].get("image") or f"hb__{self._env.environment_id}-{name.lower()}"
            if name != "main" or not prebuilt:
                await self._build(image, build, limit)
            lines += [f"  {json.dumps(name)}:", f"    image: {json.dumps(image)}", "    build: !reset null"]
        self._files.append(f"{FILES}/{BUILT_NAME}")
        await self._env.machine.files.write(self._files[-1], "\n".join(lines) + "\n")

    async def _build(self, image: str, build: dict[str, Any], limit: int) -> None:
        command = ["docker", "build", "-q", "-t", image]
        context = build["context"]
        if build.get("dockerfile"):
            command += ["-f", build["dockerfile"] if build["dockerfile"].startswith("/") else f"{context}/{build['dockerfile']}"]
        if build.get("target"):
            command += ["--target", build["target"]]
        for name, value in (build.get("args") or {}).items():
            command += ["--build-arg", name if value is None else f"{name}={value}"]
        await self._env.run_checked([*command, context], f"cannot build {image}", env=self._variables(), timeout_sec=limit)
