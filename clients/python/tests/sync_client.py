# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""The synchronous client against a server with real machines. Prints each fact that is true."""

import time

import warren


def fact(name: str, true: object) -> None:
    print(f"{name}: {'true' if true else 'false'}", flush=True)


with warren.machine() as m:
    fact("a machine runs a command", str(m.run("echo hi")) == "hi\n")
    both = m.run(["sh", "-c", "cat; echo $WORD >&2; exit 3"], input="in", env={"WORD": "err"}, cwd="/tmp")
    fact("input, variables and the exit code arrive", (both.stdout, both.stderr, both.exit_code) == ("in", "err\n", 3))

    pieces, first = [], 0.0
    begun = time.monotonic()
    for piece in m.stream("echo one; sleep 1; echo two >&2"):
        first = first or time.monotonic() - begun
        pieces.append((piece.stream, piece.text))
    fact("output streams", pieces == [("stdout", "one\n"), ("stderr", "two\n")] and time.monotonic() - begun > first + 0.7)
    try:
        m.run("echo why >&2; exit 4", check=True)
        fact("a failed command raises with check", False)
    except warren.CommandError as err:
        fact("a failed command raises with check", err.result.exit_code == 4 and "why" in str(err))
    try:
        m.run("sleep 60", timeout=0.5)
        fact("a command ends at its timeout", False)
    except warren.CommandTimeout:
        fact("a command ends at its timeout", m.run("pgrep -xf 'sleep 60'").exit_code == 1)

    data = bytes(range(256)) * 4096
    m.files.write("/work/a b/data", data)
    fact("a file keeps its bytes", m.files.read("/work/a b/data") == data)
    fact("a directory is listed", [f["name"] for f in m.files.list("/work/a b")] == ["data"])
    m.files.rename("/work/a b/data", "/work/moved")
    fact("a file is moved", m.files.stat("/work/moved")["size"] == len(data))
    m.files.remove("/work", recursive=True)
    try:
        m.files.read_text("/work/moved")
        fact("a missing file raises the error class", False)
    except warren.NotFoundError as err:
        fact("a missing file raises the error class", err.code == "FILE_NOT_FOUND" and err.status == 404)

    p = m.start("echo started; sleep 300")
    m.run("echo kept > /root/note")
    with m.fork(2, name="copy") as copies:
        notes = [c.run("cat /root/note; pgrep -c sleep").stdout for c in copies]
        fact("forks are a list of running copies", [c.name for c in copies] == ["copy-1", "copy-2"] and notes == ["kept\n1\n"] * 2)
        m.delete_on_exit = True
    fact("a list of forks deletes them at its end", [v.id for v in warren.Warren().list()] == [m.id])
    p.kill()
    fact("a process in the background ends by a signal", p.wait() == 137 and p.output() == "started\n")

    with m.terminal(cols=100, rows=30) as t:
        t.write("stty size; exit 5\n")
        seen = b"".join(t)
        fact("a terminal shows what a program prints", b"30 100" in seen and t.exit_code == 5)

ref = m.id
try:
    warren.Warren().get(ref)
    fact("a machine is deleted at the end of its block", False)
except warren.NotFoundError as err:
    fact("a machine is deleted at the end of its block", err.kind == "not-found")
