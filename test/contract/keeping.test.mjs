// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// How VMs are kept, as freestyle-sandboxes@0.1.46 says it: each type behaves as
// it is named.
import assert from "node:assert/strict";
import test from "node:test";
import { freestyle } from "freestyle-sandboxes"; // it finds server and key in the environment
import { raw, rejects } from "./common.mjs";

const row = async (vmId) => (await freestyle.vms.list()).vms.find((v) => v.id === vmId);

// made creates a VM, hands it to f, and deletes it unless it has gone.
async function made(options, f) {
  const { vm, vmId } = await freestyle.vms.create(options);
  try {
    await f(vm, vmId);
  } finally {
    if (await row(vmId)) {
      await freestyle.vms.delete({ vmId });
    }
  }
}

// goes waits until a VM is no longer there.
async function goes(vmId, within = 20_000) {
  const end = Date.now() + within;
  while (await row(vmId)) {
    assert.ok(Date.now() < end, `${vmId} is still there`);
    await new Promise((r) => setTimeout(r, 100));
  }
}

// 004-07, 004-13, 004-14
test("create() equals sticky 5, and every answer says so", async () => {
  const sticky = { type: "sticky", priority: 5 };
  for (const options of [undefined, { persistence: sticky }]) {
    await made(options, async (vm, vmId) => {
      assert.deepEqual((await row(vmId)).persistence, sticky);
      const { forks } = await (await raw("POST", `/v1/vms/${vmId}/fork`, { count: 1 })).json;
      assert.deepEqual((await row(forks[0].id)).persistence, sticky);
      await freestyle.vms.delete({ vmId: forks[0].id });
    });
  }
  const answer = await raw("POST", "/v1/vms", {});
  await raw("DELETE", `/v1/vms/${answer.json.id}`);
  assert.deepEqual(answer.json.persistence, sticky);
});

// 004-01, 004-02
test("ephemeral: any of its ends deletes it", async () => {
  await made({ persistence: { type: "ephemeral" } }, async (vm, vmId) => {
    await vm.suspend();
    await goes(vmId);
  });
  await made({ persistence: { type: "ephemeral" } }, async (vm, vmId) => {
    await vm.stop();
    await goes(vmId);
  });
});

// 004-04
test("ephemeral, onSuspend: a suspend deletes it, a stop does not", async () => {
  await made({ persistence: { type: "ephemeral", deleteEvent: "onSuspend" } }, async (vm, vmId) => {
    await vm.stop();
    assert.equal((await row(vmId)).state, "stopped");
    await vm.start();
    await vm.suspend();
    await goes(vmId);
  });
});

// 004-04
test("ephemeral, onIdleTimeout: its idle timeout deletes it, a suspend does not", async () => {
  await made({ persistence: { type: "ephemeral", deleteEvent: "onIdleTimeout" }, idleTimeoutSeconds: 3 }, async (vm, vmId) => {
    await vm.suspend();
    assert.equal((await row(vmId)).state, "suspended");
    await vm.start();
    assert.equal((await row(vmId)).state, "running");
    await goes(vmId);
  });
});

// 004-05, 004-06
test("sticky and persistent VMs stay when they sleep and stop", async () => {
  for (const persistence of [{ type: "sticky", priority: 10 }, { type: "sticky", priority: 1 }, { type: "persistent" }]) {
    await made({ persistence }, async (vm, vmId) => {
      await vm.suspend();
      await vm.start();
      await vm.stop();
      const kept = await row(vmId);
      assert.equal(kept.state, "stopped");
      assert.deepEqual(kept.persistence, persistence);
    });
  }
});

// 004-06
test("what cannot be is refused, and nothing is made", async () => {
  const before = (await freestyle.vms.list()).vms.length;
  for (const body of [
    { persistence: { type: "sticky", priority: -1 } },
    { persistence: { type: "sticky", priority: 11 } },
    { persistence: { type: "sticky", priority: "high" } },
    { persistence: { type: "forever" } },
    { persistence: { type: "ephemeral", deleteEvent: "onFullMoon" } },
    { ttlSeconds: 0 },
    { ttlSeconds: 1e12 },
  ]) {
    await rejects(freestyle.vms.create(body), "CREATE_VM_BAD_REQUEST");
  }
  assert.equal((await freestyle.vms.list()).vms.length, before);
});
