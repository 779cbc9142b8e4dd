# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0

"""The code interpreter by its own SDK for Python, and sandboxes by the asynchronous one."""
import asyncio

from e2b import AsyncSandbox
from e2b_code_interpreter import Sandbox


def code():
    with Sandbox.create(timeout=240) as s:
        seen = []
        r = s.run_code("x = 41; print('hi'); x + 1", on_stdout=lambda m: seen.append(m.line))
        assert (r.text, "".join(r.logs.stdout), "".join(seen)) == ("42", "hi\n", "hi\n"), r
        assert s.run_code("x").text == "41"
        assert s.run_code("1/0").error.name == "ZeroDivisionError"
        assert [c.language for c in s.list_code_contexts()] == ["python"]
    print("code runs and keeps its variables: true", flush=True)


async def sandboxes():
    s = await AsyncSandbox.create(envs={"FOO": "bar"})
    try:
        both = await asyncio.gather(s.commands.run("echo $FOO"), s.commands.run("id -un"))
        assert [r.stdout for r in both] == ["bar\n", "user\n"], both
        lines = []
        h = await s.commands.run("echo one; sleep 0.2; echo two", background=True, on_stdout=lines.append)
        assert (await h.wait()).stdout == "one\ntwo\n" and "".join(lines) == "one\ntwo\n", lines
        await s.files.write("a.txt", "hey")
        assert await s.files.read("a.txt") == "hey"
        assert [e.name for e in await s.files.list(".") if e.name == "a.txt"] == ["a.txt"]
    finally:
        assert await s.kill() is True
    print("the asynchronous SDK drives a sandbox: true", flush=True)


code()
asyncio.run(sandboxes())
