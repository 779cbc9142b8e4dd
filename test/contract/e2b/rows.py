# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0

"""Every row of E2B's interface that Warren has, by the SDK for Python."""
import sys
import time
import urllib.request

import e2b
from e2b import Sandbox

failed = 0


def row(fact):
    """States a fact and whether it holds."""

    def run(check):
        global failed
        try:
            value = check()
            print(f"{fact}: true", flush=True)
            return value
        except Exception as e:  # noqa: BLE001
            failed += 1
            print(f"{fact}: false: {type(e).__name__}: {e}", flush=True)

    return run


def fails(call, name, text=""):
    """Wants an exception of one of those classes, with that text."""
    try:
        call()
    except Exception as e:  # noqa: BLE001
        assert type(e).__name__ in name.split("|"), f"{type(e).__name__}: {e}"
        assert text in str(e), f"{e} does not say {text}"
        return
    raise AssertionError(f"no {name} was raised")


def same(got, want):
    assert got == want, f"{got!r} is not {want!r}"


s = row("a sandbox is created")(lambda: Sandbox.create(metadata={"a k": "b c"}, envs={"FOO": "bar"}, timeout=240))


@row("a command has output, variables and a user")
def _():
    r = s.commands.run("echo $FOO $X $E2B_SANDBOX; id -un; pwd; echo oops >&2", envs={"X": "y"})
    same(r.stdout, "bar y true\nuser\n/home/user\n")
    same(r.stderr, "oops\n")


@row("a command runs as root in a directory")
def _():
    same(s.commands.run("id -un; pwd", user="root", cwd="/tmp").stdout, "root\n/tmp\n")


row("a failed command throws its exit status")(lambda: fails(lambda: s.commands.run("exit 3"), "CommandExitException", "3"))
row("a missing directory is refused")(lambda: fails(lambda: s.commands.run("pwd", cwd="/nope"), "InvalidArgumentException", "cwd"))
row("a command ends at its time-out")(lambda: fails(lambda: s.commands.run("sleep 60", timeout=1), "TimeoutException"))


@row("a command in the background takes input")
def _():
    h = s.commands.run("cat; echo done", background=True, stdin=True)
    s.commands.send_stdin(h.pid, "one\n")
    s.commands.close_stdin(h.pid)
    same(h.wait().stdout, "one\ndone\n")


@row("a command is listed and killed")
def _():
    h = s.commands.run("sleep 100", background=True)
    assert any(p.pid == h.pid for p in s.commands.list()), "it is not listed"
    same(s.commands.kill(h.pid), True)
    fails(h.wait, "CommandExitException", "-1")
    same(s.commands.kill(h.pid), False)
    fails(lambda: s.commands.connect(999999), "NotFoundException", "999999")


@row("a terminal types, resizes and ends")
def _():
    out = []
    p = s.pty.create(e2b.PtySize(rows=30, cols=90))
    s.pty.resize(p.pid, e2b.PtySize(rows=40, cols=100))
    s.pty.send_stdin(p.pid, b"stty size\nexit 4\n")
    fails(lambda: p.wait(on_pty=out.append), "CommandExitException", "4")
    assert b"40 100" in b"".join(out), out
    same(s.pty.kill(s.pty.create(e2b.PtySize(rows=24, cols=80)).pid), True)


@row("a file is written and read")
def _():
    s.files.write("a/b.txt", "hey")
    same(s.files.read("a/b.txt"), "hey")
    fails(lambda: s.files.read("/nope"), "FileNotFoundException", "path '/nope' does not exist")


@row("many files are written at once")
def _():
    s.files.write_files([{"path": "m1", "data": "1"}, {"path": "m2", "data": b"2"}])
    same(s.files.read("m2"), "2")


@row("files have metadata")
def _():
    metadata = {"author": "mish", "purpose": "up load"}
    same(s.files.write("meta", "1", metadata=metadata).metadata, metadata)
    same(s.files.rename("meta", "meta2").metadata, metadata)
    s.files.write("meta2", "2")
    same(s.files.get_info("meta2").metadata, None)


