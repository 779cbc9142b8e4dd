// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Forks, suspends and snapshots through freestyle@0.1.63.
import assert from "node:assert/strict";
import test from "node:test";
import { client, Errors, raw, real, rejects, withVM } from "./common.mjs";

const f = client();
const ids = (list) => list.map((s) => s.snapshotId);

test("fork: running copies that go their own way", async () => {
  await withVM({ name: "contract-fork" }, async (vm, { vmId }) => {
    await vm.exec("echo before > /work/f");
    const { forks } = await vm.fork({ count: 2 });
    assert.equal(forks.length, 2);
    try {
      for (const [i, fork] of forks.entries()) {
        assert.match(fork.vmId, /^[a-z0-9]{20}$/);
        assert.equal((await fork.vm.exec("cat /work/f")).stdout, "before\n");
        await fork.vm.exec(`echo ${i} > /work/f`);
      }
      assert.equal((await vm.exec("cat /work/f")).stdout, "before\n");
      const row = (await f.vms.list()).vms.find((v) => v.id === forks[0].vmId);
      assert.equal(row.state, "running");
      assert.equal(row.parentVmId, vmId);
    } finally {
      for (const fork of forks) {
        await fork.vm.delete();
      }
    }
    await rejects(vm.fork({ count: 0 }), "INVALID_REQUEST");
    await rejects(vm.fork({ count: 10000 }), "INVALID_REQUEST");
    await vm.stop();
    await rejects(vm.fork({ count: 1 }), "VM_NOT_RUNNING");
  });
});

test("suspend, start, and an exec that wakes", async () => {
  await withVM({}, async (vm, { vmId }) => {
    await vm.exec("echo kept > /work/f");
    const done = await vm.suspend();
    assert.equal(done.id, vmId);
    assert.match(done.snapshotLayerId, /^sl-[a-z0-9]{16}$/);
    assert.equal((await vm.getInfo()).state, "suspended");
    assert.equal((await vm.suspend()).id, vmId); // again: succeeds
    assert.equal((await vm.start()).id, vmId);
    assert.equal((await vm.getInfo()).state, "running");
    await vm.suspend();
    assert.equal((await vm.exec("cat /work/f")).stdout, "kept\n");
    assert.equal((await vm.getInfo()).state, "running");
  });
});

test("snapshot, create from it, list, get, update, delete", async () => {
  await withVM({}, async (vm, { vmId }) => {
    await vm.exec("echo snap > /work/f");
    const taken = await vm.snapshot({ name: "contract-snap" });
    assert.match(taken.snapshotId, /^sc-[a-z0-9]{20}$/);
    assert.equal(taken.sourceVmId, vmId);
    await vm.exec("echo later > /work/f");
    const { snapshots } = await f.vms.snapshots.list();
    assert.ok(ids(snapshots).includes(taken.snapshotId));
    const one = await raw("GET", `/v1/vms/snapshots/${taken.snapshotId}`);
    assert.equal(one.json.state, "ready");
    assert.equal(one.json.sourceVmId, vmId);
    assert.deepEqual(one.json.snapshotPersistence, { type: "sticky", priority: 5 });
    await withVM({ snapshotId: taken.snapshotId }, async (child) => {
      assert.equal((await child.exec("cat /work/f")).stdout, "snap\n");
      const named = await raw("PATCH", `/v1/vms/snapshots/${taken.snapshotId}`, { name: "contract-renamed" });
      assert.deepEqual(named.json, { snapshot_id: taken.snapshotId, name: "contract-renamed" });
      await f.vms.snapshots.delete({ snapshotId: taken.snapshotId });
      assert.equal((await child.exec("cat /work/f")).stdout, "snap\n"); // it continues
    });
    assert.ok(!ids((await f.vms.snapshots.list()).snapshots).includes(taken.snapshotId));
    const all = await raw("GET", "/v1/vms/snapshots?includeDeleted=true");
    assert.ok(ids(all.json.snapshots).includes(taken.snapshotId));
    assert.equal((await raw("DELETE", `/v1/vms/snapshots/${taken.snapshotId}`)).json.code, "SNAPSHOT_ALREADY_DELETED");
    await assert.rejects(f.vms.create({ snapshotId: taken.snapshotId }), Errors.SourceSnapshotDeletedError);
  });
});

test("rollback and lineage, which are ours", async () => {
  await withVM({ name: "contract-back" }, async (vm, { vmId }) => {
    await vm.exec("echo good > /work/f");
    await vm.snapshot({ name: "contract-good" });
    await vm.exec("echo bad > /work/f");
    const back = await raw("POST", `/v1/vms/${vmId}/rollback`, { to: "contract-good" });
    assert.equal(back.status, 200, JSON.stringify(back.json));
    assert.ok(back.json.notUndone.length > 0 && back.json.before.id);
    assert.equal((await vm.exec("cat /work/f")).stdout, "good\n");
    const tree = await raw("GET", `/v1/vms/${vmId}/lineage`);
    assert.ok(tree.json.generations.some((g) => g.why === "before-rollback"));
    assert.equal((await raw("POST", `/v1/vms/${vmId}/rollback`, { to: "nothing" })).json.code, "SNAPSHOT_NOT_FOUND");
    await raw("DELETE", "/v1/vms/snapshots/contract-good");
  });
});

real("a fork has the parent's processes and an identity of its own", async () => {
  await withVM({}, async (vm) => {
    await vm.exec(
      "setsid python3 -m http.server 3000 >/dev/null 2>&1 & timeout 60 sh -c 'until curl -sf -o /dev/null localhost:3000; do sleep 0.1; done'",
    );
    const { forks } = await vm.fork({ count: 2 });
    const seen = new Set([(await vm.exec("cat /etc/machine-id /proc/sys/kernel/random/uuid")).stdout]);
    try {
      for (const fork of forks) {
        const out = await fork.vm.exec("curl -s -o /dev/null -w '%{http_code}' localhost:3000");
        assert.equal(out.stdout, "200");
        seen.add((await fork.vm.exec("cat /etc/machine-id /proc/sys/kernel/random/uuid")).stdout);
      }
    } finally {
      for (const fork of forks) {
        await fork.vm.delete();
      }
    }
    assert.equal(seen.size, 3);
  });
});
