# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""What is true of the environment on a real server. `facts.py machine` or `facts.py stack IMAGE`."""

import asyncio
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import warren
from harbor.models.task.config import EnvironmentConfig, NetworkPolicy
from harbor.models.trial.paths import TrialPaths
from warren_harbor import WarrenEnvironment

HERE = pathlib.Path(__file__).parent


def fact(name: str, holds: bool) -> None:
    print(f"{name}: {str(holds).lower()}", flush=True)


def environment(directory: pathlib.Path, scratch: pathlib.Path, config: EnvironmentConfig, **options: object) -> WarrenEnvironment:
    return WarrenEnvironment(
        environment_dir=directory,
        environment_name="facts",
        session_id="facts__one__env",
        trial_paths=TrialPaths(trial_dir=scratch),
        task_env_config=config,
        network_policy=NetworkPolicy(network_mode="no-network"),
        **options,
    )


def trial(scratch: pathlib.Path) -> None:
    """Harbor's own command line runs a task with the agent that knows the solution."""
    line = ["run", "-p", HERE / "task", "-a", "oracle", "--env", "warren_harbor:WarrenEnvironment", "--jobs-dir", scratch, "--job-name", "one", "-y", "-q"]
    ran = subprocess.run([os.environ["PYTHON"], "-m", "harbor.cli.main", *map(str, line)], capture_output=True, text=True, timeout=300)
    results = [json.loads(p.read_text()) for p in scratch.glob("one/*/result.json")]
    rewards = [(r.get("verifier_result") or {}).get("rewards") for r in results]
    fact("a trial of Harbor solves its task", rewards == [{"reward": 1.0}])
    if rewards != [{"reward": 1.0}]:
        print(ran.stdout[-4000:], ran.stderr[-4000:], results)
    logs = [p.read_text() for p in scratch.glob("one/*/agent/oracle.txt")]
    fact("the variables of the task arrive", logs == ["of the task\n"])


async def commands(env: WarrenEnvironment) -> None:
    done = await env.exec('echo "$A $(pwd) $(id -un)"; echo bad >&2; exit 3', cwd="/tmp", env={"A": "a"}, user="nobody")
    fact("a command has variables, a directory, a user and an exit code", (done.stdout, done.stderr, done.return_code) == ("a /tmp nobody\n", "bad\n", 3))
    try:
        await env.exec("sleep 60", timeout_sec=2)
        fact("a command ends at its time-out", False)
    except RuntimeError as err:
        fact("a command ends at its time-out", "timed out after 2 seconds" in str(err))


async def files(env: WarrenEnvironment, scratch: pathlib.Path) -> None:
    here = scratch / "out"
    (here / "deep").mkdir(parents=True)
    (here / "deep/run.sh").write_text("#!/bin/sh\necho run\n")
    (here / "deep/run.sh").chmod(0o755)
    (here / "link").symlink_to("deep/run.sh")
    await env.upload_dir(here, "/srv/in")
    fact("a directory keeps modes and links", (await env.exec("cd /srv/in && ./link")).stdout == "run\n")
    await env.download_dir("/srv/in", scratch / "back")
    fact("a directory comes back", (scratch / "back/link").read_text() == (here / "link").read_text())
    await env.exec("mkdir /srv/one")  # as Harbor's agents do: Docker copies into directories that are there
    await env.upload_file(here / "deep/run.sh", "/srv/one/run.sh")
    await env.download_file("/srv/one/run.sh", scratch / "one.sh")
    fact("a file goes in and comes back", (scratch / "one.sh").read_bytes() == (here / "deep/run.sh").read_bytes())


async def reaches(env: WarrenEnvironment, host: str) -> bool:
    async with warren.AsyncWarren() as w:
        said = await w.call("checkNetwork", path={"vm": env.machine.id}, body={"host": host, "port": 443})
    return bool(said["allowed"])


async def network(env: WarrenEnvironment) -> None:
    fact("no-network reaches nothing", not await reaches(env, "api.example.com"))
    await env.set_network_policy(NetworkPolicy(network_mode="allowlist", allowed_hosts=["api.example.com", "*.example.org"]))
    fact("an allow-list reaches its hosts only", [await reaches(env, h) for h in ("api.example.com", "a.example.org", "example.net")] == [True, True, False])


async def search(env: WarrenEnvironment) -> None:
    """A search over states: two branches of one state, and a return to it."""
    await env.exec("echo start > /srv/state; nohup sleep 4711 >/dev/null 2>&1 & echo $! > /srv/pid")
    at = await env.checkpoint()
    copies = await env.fork(2)
    for i, copy in enumerate(copies):
        await copy.exec(f"echo branch {i} >> /srv/state")
    seen = [(await e.exec("cat /srv/state; kill -0 $(cat /srv/pid) && echo alive")).stdout for e in (*copies, env)]
    fact("forks are apart, with the processes", seen == ["start\nbranch 0\nalive\n", "start\nbranch 1\nalive\n", "start\nalive\n"])
    for copy in copies:
        await copy.stop(delete=True)
    await env.exec("rm /srv/state; kill $(cat /srv/pid)")
    await env.restore(at)
    fact("a checkpoint brings back files and processes", (await env.exec("cat /srv/state; kill -0 $(cat /srv/pid) && echo alive")).stdout == "start\nalive\n")


async def machine(scratch: pathlib.Path) -> None:
    env = environment(HERE / "task/environment", scratch, EnvironmentConfig(docker_image="warren:base"))
    await env.start(force_build=False)
    try:
        await commands(env)
        await files(env, scratch)
        await network(env)
        await search(env)
    finally:
        await env.stop(delete=True)


async def stack(scratch: pathlib.Path, image: str) -> None:
    env = environment(HERE / "stack", scratch, EnvironmentConfig(), image=image)
    await env.start(force_build=False)
    try:
        fact("commands run in the container main", (await env.exec("cat /from; pwd")).stdout == "of the Dockerfile\n/srv\n")
        fact("a service beside it is reached", (await env.service_exec("cat /said", service="side")).stdout == "beside\n")
        await files(env, scratch)
        fact("no-network reaches nothing", not await reaches(env, "api.example.com"))
        [copy] = await env.fork()
        await copy.exec("echo more >> /from")
        seen = [(await e.exec("wc -l < /from")).stdout for e in (copy, env)]
        fact("a fork has the containers", seen == ["2\n", "1\n"])
        await copy.stop(delete=True)
    finally:
        await env.stop(delete=True)


with tempfile.TemporaryDirectory() as temporary:
    place = pathlib.Path(temporary)
    if sys.argv[1] == "machine":
        trial(place / "jobs")
        asyncio.run(machine(place / "own"))
    else:
        asyncio.run(stack(place / "own", sys.argv[2]))
