# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0

"""The official Python client at /mcp, as the owner and as an identity with a grant for one machine."""

import os
import sys

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

url = os.environ["WARREN_API_URL"] + "/mcp"


def fact(what, true):
    print(f"{what}: {str(bool(true)).lower()}")


async def tool(client, name, **arguments):
    answer = await client.call_tool(name, arguments)
    if answer.is_error:
        raise RuntimeError(answer.content[0].text)
    return answer.structured_content


async def use(key, mode, work):
    async with httpx2.AsyncClient(headers={"Authorization": "Bearer " + key}, timeout=60) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            await work(client)


async def owner(client):
    """With a revision of the protocol that has sessions, and with one that has none."""
    version = client.protocol_version
    said = await tool(client, "exec", machine="app", command="echo hello; exit 3")
    fact(f"a command runs with {version}", said["stdout"] == "hello\n" and said["exit_code"] == 3)
    await tool(client, "write_file", machine="app", path="/root/note.txt", content="kept")
    file = await client.read_resource("warren://machines/app/files/root/note.txt")
    fact(f"a file is a resource with {version}", file.contents[0].text == "kept")

    async def count():
        listed = await tool(client, "processes", machine="app", action="list")
        return len([p for p in listed["processes"] if "ended_at" not in p])

    async with anyio.create_task_group() as group:
        group.start_soon(tool_ignored, client)
        while await count() == 0:
            await anyio.sleep(0.1)
        group.cancel_scope.cancel()
    with anyio.fail_after(20):
        while await count():
            await anyio.sleep(0.1)
    fact(f"a cancelled command has ended with {version}", True)


async def tool_ignored(client):
    await client.call_tool("exec", {"machine": "app", "command": "sleep 600"})


async def identity(client):
    listed = await tool(client, "list_machines")
    fact("an identity sees what it was granted", [m["name"] for m in listed["machines"]] == ["app"])
    said = await tool(client, "exec", machine="app", command="echo mine")
    fact("it works in its machine", said["stdout"] == "mine\n")
    for name, arguments in (("exec", {"machine": "other", "command": "true"}), ("change_machine", {"machine": "app", "action": "delete"})):
        answer = await client.call_tool(name, arguments)
        fact(f"{name} is refused elsewhere", answer.is_error and "code: " in answer.content[0].text)
    try:
        await client.read_resource("warren://machines/other/files/etc/passwd")
        fact("files of another machine are refused", False)
    except MCPError:
        fact("files of another machine are refused", True)


async def main():
    key = os.environ["WARREN_API_KEY"]
    await use(key, "legacy", owner)
    await use(key, "auto", owner)
    await use(os.environ["IDENTITY_TOKEN"], "auto", identity)


anyio.run(main)
sys.exit(0)
