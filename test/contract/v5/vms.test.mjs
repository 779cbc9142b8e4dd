// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// VMs and snapshots of /v5.
import assert from "node:assert/strict";
import test from "node:test";
import { client, closed, fails, raw, withVM } from "./common.mjs";

const { vms } = client();
const open = { action: "allow", source: {}, destination: { public: true } };

test("a VM is made with everything that Warren has", () =>
  withVM(
    { slug: "v5-all", displayName: "All of it: ü", metadata: { team: "web", empty: "x" }, idleTimeoutSeconds: 600, ttlSeconds: 3600, firewall: { rules: [open] } },
    async (vm, made) => {
      const d = made.data;
      assert.deepEqual([d.state, d.slug, d.displayName, d.idleTimeoutSeconds, d.ttlSeconds], ["running", "v5-all", "All of it: ü", 600, 3600]);
      assert.deepEqual(d.metadata, { team: "web", empty: "x" });
      assert.deepEqual([d.vpcs, d.networks, d.automaticRestart], [[], [], false]);
      assert.ok(d.resources.cpu >= 1 && d.resources.memory >= 256 && d.resources.storage >= 1024, "no sizes");
      assert.equal(made.firewallRules.length, 1);
      assert.deepEqual(made.firewallRules[0].destination, { public: true });
      assert.equal((await vms.get("v5-all")).id, made.vmId);
      assert.equal((await vm.data()).id, made.vmId);
      await fails(vms.create({ ...closed, slug: "v5-all" }), 409, "CONFLICT");
      const again = await vms.create({ ...closed, slug: "v5-all", reassignSlug: true });
      assert.equal((await vms.get("v5-all")).id, again.vmId);
      assert.equal((await vms.get(made.vmId)).slug ?? null, null);
      await vms.delete("v5-all");
      await fails(vms.get("v5-all"), 404, "NOT_FOUND");
    },
  ));

test("absent limits mean never, and 0 means until it stops", () =>
  withVM({}, async (vm, { data }) => {
    assert.deepEqual([data.idleTimeoutSeconds, data.ttlSeconds, data.autoDeleteSeconds], [undefined, undefined, undefined]);
    assert.equal((await vm.update({ autoDeleteSeconds: 0 })).autoDeleteSeconds, 0);
    assert.equal((await vm.update({ autoDeleteSeconds: -1 })).autoDeleteSeconds, undefined);
  }));

test("a VM is changed", () =>
  withVM({ slug: "v5-change", metadata: { a: "1", b: "2" } }, async (vm, { vmId }) => {
    const by = client().vms.ref(vmId);
    let d = await vm.update({ slug: "v5-changed", displayName: "Label", idleTimeoutSeconds: 60, ttlSeconds: 7200, metadata: { a: "", c: "3" } });
    assert.deepEqual([d.slug, d.displayName, d.idleTimeoutSeconds, d.ttlSeconds], ["v5-changed", "Label", 60, 7200]);
    assert.deepEqual(d.metadata, { b: "2", c: "3" });
    d = await by.update({ slug: "", displayName: "", idleTimeoutSeconds: -1, ttlSeconds: -1 });
    assert.deepEqual([d.slug, d.displayName, d.idleTimeoutSeconds, d.ttlSeconds], [undefined, undefined, undefined, undefined]);
    for (const [what, part] of [
      [{ maxRunSeconds: 60 }, "maxRunSeconds"], [{ maxRunTotalSeconds: 60 }, "maxRunTotalSeconds"], [{ automaticRestart: true }, "automaticRestart"], [{ autoDeleteSeconds: 60 }, "autoDeleteSeconds"],
    ])
      await fails(by.update(what), 501, "UNSUPPORTED", part);
    await fails(by.update({ slug: "Not a slug" }), 400, "BAD_REQUEST", "slug");
    await fails(by.update({ metadata: { "a b": "c" } }), 400, "BAD_REQUEST", "label");
    await fails(by.update({ idleTimeoutSeconds: 0 }), 400, "BAD_REQUEST", "idleTimeoutSeconds");
    await fails(by.update({ displayName: "x".repeat(201) }), 400, "BAD_REQUEST", "displayName");
  }));

test("VMs are listed by state, slug and metadata", () =>
  withVM({ slug: "v5-list-a", metadata: { run: "seven", n: "1" } }, (a) =>
    withVM({ slug: "v5-list-b", metadata: { run: "seven" } }, async (b) => {
      await b.pause();
      const seen = (await vms.list({ metadata: "run:seven" })).vms.map((v) => v.slug).sort();
      assert.deepEqual(seen, ["v5-list-a", "v5-list-b"]);
      const all = await vms.list({ metadata: "run:seven", state: "paused" });
      assert.deepEqual([all.vms.map((v) => v.slug), all.totalCount, all.pausedCount, all.runningCount], [["v5-list-b"], 1, 1, 0]);
      assert.equal((await vms.list({ metadata: "run:seven,n:1" })).totalCount, 1);
      assert.equal((await vms.list({ slug: "v5-list-a" })).totalCount, 1);
      const page = await vms.list({ metadata: "run:seven", limit: 1, offset: 1 });
      assert.deepEqual([page.vms.length, page.totalCount], [1, 2]);
      assert.ok((await vms.list({ snapshotId: (await a.data()).snapshotId })).totalCount >= 2);
      await fails(vms.list({ state: "asleep" }), 400, "BAD_REQUEST", "state");
    }),
  ));

