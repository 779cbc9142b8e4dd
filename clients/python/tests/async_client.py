# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""The asynchronous client against a server with real machines. Prints each fact that is true."""

import asyncio

import warren


def fact(name: str, true: object) -> None:
    print(f"{name}: {'true' if true else 'false'}", flush=True)


async def main() -> None:
    async with warren.AsyncWarren() as w, w.machine(name="async") as m:
        one, two = await asyncio.gather(m.run("sleep 1; echo one"), m.run("sleep 1; echo two"))
        fact("commands run at the same time", (one.stdout, two.stdout) == ("one\n", "two\n"))
        stream = await m.stream("echo left; exec sleep 77")
        async with stream:
            async for _ in stream:
                break
        gone = await m.run("for i in $(seq 50); do pgrep -xf 'sleep 77' || exit 0; sleep 0.1; done; exit 1")
        fact("closing a stream ends the command", gone.ok)

        t = await m.terminal()
        await t.write("echo typed-$((40 + 2))\n")
        seen = b""
        while b"typed-42" not in seen:
            seen += await t.read(20)
        session = t.session_id
        await t.detach()
        again = await m.attach(session)
        fact("a terminal is attached again", "typed-42" in await again.screen())
        sent = await again.send("echo $((1 + 1))\n")
        fact("a terminal answers what was typed", "2" in sent["output"])
        await again.close()
        try:
            await m.attach(session)
            fact("a closed terminal raises the error class", False)
        except warren.NotFoundError as err:
            fact("a closed terminal raises the error class", err.code == "SESSION_NOT_FOUND")

        await m.suspend()
        fact("a suspended machine says so", (await m.info())["state"] == "suspended")
        await m.resume()
        fact("a resumed machine runs", (await m.info())["state"] == "running")
        snapshot = await m.snapshot("before")
        await m.run("rm -rf /root; touch /broken")
        await m.rollback(snapshot)
        fact("a rollback restores files", not (await m.run("test -e /broken")).ok)
        fact("a preview has an address", "3000" in (await m.preview(3000))["url"])
        fact("a preview link has a token", "?" in await m.preview_link(3000, seconds=60))
        fact("an operation is called by its id", (await w.call("getVM", path={"vm": "async"}))["id"] == m.id)


asyncio.run(main())
