// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Every row of E2B's interface that Warren has, by the SDK for JavaScript.
import assert from "node:assert/strict";
import { fails, finish, row, sdk, until } from "./common.mjs";

const { Sandbox } = sdk;
const text = (s) => new TextEncoder().encode(s);
const s = await row("a sandbox is created", () => Sandbox.create({ metadata: { "a k": "b c" }, envs: { FOO: "bar" }, timeoutMs: 240000 }));

// Commands
await row("a command has output, variables and a user", async () => {
  const r = await s.commands.run("echo $FOO $X $E2B_SANDBOX; id -un; pwd; echo oops >&2", { envs: { X: "y" } });
  assert.equal(r.stdout, "bar y true\nuser\n/home/user\n");
  assert.equal(r.stderr, "oops\n");
});
await row("a command runs as root in a directory", async () => {
  assert.equal((await s.commands.run("id -un; pwd", { user: "root", cwd: "/tmp" })).stdout, "root\n/tmp\n");
});
await row("a failed command throws its exit status", async () => {
  await assert.rejects(s.commands.run("exit 3"), (e) => e.constructor.name === "CommandExitError" && e.exitCode === 3);
});
await row("a missing directory is refused", () => fails(s.commands.run("pwd", { cwd: "/nope" }), "InvalidArgumentError", "cwd"));
await row("a command ends at its time-out", () => fails(s.commands.run("sleep 60", { timeoutMs: 1000 }), "TimeoutError"));
await row("a command in the background takes input", async () => {
  const h = await s.commands.run("cat; echo done", { background: true, stdin: true });
  await s.commands.sendStdin(h.pid, "one\n");
  let seen = "";
  const other = await s.commands.connect(h.pid, { onStdout: (d) => (seen += d) });
  await s.commands.sendStdin(h.pid, "two\n");
  await s.commands.closeStdin(h.pid);
  assert.equal((await other.wait()).exitCode, 0);
  assert.equal((await h.wait()).stdout, "one\ntwo\ndone\n");
  assert.ok(seen.endsWith("two\ndone\n"), seen);
});
await row("a command is listed and killed", async () => {
  const h = await s.commands.run("sleep 100", { background: true });
  assert.ok((await s.commands.list()).some((p) => p.pid === h.pid && p.cmd === "/bin/bash"));
  assert.equal(await s.commands.kill(h.pid), true);
  await fails(h.wait(), "CommandExitError", "signal: killed");
  assert.equal(await s.commands.kill(h.pid), false);
  await fails(s.commands.connect(999999), "NotFoundError", "999999");
});
await row("a terminal types, resizes and ends", async () => {
  let out = "";
  const p = await s.pty.create({ cols: 90, rows: 30, onData: (d) => (out += new TextDecoder().decode(d)) });
  await s.pty.sendInput(p.pid, text("stty size; echo $TERM\n"));
  await until(() => out.includes("30 90") && out.includes("xterm-256color\r"));
  await s.pty.resize(p.pid, { cols: 100, rows: 40 });
  await s.pty.sendInput(p.pid, text("stty size\nexit 4\n"));
  await assert.rejects(p.wait(), (e) => e.exitCode === 4);
  assert.ok(out.includes("40 100"), out);
  const q = await s.pty.create({ cols: 80, rows: 24, onData: () => {} });
  assert.equal(await s.pty.kill(q.pid), true);
});

// Files
await row("a file is written and read", async () => {
  await s.files.write("a/b.txt", "hey");
  assert.equal(await s.files.read("a/b.txt"), "hey");
  await fails(s.files.read("/nope"), "FileNotFoundError", "path '/nope' does not exist");
  assert.match(await s.files.read("/proc/self/status"), /Name/);
});
await row("many files are written at once", async () => {
  await s.files.write([{ path: "m1", data: "1" }, { path: "m2", data: "2" }]);
  assert.equal(await s.files.read("m2"), "2");
});
await row("files have metadata", async () => {
  const metadata = { author: "mish", purpose: "up load" };
  assert.deepEqual((await s.files.write("meta", "1", { metadata })).metadata, metadata);
  await s.files.rename("meta", "meta2");
  assert.deepEqual((await s.files.getInfo("meta2")).metadata, metadata);
  await s.commands.run(`python3 -c "import os; os.setxattr('meta2', 'user.e2b.set', b'inside')"`);
  assert.equal((await s.files.list(".")).find((e) => e.name === "meta2").metadata.set, "inside");
  await s.files.write("meta2", "2");
  assert.equal((await s.files.getInfo("meta2")).metadata, undefined);
  await fails(s.files.write("meta3", "3", { metadata: { long: "x".repeat(5000) } }), "InvalidArgumentError", "4096");
});
await row("large files keep their bytes", async () => {
  const data = Buffer.from(Array.from({ length: 3e6 }, (_, i) => i % 251));
  await s.files.write("big", new Blob([data]));
  assert.ok(data.equals(Buffer.from(await s.files.read("big", { format: "bytes" }))));
});
await row("a file outside of the home belongs to the user", async () => {
  await s.files.write("/opt/x/y.txt", "z");
  const i = await s.files.getInfo("/opt/x/y.txt");
  assert.deepEqual([i.owner, i.permissions, (await s.files.getInfo("/opt/x")).owner], ["user", "-rw-r--r--", "user"]);
  assert.equal((await s.commands.run("cd /workspace && echo 1 >own && git init -q && git status --short")).stdout, "?? own\n");
});
await row("directories are made, listed, moved and removed", async () => {
  assert.equal(await s.files.makeDir("d/e"), true);
  assert.equal(await s.files.makeDir("d/e"), false);
  await s.files.write("d/e/f", "1");
  assert.deepEqual((await s.files.list("d", { depth: 2 })).map((e) => e.path), ["/home/user/d/e", "/home/user/d/e/f"]);
  await s.files.rename("d/e/f", "d/new/g");
  assert.equal(await s.files.read("d/new/g"), "1");
  await s.files.remove("d");
  assert.equal(await s.files.exists("d"), false);
  await fails(s.files.list("/nope"), "FileNotFoundError");
});
await row("a link tells its target", async () => {
  await s.commands.run("ln -s a/b.txt link");
  const i = await s.files.getInfo("link");
  assert.deepEqual([i.type, i.symlinkTarget, i.size], ["file", "/home/user/a/b.txt", 7]);
});
await row("changes of files are watched", async () => {
  const seen = [];
  const w = await s.files.watchDir("/home/user", (e) => seen.push(`${e.type} ${e.name}`), { recursive: true });
  await s.files.write("w.txt", "1");
  await s.commands.run("mkdir -p n/m && rm -r n");
  await until(() => seen.includes("remove n"));
  await w.stop();
  assert.deepEqual(seen.filter((e) => e.endsWith(" w.txt")), ["create w.txt", "chmod w.txt", "write w.txt"]);
  assert.ok(seen.includes("create n/m"), seen.join());
});
await row("signed links read and write without a key", async () => {
  const down = await s.downloadUrl("a/b.txt", { useSignatureExpiration: 60000 });
  assert.equal(await (await fetch(down)).text(), "hey");
  const form = new FormData();
  form.append("file", new Blob(["sent"]), "up.txt");
  assert.equal((await fetch(await s.uploadUrl("up.txt"), { method: "POST", body: form })).status, 200);
  assert.equal(await s.files.read("up.txt"), "sent");
  assert.equal((await fetch(down.replace("b.txt", "c.txt"))).status, 401);
});

