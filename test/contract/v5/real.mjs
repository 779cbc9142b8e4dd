// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// What only a real VM shows of /v5. test/system runs it.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { as, cli, client, closed, finish, row, terminal } from "./common.mjs";

const { vms, identities, firewall } = client();
const began = Date.now();
const { vm, vmId } = await row("a VM is made", () => vms.create({ ...closed, slug: "real" }));

await row("a command has output, a status and a user", async () => {
  assert.deepEqual(await vm.exec("echo out; echo err >&2; exit 7"), { stdout: "out\n", stderr: "err\n", statusCode: 7 });
  await vm.exec("useradd -m -u 1000 -s /bin/bash worker");
  assert.equal((await vm.exec("id -un; pwd; echo $HOME")).stdout, "worker\n/home/worker\n/home/worker\n");
  assert.equal((await vm.exec({ command: "id -un; pwd", linuxUser: "root" })).stdout, "root\n/root\n");
  assert.equal((await vm.exec({ command: "sleep 60", timeoutMs: 500 })).statusCode, null);
});
await row("a command in the background of a connection is answered later", async () => {
  assert.equal((await vm.exec("sleep 5.5; echo done")).stdout, "done\n");
});
await row("files keep their bytes", async () => {
  const data = randomBytes(300_000);
  await vm.fs.writeFile("/srv/a b/ü.bin", data, { mode: 0o640 });
  assert.ok(data.equals(Buffer.from(await vm.fs.readFile("/srv/a b/ü.bin"))), "the bytes differ");
  assert.ok(data.subarray(7, 100).equals(Buffer.from(await vm.fs.readFile("/srv/a b/ü.bin", { offset: 7, length: 93 }))), "a part differs");
  assert.equal((await vm.exec({ command: "stat -c %a:%U '/srv/a b/ü.bin'", linuxUser: "root" })).stdout, "640:root\n");
});
await row("a large file arrives in chunks", async () => {
  const data = randomBytes(9 << 20);
  await vm.exec({ command: "mkdir /srv/to; ln -s to/large /srv/link; echo old >/srv/to/large; chown worker /srv/to/large; chmod 604 /srv/to/large", linuxUser: "root" });
  await vm.fs.writeFile("/srv/link", data, { chunkSize: 4 << 20 });
  assert.equal((await vm.exec({ command: "stat -c %s:%a:%U /srv/to/large; ls -A /srv/to; test -L /srv/link", linuxUser: "root" })).stdout, `${9 << 20}:604:worker\nlarge\n`);
  assert.ok(data.equals(Buffer.from(await vm.fs.readFile("/srv/link"))), "the bytes differ");
});
await row("a terminal is joined again", async () => {
  const one = terminal();
  const s = await vm.pty.open({ slug: "main", cols: 90, rows: 30, ...one.events });
  s.write("stty size; id -un; x=kept\n");
  await one.until("30 90");
  await one.until("worker");
  s.resize({ cols: 100, rows: 40 });
  s.write("stty size\n");
  await one.until("40 100");
  s.detach();
  const two = terminal();
  const again = await vm.pty.open({ slug: "main", ...two.events });
  assert.equal(again.created, false);
  await two.until("30 90");
  again.write("echo value-$x; sleep 100\n");
  await two.until("value-kept");
  again.signal("sigint");
  again.write("exit 4\n");
  assert.equal(await two.exited, 4);
  again.detach();
});
await row("a VM is made from a snapshot and keeps its processes", async () => {
  await vm.exec("setsid sleep 7654 >/dev/null 2>&1 & sleep 0.1");
  const { snapshotId } = await vm.snapshot({ slug: "real-snap" });
  const copy = await vms.create({ ...closed, snapshotId: "real-snap" });
  assert.equal((await copy.vm.exec("pgrep -xc sleep")).stdout, "1\n");
  assert.equal((await copy.vm.fs.readFile("/srv/link", { length: 1 })).length, 1);
  assert.equal(copy.data.snapshotId, snapshotId);
  await copy.vm.delete();
  await vms.snapshots.delete("real-snap");
});
await row("a command wakes a paused VM", async () => {
  assert.equal((await vm.pause()).state, "paused");
  assert.equal((await vm.exec("pgrep -xc sleep")).stdout, "1\n");
  assert.equal((await vm.data()).state, "running");
});
await row("what a VM may reach is changed", async () => {
  const rule = await firewall.rules.create({ action: "allow", source: { vmId }, destination: { public: true } });
  assert.deepEqual((await vm.firewallRules()).rules, [rule]);
  await firewall.rules.delete(rule.id);
  assert.equal((await vm.firewallRules()).totalCount, 0);
});
await row("an identity reaches its VM only", async () => {
  const { identity } = await identities.create();
  const { token } = await identity.tokens.create();
  await identity.permissions.vm.grant({ vmId, allowedLinuxUsers: ["worker"] });
  const theirs = as(token).vms.ref(vmId);
  assert.equal((await theirs.linuxUser("worker").exec("id -un")).stdout, "worker\n");
  await assert.rejects(theirs.exec({ command: "id", linuxUser: "root" }), (e) => e.status === 403);
  await identity.delete();
  await assert.rejects(theirs.linuxUser("worker").exec("id -un"), (e) => e.status === 401);
});
await row("the command line runs a command", async () => {
  const r = await cli("vm", "exec", "real", "--", "sh", "-c", "echo seen; exit 5");
  assert.deepEqual([r.code, r.stdout], [5, "seen\n"], r.stderr);
});
await row("a VM is deleted", async () => {
  await vm.delete();
  await assert.rejects(vms.get(vmId), (e) => e.status === 404 && e.code === "NOT_FOUND");
});
console.log(`${Date.now() - began} ms`);
finish();
