// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// The life of a VM through freestyle@0.1.63.
import assert from "node:assert/strict";
import test from "node:test";
import { apiKey, client, Errors, Freestyle, raw, real, rejects, url, withVM } from "./common.mjs";

test("create, list, get, stop, start, delete", async () => {
  const f = client();
  const { vmId, vm, domains } = await f.vms.create({ name: "contract-life" });
  try {
    assert.match(vmId, /^[a-z0-9]{20}$/);
    assert.deepEqual(domains, [`${vmId}.warren.localhost`]);
    const list = await f.vms.list();
    const row = list.vms.find((v) => v.id === vmId);
    assert.equal(row.state, "running");
    assert.deepEqual(row.persistence, { type: "sticky", priority: 5 });
    assert.deepEqual(row.sizing, { vcpuCount: 1, memSizeMib: 512, rootfsSizeMb: 16384 });
    assert.ok(list.totalCount >= 1 && list.runningCount >= 1);
    const info = await vm.getInfo();
    assert.equal(info.state, "running");
    assert.equal(info.recreate, false);

    await vm.exec("echo kept > /work/kept; echo lost > /run/lost");
    const stopped = await vm.stop(); // 000-32
    assert.equal(stopped.vmId, vmId);
    assert.equal((await vm.getInfo()).state, "stopped");
    await rejects(vm.stop(), "VM_NOT_RUNNING");
    const started = await vm.start();
    assert.equal(started.id, vmId);
    assert.deepEqual(started.domains, domains);
    const again = await vm.start(); // of a running VM: succeeds
    assert.equal(again.id, vmId);
    assert.equal((await vm.exec("cat /work/kept")).stdout, "kept\n");
    assert.notEqual((await vm.exec("cat /run/lost")).statusCode, 0);
  } finally {
    const gone = await f.vms.delete({ vmId });
    assert.equal(gone.id, vmId);
  }
  await rejects(vm.getInfo(), "VM_NOT_FOUND");
  await assert.rejects(vm.exec("true"), Errors.VmNotFoundError);
});

test("resize: while it runs, by a stop and a start, and refused", async () => {
  const { vm } = await client().vms.create({});
  try {
    await vm.exec("echo kept > /work/kept");
    await vm.resize({ cpu: 2, memory: 1, storage: 20 });
    const sizing = async () => (await client().vms.list()).vms.find((v) => v.id === vm.vmId).sizing;
    assert.deepEqual(await sizing(), { vcpuCount: 2, memSizeMib: 1024, rootfsSizeMb: 20480 });
    const { status, json } = await raw("POST", `/v1/vms/${vm.vmId}/resize`, { memSizeMib: 512 });
    assert.equal(status, 200);
    assert.deepEqual(json.how, { memory: "restart" });
    assert.equal((await vm.exec("cat /work/kept")).stdout, "kept\n");
    await rejects(vm.resize({ cpu: 3 }), "RESIZE_VM_VCPU_NOT_POWER_OF_TWO");
    await rejects(vm.resize({ storage: 10 }), "RESIZE_VM_ROOTFS_SHRINK_NOT_SUPPORTED");
    await rejects(vm.resize({}), "RESIZE_VM_EMPTY_REQUEST");
  } finally {
    await vm.delete();
  }
});

test("kill, await and delete while it runs", async () => {
  const { vm } = await client().vms.create({});
  const ended = vm.waitForExit();
  await vm.kill();
  const exit = await ended;
  assert.equal(exit.id, vm.vmId);
  assert.ok(exit.exitStatus);
  await vm.delete();
});

test("persistence and idle time-out: absent, null and a number differ", async () => {
  const idle = async (body) => {
    const made = await raw("POST", "/v1/vms", body);
    assert.equal(made.status, 200, JSON.stringify(made.json));
    const list = await raw("GET", "/v1/vms");
    const row = list.json.vms.find((v) => v.id === made.json.id);
    await raw("DELETE", `/v1/vms/${made.json.id}`);
    return row;
  };
  const plain = await idle({});
  assert.equal(plain.idleTimeoutSeconds, 300);
  const never = await idle({ idleTimeoutSeconds: null, persistence: { type: "persistent" } });
  assert.equal(never.idleTimeoutSeconds, null);
  assert.deepEqual(never.persistence, { type: "persistent" });
  const named = await idle({ idleTimeoutSeconds: 77, persistence: { type: "sticky", priority: 0 } });
  assert.equal(named.idleTimeoutSeconds, 77);
  assert.deepEqual(named.persistence, { type: "sticky", priority: 0 });
  for (const event of ["onSuspend", "onIdleTimeout", "OnStop", "OnSuspend"]) {
    const row = await idle({ persistence: { type: "ephemeral", deleteEvent: event } });
    assert.equal(row.persistence.type, "ephemeral");
  }
});

test("bad requests get codes that the SDK knows", async () => {
  const f = client();
  for (const body of [
    { persistence: { type: "sticky", priority: 11 } },
    { persistence: { type: "sticky", priority: -1 } },
    { persistence: { type: "forever" } },
    { idleTimeoutSeconds: -5 },
    { name: "Not A Name" },
    { git: { repos: [{ repo: "x", path: "/y" }] } },
  ]) {
    await rejects(f.vms.create(body), "CREATE_VM_BAD_REQUEST");
  }
  await rejects(f.vms.create({ domains: [{ domain: "a.example", vmPort: 80 }] }), "DOMAIN_OWNERSHIP_NOT_VERIFIED");
  await rejects(f.vms.create({ vcpuCount: 3 }), "CREATE_VM_VCPU_NOT_POWER_OF_TWO");
  await rejects(f.vms.create({ vcpuCount: 64 }), "CREATE_VM_VCPU_OUT_OF_RANGE");
  await rejects(f.vms.create({ memSizeGb: 3 }), "CREATE_VM_MEM_NOT_POWER_OF_TWO");
  await rejects(f.vms.create({ snapshotId: "sc-nosuchsnapshot0000000" }), "SNAPSHOT_NOT_FOUND");
  await rejects(f.vms.get({ vmId: "aaaaaaaaaaaaaaaaaaaa" }).vm?.getInfo() ?? f.vms.ref({ vmId: "aaaaaaaaaaaaaaaaaaaa" }).getInfo(), "VM_NOT_FOUND");
  const mess = await raw("POST", "/v1/vms", "{not json");
  assert.equal(mess.status, 400);
  assert.ok(Object.values(Errors).some((e) => e.code === mess.json.code), mess.json.code);
});

