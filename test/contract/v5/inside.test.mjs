// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Commands, files and terminals of /v5.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import test, { after, before } from "node:test";
import { client, closed, fails, raw, terminal, url } from "./common.mjs";

let vm, vmId;
before(async () => {
  ({ vm, vmId } = await client().vms.create({ ...closed, slug: "v5-inside" }));
});
after(() => vm.delete());

test("a command has output, a status, variables and input", async () => {
  assert.deepEqual(await vm.exec("echo out; echo err >&2; exit 7"), { stdout: "out\n", stderr: "err\n", statusCode: 7 });
  assert.equal((await vm.exec({ command: "echo $A", env: { A: "b c" } })).stdout, "b c\n");
  assert.equal((await vm.exec({ command: "cat", stdin: Buffer.from("grüße\0").toString("base64") })).stdout, "grüße\0");
  assert.equal((await vm.exec("pwd; whoami")).stdout, "/root\nroot\n");
});

test("a command that runs too long has no status", async () => {
  const r = await vm.exec({ command: "echo part; sleep 60", timeoutMs: 1500 });
  assert.deepEqual([r.stdout, r.statusCode], ["part\n", null]);
});

test("a command runs as a Linux user", async () => {
  await vm.exec("useradd -m v5ann");
  assert.equal((await vm.linuxUser("v5ann").exec("whoami")).stdout, "v5ann\n");
  await fails(vm.exec({ command: "true", linuxUser: "nobody-here" }), 400, "BAD_REQUEST", "no such Linux user");
  await fails(vm.exec({ command: "true", linuxUser: "Not A User" }), 400, "BAD_REQUEST", "linuxUser");
});

test("a bad command is refused", async () => {
  for (const bad of [{}, { command: "" }, { command: "true", cwd: "/" }, { command: "true", timeoutMs: 0 }, { command: "true", env: { "a-b": "" } }, { command: "true", stdin: "?" }])
    await fails(vm.exec(bad), 400, "BAD_REQUEST");
  await fails(vm.exec({ command: "cat", stdin: randomBytes((1 << 20) + 1).toString("base64") }), 413, "PAYLOAD_TOO_LARGE", "1 MiB");
  await fails(client().vms.ref("no-such-vm").exec("true"), 404, "NOT_FOUND", "no such VM");
});

test("a long command is answered later, and the poll waits for it", async () => {
  const seen = [];
  const watched = (input, init) => fetch(input, init).then((a) => (seen.push([new URL(String(input)).pathname.split("/")[2], a.status]), a));
  const began = Date.now();
  const r = await client({ fetch: watched }).vms.ref(vmId).exec("sleep 6; echo done");
  assert.deepEqual([r.stdout, r.statusCode], ["done\n", 0]);
  assert.deepEqual(seen, [["vms", 202], ["background-requests", 200]]);
  assert.ok(Date.now() - began < 20_000, "the answer took longer than a poll may wait");
  await fails(client().vms.ref(vmId).exec({ command: "sleep 6; true", nonsense: 1 }), 400, "BAD_REQUEST");
  assert.equal((await raw("GET", "/v5/background-requests/ri-none")).status, 404);
  assert.equal((await raw("GET", "/v5/vms", undefined, { "x-freestyle-background-after-secs": "soon" })).json.code, "BAD_REQUEST");
});