// Sandboxes
await row("a sandbox is described and listed", async () => {
  const i = await s.getInfo();
  assert.deepEqual([i.state, i.metadata["a k"], i.lifecycle?.onTimeout ?? "kill"], ["running", "b c", "kill"]);
  const list = await Sandbox.list({ query: { metadata: { "a k": "b c" }, state: ["running"] }, limit: 1 }).nextItems();
  assert.deepEqual(list.map((x) => x.sandboxId), [s.sandboxId]);
  assert.equal((await Sandbox.list({ query: { metadata: { "a k": "other" } } }).nextItems()).length, 0);
});
await row("a time-out is set", async () => {
  await s.setTimeout(300000);
  const left = (await s.getInfo()).endAt - Date.now();
  assert.ok(left > 280000 && left < 301000, String(left));
});
await row("metrics are measured", async () => {
  const [m] = await s.getMetrics();
  assert.ok(m.cpuCount > 0 && m.memUsed > 0 && m.diskTotal > m.diskUsed);
});
await row("a pause keeps processes", async () => {
  const h = await s.commands.run("sleep 1000", { background: true, timeoutMs: 0 });
  assert.ok(await s.pause());
  assert.ok(!(await s.pause()));
  assert.equal(await s.isRunning(), false);
  await fails(s.commands.run("true"), "SandboxNotFoundError");
  await fails(h.wait(), "TimeoutError", "killed or reached its end of life");
  await s.connect();
  assert.equal(await s.isRunning(), true);
  const again = await s.commands.connect(h.pid);
  assert.equal(await again.kill(), true);
});
await row("a snapshot makes sandboxes", async () => {
  const n = await s.createSnapshot();
  const other = await Sandbox.create(n.snapshotId);
  assert.equal(await other.files.read("a/b.txt"), "hey");
  assert.equal(await other.kill(), true);
  assert.equal(await Sandbox.deleteSnapshot(n.snapshotId), true);
  assert.equal(await Sandbox.deleteSnapshot(n.snapshotId), false);
});
if (s.fork) {
  await row("a fork is another sandbox", async () => {
    const [child] = await s.fork();
    assert.notEqual(child.sandboxId, s.sandboxId);
    assert.equal(await child.files.read("a/b.txt"), "hey");
    await child.kill();
  });
  await row("the network is changed", async () => {
    await s.updateNetwork({ denyOut: ["0.0.0.0/0"], allowOut: ["example.com"] });
    assert.deepEqual((await s.getInfo()).network.allowOut, ["example.com"]);
  });
}
await row("another client connects", async () => {
  assert.equal((await (await Sandbox.connect(s.sandboxId)).commands.run("echo 1")).stdout, "1\n");
});
await row("what Warren lacks is refused", async () => {
  await fails(Sandbox.create("nope"), "SandboxError", "no such template");
  await fails(Sandbox.create({ apiKey: "e2b_00" }), "AuthenticationError", "warren key create --e2b");
  await fails(sdk.Template.build(sdk.Template().fromImage("registry.test/x"), { alias: "x" }), "BuildError", "has not imported");
  assert.equal(await sdk.Template.exists("base"), true);
  assert.equal(await sdk.Template.exists("nope"), false);
});
await row("a sandbox is killed", async () => {
  const h = await s.commands.run("sleep 100", { background: true });
  assert.equal(await s.kill(), true);
  await fails(h.wait(), "TimeoutError", "killed or reached its end of life");
  assert.equal(await s.kill(), false);
  await fails(s.commands.run("true"), "SandboxNotFoundError");
});
finish();
