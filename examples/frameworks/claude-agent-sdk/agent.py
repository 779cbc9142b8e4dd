# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""An agent of the Claude Agent SDK that has no tools on this computer, only those of `warren mcp`."""

import asyncio
import sys

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

options = ClaudeAgentOptions(
    system_prompt="Work in a machine: create_machine makes one, exec runs commands in it as root. Delete it at the end.",
    mcp_servers={"warren": {"command": "warren", "args": ["mcp"]}},
    strict_mcp_config=True,  # no other MCP servers
    setting_sources=[],  # no settings of this computer
    tools=[],  # no Bash, Read or Edit: nothing runs here
    allowed_tools=["mcp__warren"],  # these need no question
    max_turns=30,
)


async def main(task: str) -> None:
    async for message in query(prompt=task, options=options):
        if isinstance(message, ResultMessage):
            print(message.result)


asyncio.run(main(sys.argv[1]))