test("files are written, read in parts, described and removed", async () => {
  const data = randomBytes(100_000);
  await vm.fs.writeFile("/work/a dir/ü.bin", data, { mode: 0o640 });
  assert.deepEqual(Buffer.from(await vm.fs.readFile("/work/a dir/ü.bin")), data);
  assert.deepEqual(Buffer.from(await vm.fs.readFile("/work/a dir/ü.bin", { offset: 10, length: 20 })), data.subarray(10, 30));
  assert.deepEqual(Buffer.from(await vm.fs.readFile("/work/a dir/ü.bin", { offset: 99_990 })), data.subarray(99_990));
  await fails(vm.fs.readFile("/work/a dir/ü.bin", { offset: 100_000 }), 416, "RANGE_NOT_SATISFIABLE");
  const s = await vm.fs.stat("/work/a dir/ü.bin");
  assert.deepEqual([s.size, s.isFile, s.isDirectory, s.isSymlink, s.permissions, s.owner, s.group], [100_000, true, false, false, "0640", "root", "root"]);
  assert.ok(Math.abs(Number(s.modified) - Date.now() / 1000) < 3600, "the time of the change");
  await vm.fs.writeTextFile("/work/new", "x");
  assert.equal((await vm.fs.stat("/work/new")).permissions, "0600");
  await vm.fs.writeFile("/work/a dir/ü.bin", "short");
  assert.equal((await vm.fs.stat("/work/a dir/ü.bin")).permissions, "0640");
  await vm.fs.writeFile("/work/a dir/ü.bin", "short", { mode: 0o755 });
  assert.equal((await vm.fs.stat("/work/a dir/ü.bin")).permissions, "0755");
  await vm.fs.mkdir("/work/d/e");
  await vm.fs.mkdir("/work/d/e");
  assert.deepEqual((await vm.fs.readDir("/work")).sort((a, b) => (a.name < b.name ? -1 : 1)), [
    { name: "a dir", kind: "directory" }, { name: "d", kind: "directory" }, { name: "new", kind: "file" },
  ]);
  assert.deepEqual([await vm.fs.exists("/work/d"), await vm.fs.exists("/work/nope")], [true, false]);
  await vm.fs.remove("/work/d");
  await fails(vm.fs.remove("/work/d"), 404, "NOT_FOUND");
  await fails(vm.fs.readFile("/work/nope"), 404, "NOT_FOUND");
  await fails(vm.fs.readDir("/work/nope"), 404, "NOT_FOUND");
  await fails(vm.fs.readFile("relative"), 400, "BAD_REQUEST", "absolute");
  await fails(vm.fs.readFile("/work/../etc/passwd"), 400, "BAD_REQUEST", "..");
  await fails(vm.fs.remove("/"), 400, "BAD_REQUEST");
});

test("what arrives damaged is not written", async () => {
  const at = `/v5/vms/${vmId}/fs/write?path=/work/sum&sha256=`;
  const bytes = { "Content-Type": "application/octet-stream" };
  const answer = await raw("PUT", at + "0".repeat(64), "hello", bytes);
  assert.deepEqual([answer.status, answer.json.code], [400, "BAD_REQUEST"]);
  assert.equal(await vm.fs.exists("/work/sum"), false);
  assert.equal((await raw("PUT", at + "xyz", "hello", bytes)).status, 400);
  const json = { "Content-Type": "application/json" };
  assert.equal((await raw("PUT", `/v5/vms/${vmId}/fs/write`, JSON.stringify({ path: "/work/json", content: "aGk=", encoding: "base64", mode: 420 }), json)).status, 204);
  assert.deepEqual([await vm.fs.readTextFile("/work/json"), (await vm.fs.stat("/work/json")).permissions], ["hi", "0644"]);
});

test("a large file arrives in chunks", async () => {
  const data = randomBytes(20 << 20);
  const steps = [];
  await vm.fs.writeFile("/work/large", data, { chunkSize: 8 << 20, mode: 0o600, onProgress: (p) => steps.push(p.completedBytes) });
  assert.deepEqual(steps, [8 << 20, 16 << 20, 20 << 20]);
  assert.ok(data.equals(Buffer.from(await vm.fs.readFile("/work/large"))), "its bytes differ");
});

