# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""A sandbox agent of the OpenAI Agents SDK in a machine, by the SDK's own client of E2B."""

import asyncio
import os
import sys

from agents import Runner
from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions, E2BSandboxType
from agents.run import RunConfig
from agents.sandbox import SandboxAgent, SandboxRunConfig


async def main(task: str) -> None:
    agent = SandboxAgent(
        name="Worker",
        model=os.environ.get("MODEL", "gpt-5.4"),
        instructions="You have a Linux computer of your own. Work in /workspace.",
    )
    options = E2BSandboxClientOptions(sandbox_type=E2BSandboxType.E2B, template="base", timeout=900)
    session = await E2BSandboxClient().create(options=options)
    async with session:  # its end deletes the machine
        done = await Runner.run(agent, task, run_config=RunConfig(sandbox=SandboxRunConfig(session=session)))
        print(done.final_output)


asyncio.run(main(sys.argv[1]))