test("a VM pauses, starts and grows", () =>
  withVM({}, async (vm) => {
    assert.equal((await vm.pause()).state, "paused");
    await fails(vm.pause(), 409, "CONFLICT", "paused");
    assert.equal((await vm.data()).state, "paused");
    assert.equal((await vm.start()).state, "running");
    assert.equal((await vm.start()).state, "running");
    const { resources } = await vm.data();
    await fails(vm.resize({ storage: 1 }), 400, "BAD_REQUEST", "only grows");
    assert.equal((await vm.resize({ storage: resources.storage + 1024 })).resources.storage, resources.storage + 1024);
  }));

test("snapshots are taken, and VMs are made from them", () =>
  withVM({ slug: "v5-source" }, async (vm, { vmId }) => {
    await vm.fs.writeTextFile("/root/kept", "from the source");
    const taken = await vm.snapshot({ slug: "v5-snap", displayName: "Before" });
    assert.deepEqual([taken.sourceVmId, taken.snapshot.slug, taken.snapshot.displayName, taken.snapshot.public], [vmId, "v5-snap", "Before", false]);
    await fails(vm.snapshot({ slug: "v5-snap" }), 409, "CONFLICT");
    await vm.fs.writeTextFile("/root/kept", "changed since");
    await withVM({ snapshotId: "v5-snap" }, async (copy, { data }) => {
      assert.equal(await copy.fs.readTextFile("/root/kept"), "from the source");
      assert.equal(data.snapshotId, taken.snapshotId);
      assert.equal(data.sourceSnapshotSlug, "v5-snap");
      assert.equal((await vms.list({ snapshotId: "v5-snap" })).totalCount, 1);
    });
    const { snapshots } = vms;
    assert.deepEqual((await snapshots.list({ sourceVmId: "v5-source" })).snapshots.map((s) => s.id), [taken.snapshotId]);
    assert.equal((await snapshots.get("v5-snap")).id, taken.snapshotId);
    assert.equal((await snapshots.update("v5-snap", { slug: "v5-named" })).slug, "v5-named");
    await fails(snapshots.update("v5-named", { ttlSeconds: 60 }), 501, "UNSUPPORTED", "ttlSeconds");
    await fails(snapshots.update("v5-named", { displayName: "Other" }), 501, "UNSUPPORTED", "displayName");
    assert.equal((await snapshots.update("v5-named", { slug: "" })).slug ?? null, null);
    await snapshots.delete(taken.snapshotId);
    await fails(snapshots.get(taken.snapshotId), 404, "NOT_FOUND");
    await fails(vms.create({ ...closed, snapshotId: taken.snapshotId }), 404, "NOT_FOUND", "no such snapshot");
  }));

test("the images of the server are public snapshots", async () => {
  const { snapshots } = client().vms;
  const base = await snapshots.get("freestyle/base");
  assert.deepEqual([base.slug, base.public], ["base", true]);
  await withVM({ snapshotId: base.id }, async (vm, { data }) => assert.equal(data.snapshotId, base.id));
  await fails(snapshots.delete("base"), 409, "CONFLICT", "image of the server");
  await fails(vms.create({ ...closed, snapshotId: "freestyle/ubuntu-3xl" }), 404, "NOT_FOUND", "default image");
});

test("a create that cannot be carried out makes nothing", async () => {
  const before = (await vms.list()).totalCount;
  for (const [body, status, code] of [
    ["{", 400, "BAD_REQUEST"], ["[]", 400, "BAD_REQUEST"], ["{}", 400, "BAD_REQUEST"], [{ firewall: { rules: [{ action: "deny" }] } }, 400, "BAD_REQUEST"],
    [{ ...closed, slug: "-x" }, 400, "BAD_REQUEST"], [{ ...closed, slug: "7even" }, 400, "BAD_REQUEST"], [{ ...closed, reassignSlug: true }, 400, "BAD_REQUEST"],
    [{ ...closed, ttlSeconds: 0 }, 400, "BAD_REQUEST"], [{ ...closed, metadata: { k: 7 } }, 400, "BAD_REQUEST"],
    [{ ...closed, vpcs: [{ vpcId: "x" }] }, 501, "UNSUPPORTED"], [{ ...closed, networks: [{ vpc: "x" }] }, 501, "UNSUPPORTED"], [{ ...closed, maxRunSeconds: 9 }, 501, "UNSUPPORTED"],
    [{ ...closed, placement: { antiAffinity: [{ topology: "node", selector: { matchLabels: {} } }] } }, 501, "UNSUPPORTED"],
    [{ ...closed, automaticRestart: true }, 501, "UNSUPPORTED"], [{ ...closed, snapshotId: "none-such" }, 404, "NOT_FOUND"],
    [{ ...closed, tls: { rules: [{ action: "allow", domain: "x.example.com", source: { public: true }, destination: { port: 80 } }] } }, 403, "DOMAIN_NOT_OWNED"],
  ]) {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const answer = await raw("POST", "/v5/vms", text);
    assert.deepEqual([answer.status, answer.json.code], [status, code], `${text}: ${JSON.stringify(answer.json)}`);
    assert.ok(answer.json.message, `${text}: no message`);
  }
  assert.equal((await raw("POST", "/v5/vms", "x".repeat(5 << 20))).json.code, "PAYLOAD_TOO_LARGE");
  assert.equal((await vms.list()).totalCount, before);
});