test("an upload continues where it was cut off", async () => {
  const base = `/v5/vms/${vmId}/fs/uploads`;
  const bytes = { "Content-Type": "application/octet-stream" };
  const json = { "Content-Type": "application/json" };
  const begin = (more) => raw("POST", base, JSON.stringify({ path: "/work/parts", size: 10, ...more }), json);
  const { json: up } = await begin({});
  assert.deepEqual([up.path, up.size, up.receivedBytes], ["/work/parts", 10, 0]);
  const at = `${base}/${up.uploadId}`;
  assert.equal((await raw("PUT", `${at}?offset=0`, "01234", bytes)).json.receivedBytes, 5);
  assert.equal((await raw("PUT", `${at}?offset=0`, "xxxxx", bytes)).json.receivedBytes, 5);
  assert.equal((await raw("PUT", `${at}?offset=7`, "789", bytes)).json.code, "CONFLICT");
  assert.equal((await raw("PUT", `${at}?offset=5`, "567890", bytes)).json.code, "BAD_REQUEST");
  assert.equal((await raw("POST", `${at}/commit`, "{}", json)).json.code, "BAD_REQUEST");
  assert.equal((await raw("PUT", `${at}?offset=3`, "3456789", bytes)).json.receivedBytes, 10);
  assert.equal(await vm.fs.exists("/work/parts"), false);
  assert.equal((await raw("POST", `${at}/commit`, "{}", json)).status, 204);
  assert.equal(await vm.fs.readTextFile("/work/parts"), "0123456789");
  assert.equal((await raw("GET", at)).json.code, "NOT_FOUND");
  const { json: wrong } = await begin({ sha256: "0".repeat(64), size: 1 });
  await raw("PUT", `${base}/${wrong.uploadId}?offset=0`, "x", bytes);
  assert.equal((await raw("POST", `${base}/${wrong.uploadId}/commit`, "{}", json)).json.code, "BAD_REQUEST");
  assert.equal((await raw("DELETE", `${base}/${wrong.uploadId}`)).status, 204);
  assert.deepEqual((await vm.fs.readDir("/work")).filter((e) => e.name.startsWith(".")), []);
  for (const bad of [{ size: -1 }, { size: 17 * 2 ** 30 }, { path: "relative" }, { sha256: "no" }])
    assert.ok((await begin(bad)).status >= 400, JSON.stringify(bad));
});

test("a terminal is opened, left and joined again", async () => {
  const one = terminal();
  const s = await vm.pty.open({ slug: "main", cols: 100, rows: 30, ...one.events });
  assert.deepEqual([s.created, s.slug, Number.isInteger(s.sessionId)], [true, "main", true]);
  s.write("echo fi\"\"rst\n");
  await one.until("first");
  s.detach();
  const listed = (await vm.pty.list()).sessions.find((x) => x.slug === "main");
  assert.deepEqual([listed.sessionId, listed.state, listed.linuxUser], [s.sessionId, "running", "root"]);
  const two = terminal();
  const joined = await vm.pty.open({ slug: "main", exec: "exit 9", ...two.events });
  assert.deepEqual([joined.created, joined.sessionId], [false, s.sessionId]);
  await two.until("first");
  const three = terminal();
  const third = await vm.pty.attach({ session: s.sessionId, ...three.events });
  await three.until("first");
  joined.write("exit 4\n");
  assert.deepEqual([await two.exited, await three.exited], [4, 4]);
  const after = (await vm.pty.list()).sessions.find((x) => x.sessionId === s.sessionId);
  assert.deepEqual([after.state, after.exitCode, after.slug], ["exited", 4, undefined]);
  for (const open of [joined, third]) open.detach();
});

test("a terminal runs a command and is closed", async () => {
  const t = terminal();
  const s = await vm.pty.open({ exec: "sleep 100", ...t.events });
  assert.equal(s.slug, undefined);
  assert.equal((await vm.pty.close(s.sessionId)).sessionId, s.sessionId);
  await fails(vm.pty.close(s.sessionId), 404, "NOT_FOUND");
  s.detach();
  await assert.rejects(vm.pty.open({ slug: "123" }), /400/);
  await assert.rejects(vm.pty.open({ replaceOnExit: true }), /501/);
  await assert.rejects(vm.pty.attach({ session: 99999 }), /404/);
  await assert.rejects(client({ apiKey: "wrong" }).vms.ref(vmId).pty.open(), /401/);
  assert.equal((await fetch(`${url}/v5/vms/${vmId}/pty`, { headers: { Authorization: `Bearer ${process.env.FREESTYLE_API_KEY}` } })).status, 400);
});
