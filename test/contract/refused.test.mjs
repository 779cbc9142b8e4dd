// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// What this version does not do is refused with a code that both packages
// know, never left out in silence; what is harmless is answered as the contract says.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { VmSpec } from "freestyle";
import { client, raw, real, rejects, withVM } from "./common.mjs";

const f = client();
let vm;
before(async () => {
  vm = (await f.vms.create({ name: "contract-refused" })).vm;
});
after(async () => {
  await vm.delete();
});

test("verbs of later versions", async () => {
  assert.equal((await vm.getInfo()).state, "running");
  assert.equal((await vm.optimize()).id, vm.vmId);
  assert.deepEqual((await vm.terminals.list()).terminals, []);
  assert.deepEqual((await vm.getLogs()).logs ?? [], []);
  await assert.rejects(vm.getBuild());
});

test("specs: a plain one is a plain VM, sizes count", async () => {
  await withVM({ spec: new VmSpec() }, async (made) => assert.equal((await made.exec("true")).statusCode, 0));
  await withVM({ spec: new VmSpec().vcpuCount(2).memSizeGb(1).workdir("/work"), name: "contract-spec" }, async (made, answer) => {
    const row = (await f.vms.list()).vms.find((v) => v.id === answer.vmId);
    assert.deepEqual(row.sizing, { vcpuCount: 2, memSizeMib: 1024, rootfsSizeMb: 16384 });
    assert.equal(row.name, "contract-spec");
    assert.equal((await made.exec("pwd")).stdout, "/work\n");
  });
});

test("a legacy template is one layer", async () => {
  const made = await raw("POST", "/v1/vms", { template: { vcpuCount: 2, memSizeGb: 1, workdir: "/work" } });
  assert.equal(made.status, 200, JSON.stringify(made.json));
  const row = (await f.vms.list()).vms.find((v) => v.id === made.json.id);
  assert.equal(row.sizing.vcpuCount, 2);
  await f.vms.delete({ vmId: made.json.id });
});

test("users, groups and files that cannot be are refused with their own codes", async () => {
  for (const [body, code] of [
    [{ users: [{ name: "ann" }, { name: "ann" }] }, "DUPLICATE_USER_NAME"],
    [{ users: [{ name: "ann", uid: 70000 }] }, "USER_UID_OUT_OF_RANGE"],
    [{ users: [{ name: "ann", uid: 5000, system: true }] }, "USER_SYSTEM_FLAG_MISMATCH"],
    [{ users: [{ name: "ann", home: "rel" }] }, "USER_HOME_INVALID"],
    [{ users: [{ name: "ann", shell: "sh" }] }, "USER_SHELL_INVALID"],
    [{ users: [{ name: "ann", groups: [""] }] }, "USER_GROUP_EMPTY"],
    [{ groups: [{ name: "" }] }, "GROUP_NAME_EMPTY"],
    [{ groups: [{ name: "root" }] }, "GROUP_NAME_RESERVED"],
    [{ groups: [{ name: "No" }] }, "GROUP_NAME_INVALID_CHARS"],
    [{ groups: [{ name: "g".repeat(40) }] }, "GROUP_NAME_TOO_LONG"],
    [{ groups: [{ name: "crew" }, { name: "crew" }] }, "DUPLICATE_GROUP_NAME"],
    [{ additionalFiles: { "not/absolute": { content: "x" } } }, "CREATE_VM_BAD_REQUEST"],
  ]) {
    await rejects(f.vms.create(body), code);
  }
});

real("a setup that fails leaves no VM", async () => {
  const before = (await f.vms.list()).totalCount;
  await rejects(f.vms.create({ users: [{ name: "ann", groups: ["nosuchgroup"] }] }), "VM_SETUP_FAILED");
  await rejects(f.vms.create({ additionalFiles: { "/proc/nothing/x": { content: "x" } } }), "VM_SETUP_FAILED");
  assert.equal((await f.vms.list()).totalCount, before);
});

test("the image's snapshot", async () => {
  const { snapshots } = await f.vms.snapshots.list();
  const base = snapshots.find((s) => s.name === "base");
  assert.match(base.snapshotId, /^sc-[a-z0-9]{20}$/);
  assert.equal((await f.vms.snapshots.get({ snapshotId: base.snapshotId })).state ?? "ready", "ready");
  await rejects(f.vms.snapshots.delete({ snapshotId: base.snapshotId }), "SNAPSHOT_IS_ACCOUNT_DEFAULT");
  await rejects(f.vms.snapshots.delete({ snapshotId: "sc-nosuchsnapshot0000000" }), "SNAPSHOT_NOT_FOUND");
  await rejects(f.vms.snapshots.create({ spec: new VmSpec().aptDeps("--no-package") }), "CREATE_SNAPSHOT_BAD_REQUEST");
});