@row("large files keep their bytes")
def _():
    data = bytes(i % 251 for i in range(3_000_000))
    s.files.write("big", data)
    assert bytes(s.files.read("big", format="bytes")) == data, "the bytes differ"


@row("a file outside of the home belongs to the user")
def _():
    s.files.write("/opt/x/y.txt", "z")
    i = s.files.get_info("/opt/x/y.txt")
    same((i.owner, i.permissions), ("user", "-rw-r--r--"))
    same(s.commands.run("cd /workspace && echo 1 >own && git init -q && git status --short").stdout, "?? own\n")


@row("directories are made, listed, moved and removed")
def _():
    same((s.files.make_dir("d/e"), s.files.make_dir("d/e")), (True, False))
    s.files.write("d/e/f", "1")
    same([e.path for e in s.files.list("d", depth=2)], ["/home/user/d/e", "/home/user/d/e/f"])
    s.files.rename("d/e/f", "d/new/g")
    same(s.files.read("d/new/g"), "1")
    s.files.remove("d")
    same(s.files.exists("d"), False)


@row("a link tells its target")
def _():
    s.commands.run("ln -s a/b.txt link")
    same(s.files.get_info("link").symlink_target, "/home/user/a/b.txt")


@row("changes of files are watched")
def _():
    w = s.files.watch_dir("/home/user", recursive=True)
    s.files.write("w.txt", "1")
    same([e.type.value for e in w.get_new_events() if e.name == "w.txt"], ["create", "chmod", "write"])
    w.stop()


@row("signed links read and write without a key")
def _():
    with urllib.request.urlopen(s.download_url("a/b.txt", use_signature_expiration=60)) as answer:
        same(answer.read(), b"hey")


@row("a sandbox is described and listed")
def _():
    i = s.get_info()
    same((i.state.value, i.metadata["a k"]), ("running", "b c"))
    listed = Sandbox.list(query=e2b.SandboxQuery(metadata={"a k": "b c"})).next_items()
    same([x.sandbox_id for x in listed], [s.sandbox_id])


@row("a time-out is set")
def _():
    s.set_timeout(300)
    left = s.get_info().end_at.timestamp() - time.time()
    assert 280 < left < 301, left


@row("metrics are measured")
def _():
    m = s.get_metrics()[0]
    assert m.cpu_count > 0 and m.mem_used > 0, m


@row("a pause keeps processes")
def _():
    h = s.commands.run("sleep 1000", background=True, timeout=0)
    assert s.pause() is not False, "pause returned False"
    same(s.is_running(), False)
    fails(lambda: s.commands.run("true"), "TimeoutException|SandboxNotRunningException")
    s.connect()
    same(s.is_running(), True)
    same(s.commands.connect(h.pid).kill(), True)


@row("a snapshot makes sandboxes")
def _():
    n = s.create_snapshot()
    other = Sandbox.create(n.snapshot_id)
    same(other.files.read("a/b.txt"), "hey")
    same(other.kill(), True)
    same(Sandbox.delete_snapshot(n.snapshot_id), True)


@row("a fork is another sandbox")
def _():
    child = s.fork()[0]
    assert child.sandbox_id != s.sandbox_id, "it has the same id"
    same(child.files.read("a/b.txt"), "hey")
    child.kill()


@row("the network is changed")
def _():
    s.update_network({"deny_out": ["0.0.0.0/0"], "allow_out": ["example.com"]})
    same(list(s.get_info().network["allow_out"]), ["example.com"])


@row("another client connects")
def _():
    same(Sandbox.connect(s.sandbox_id).commands.run("echo 1").stdout, "1\n")


@row("what Warren lacks is refused")
def _():
    fails(lambda: Sandbox.create("nope"), "SandboxException", "no such template")
    fails(lambda: Sandbox.create(api_key="e2b_00"), "AuthenticationException", "warren key create --e2b")
    fails(lambda: e2b.Template.build(e2b.Template().from_image("registry.test/x"), alias="x"), "BuildException", "has not imported")


@row("a sandbox is killed")
def _():
    same((s.kill(), s.kill(), s.is_running()), (True, False, False))
    fails(lambda: s.commands.run("true"), "TimeoutException|SandboxNotRunningException")


sys.exit(1 if failed else 0)