test("credentials", async () => {
  const stranger = new Freestyle({ baseUrl: url, apiKey: "not-a-key" });
  await rejects(stranger.vms.list(), "UNAUTHORIZED_ERROR");
  const me = await client().whoami();
  assert.match(me.accountId, /^[0-9a-f-]{36}$/);
  const none = await fetch(`${url}/v1/vms`);
  assert.equal(none.status, 401);
  assert.equal((await none.json()).route, "/v1/vms");
  assert.ok(apiKey);
});

test("every answer carries its ids, a change its receipt", async () => {
  await withVM({}, async (vm) => {
    const list = await raw("GET", "/v1/vms");
    assert.match(list.headers.get("x-freestyle-trace-id"), /^ri-[a-z0-9]{20}$/);
    assert.equal(list.headers.get("warren-receipt"), null);
    const ran = await raw("POST", `/v1/vms/${vm.vmId}/exec-await`, { command: "true", terminal: null, timeoutMs: null });
    const receipt = ran.headers.get("warren-receipt");
    assert.match(receipt, /^rc-[a-z0-9]{20}$/);
    const audit = await raw("GET", `/v1/audit?vm=${vm.vmId}`);
    assert.ok(audit.json.records.some((r) => r.id === receipt && r.op === "exec"));
  });
});

// On a simulated host a create is over before any time has passed.
real("a create with a logger keeps running in the background", async () => {
  const lines = [];
  const made = await client().vms.create({ name: "contract-bg", logger: (l) => lines.push(l) });
  await client().vms.delete({ vmId: made.vmId });
  const slow = await raw("POST", "/v1/vms", {}, { "x-freestyle-background-after-secs": "0.001" });
  assert.equal(slow.status, 202);
  const id = slow.headers.get("x-freestyle-background-request-id");
  assert.equal(slow.json.requestId, id);
  let answer;
  for (let i = 0; i < 600; i++) {
    answer = await raw("GET", `/auth/v1/background-requests/${id}`);
    if (answer.status !== 202) break;
    await new Promise((r) => setTimeout(r, 100));
  }
  assert.equal(answer.status, 200);
  assert.match(answer.json.id, /^[a-z0-9]{20}$/);
  const logs = await raw("GET", `/observability/v1/logs?requestId=${id}`);
  assert.ok(logs.json.logs.length > 0);
  await client().vms.delete({ vmId: answer.json.id });
  const unknown = await raw("GET", "/auth/v1/background-requests/ri-00000000000000000000");
  assert.equal(unknown.status, 404);
  assert.equal(unknown.json.code, "NOT_FOUND");
});

test("the image's snapshot can be created from and not deleted", async () => {
  const list = await raw("GET", "/v1/vms/snapshots");
  assert.ok(list.json.readyCount >= 1);
  const base = list.json.snapshots.find((s) => s.name === "base");
  await withVM({ snapshotId: base.snapshotId }, async (vm, made) => {
    assert.equal(made.snapshotId, base.snapshotId);
    assert.equal((await vm.exec("true")).statusCode, 0);
  });
  const refused = await raw("DELETE", `/v1/vms/snapshots/${base.snapshotId}`);
  assert.equal(refused.status, 409);
  assert.equal(refused.json.code, "SNAPSHOT_IS_ACCOUNT_DEFAULT");
});

test("idle timeout: absent, null and a number; a start keeps it; a sleeping VM wakes", async () => {
  const f = client();
  const shown = async (id) => (await raw("GET", `/v1/vms/${id}`)).json.idleTimeoutSeconds;
  for (const [options, want] of [[{}, 300], [{ idleTimeoutSeconds: null }, null], [{ idleTimeoutSeconds: 77 }, 77], [{ idleTimeoutSeconds: 600, activityThresholdBytes: 1024 }, 600]]) {
    await withVM(options, async (vm, { vmId }) => {
      assert.equal(await shown(vmId), want);
      assert.equal((await raw("GET", `/v1/vms/${vmId}/idle`)).json.idleTimeoutSeconds, want);
      await vm.start();
      assert.equal(await shown(vmId), want);
      await vm.start({ idleTimeoutSeconds: null });
      assert.equal(await shown(vmId), null);
    });
  }
  await withVM({}, async (vm, { vmId }) => {
    await vm.suspend();
    assert.equal((await vm.getInfo()).state, "suspended"); // a look wakes nothing
    const answers = await Promise.all(Array.from({ length: 20 }, () => vm.exec("echo awake")));
    assert.ok(answers.every((a) => a.stdout === "awake\n"));
    assert.equal((await f.vms.list()).vms.find((v) => v.id === vmId).state, "running");
    const { json } = await raw("GET", `/v1/vms/${vmId}/idle`);
    assert.equal(json.lastKind, "exec");
    assert.ok(new Date(json.sleepsAt) > new Date());
  });
});
