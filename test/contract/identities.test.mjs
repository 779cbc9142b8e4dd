// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Identities, tokens and permissions through freestyle@0.1.63.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { Freestyle, client, raw, rejects, url } from "./common.mjs";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const nobody = "00000000-0000-4000-8000-000000000000";

let vm, vmId, other;
before(async () => {
  ({ vm, vmId } = await client().vms.create({ name: "contract-identities" }));
  other = (await client().vms.create({ name: "contract-closed" })).vmId;
  await vm.exec("useradd --create-home alice");
});
after(async () => {
  for (const id of [vmId, other]) await client().vms.delete({ vmId: id });
  for (const { id } of (await client().identities.list()).identities) await client().identities.delete({ identityId: id });
});

// as returns a client that acts by a token.
const as = (accessToken) => new Freestyle({ baseUrl: url, accessToken });

// member makes an identity with a token, and gives it the VM.
async function member(grant) {
  const { identity, identityId } = await client().identities.create();
  if (grant) await identity.permissions.vms.grant({ vmId, ...grant });
  const { token, tokenId } = await identity.tokens.create();
  return { identity, identityId, token, tokenId, sdk: as(token), vm: as(token).vms.ref({ vmId }) };
}

test("identities: create, list in pages, delete", async () => {
  const made = [];
  for (let i = 0; i < 3; i++) made.push((await client().identities.create()).identityId);
  for (const id of made) assert.match(id, uuid);
  const all = await client().identities.list();
  assert.ok(all.total >= 3 && all.offset === 0);
  assert.ok(all.identities.every((i) => i.managed === false && uuid.test(i.id)));
  const second = await client().identities.list({ limit: 1, cursor: String(all.total - 2) });
  assert.deepEqual(second.identities.map((i) => i.id), [made[1]]);
  assert.equal(second.offset, all.total - 2);
  assert.equal(second.total, all.total);
  for (const id of made) assert.deepEqual(await client().identities.delete({ identityId: id }), {});
  await rejects(client().identities.delete({ identityId: made[0] }), "IDENTITY_NOT_FOUND");
  await rejects(client().identities.ref({ identityId: nobody }).tokens.create(), "IDENTITY_NOT_FOUND");
});

test("permissions for VMs: grant, get, update, list, revoke", async () => {
  const { identity, identityId } = await client().identities.create();
  const vms = identity.permissions.vms;
  await rejects(vms.get({ vmId }), "VM_PERMISSION_NOT_FOUND");
  await rejects(vms.update({ vmId, allowedUsers: ["alice"] }), "VM_PERMISSION_NOT_FOUND");
  await rejects(vms.grant({ vmId: "aaaaaaaaaaaaaaaaaaaa" }), "VM_NOT_FOUND");
  const { accountId } = await client().whoami();
  const granted = await vms.grant({ vmId });
  assert.match(granted.id, uuid);
  assert.equal(granted.vmId, vmId);
  assert.equal(granted.identityId, identityId);
  assert.equal(granted.allowedUsers, null);
  assert.equal(granted.grantedBy, accountId);
  assert.ok(Math.abs(Date.now() - Date.parse(granted.grantedAt)) < 60_000);
  await rejects(vms.grant({ vmId }), "PERMISSION_ALREADY_EXISTS");
  assert.deepEqual(await vms.get({ vmId }), granted);
  assert.deepEqual((await vms.update({ vmId, allowedUsers: ["alice"] })).allowedUsers, ["alice"]);
  assert.deepEqual((await vms.get({ vmId })).allowedUsers, ["alice"]);
  assert.equal((await vms.get({ vmId })).id, granted.id);
  assert.equal((await vms.update({ vmId, allowedUsers: null })).allowedUsers, null);
  await vms.grant({ vmId: other, allowedUsers: [] });
  const page = await vms.list({ limit: 1, cursor: "0" });
  assert.equal(page.total, 2);
  assert.equal(page.permissions.length, 1);
  assert.deepEqual(await vms.revoke({ vmId }), {});
  await rejects(vms.revoke({ vmId }), "VM_PERMISSION_NOT_FOUND");
  assert.deepEqual((await vms.list()).permissions.map((p) => p.vmId), [other]);
});

test("permissions for repositories that are not there", async () => {
  const { identity } = await client().identities.create();
  const git = identity.permissions.git;
  await rejects(git.grant({ repoId: nobody, permission: "read" }), "GIT_REPOSITORY_NOT_FOUND");
  await rejects(git.update({ repoId: nobody, permission: "write" }), "GIT_REPOSITORY_NOT_FOUND");
  await rejects(git.get({ repoId: nobody }), "GIT_REPOSITORY_NOT_FOUND");
  await rejects(git.revoke({ repoId: nobody }), "GIT_REPOSITORY_NOT_FOUND");
  assert.deepEqual(await git.list(), { repositories: [] });
});

test("a token uses the VM that it was granted, and nothing else", async () => {
  const m = await member({});
  const me = await m.sdk.whoami();
  assert.equal(me.identityId, m.identityId);
  assert.equal(me.accountId, (await client().whoami()).accountId);
  assert.equal((await client().whoami()).identityId ?? null, null);

  assert.equal((await m.vm.exec("whoami")).stdout, "root\n");
  await m.vm.fs.writeTextFile("/tmp/by-token", "x");
  assert.equal(await m.vm.fs.readTextFile("/tmp/by-token"), "x");
  assert.equal((await m.vm.getInfo()).state, "running");
  assert.equal((await m.vm.start()).id, vmId);
  const list = await m.sdk.vms.list();
  assert.deepEqual(list.vms.map((v) => v.id), [vmId]);
  assert.equal(list.totalCount, 1);
  assert.equal(list.runningCount, 1);
  assert.deepEqual((await m.vm.pty.list()).sessions, []);

  const closed = m.sdk.vms.ref({ vmId: other });
  await rejects(closed.exec("true"), "VM_ACCESS_DENIED");
  await rejects(closed.getInfo(), "VM_ACCESS_DENIED");
  await rejects(closed.pty.list(), "ACCESS_DENIED");
  await rejects(m.sdk.vms.ref({ vmId: "aaaaaaaaaaaaaaaaaaaa" }).exec("true"), "VM_ACCESS_DENIED");
  for (const verb of ["stop", "suspend", "kill", "delete", "fork", "snapshot"]) await rejects(m.vm[verb](), "FORBIDDEN");
  await rejects(m.vm.resize({ vcpuCount: 2 }), "FORBIDDEN");
  await rejects(m.vm.start({ idleTimeoutSeconds: 9 }), "FORBIDDEN");
  await rejects(m.sdk.vms.create({}), "FORBIDDEN");
  await rejects(m.sdk.identities.create(), "FORBIDDEN");
  await rejects(m.sdk.identities.ref({ identityId: m.identityId }).tokens.create(), "FORBIDDEN");
  await rejects(m.sdk.identities.ref({ identityId: m.identityId }).permissions.vms.grant({ vmId: other }), "FORBIDDEN");
  assert.equal((await vm.getInfo()).state, "running");
});

test("allowedUsers: no header means root", async () => {
  const m = await member({ allowedUsers: ["alice"] });
  await rejects(m.vm.exec("whoami"), "VM_ACCESS_DENIED");
  await rejects(m.vm.user({ username: "root" }).exec("whoami"), "VM_ACCESS_DENIED");
  await rejects(m.vm.user({ username: "bob" }).exec("whoami"), "VM_ACCESS_DENIED");
  await rejects(m.vm.fs.readTextFile("/etc/hostname"), "VM_ACCESS_DENIED");
  await rejects(m.vm.pty.list(), "ACCESS_DENIED");
  const alice = m.vm.user({ username: "alice" });
  assert.equal((await alice.exec("whoami")).stdout, "alice\n");
  await alice.fs.writeTextFile("/tmp/alices", "x");
  assert.equal((await m.vm.getInfo()).state, "running");
  assert.equal((await m.vm.start()).id, vmId);
  await m.identity.permissions.vms.update({ vmId, allowedUsers: ["alice", "root"] });
  assert.equal((await m.vm.exec("whoami")).stdout, "root\n");
  await m.identity.permissions.vms.update({ vmId, allowedUsers: [] });
  await rejects(alice.exec("whoami"), "VM_ACCESS_DENIED");
});

test("tokens: shown once, listed by id, revoked at once", async () => {
  const m = await member({});
  const { tokenId, token } = await m.identity.tokens.create();
  assert.match(tokenId, uuid);
  assert.notEqual(token, m.token);
  const listed = await m.identity.tokens.list();
  assert.deepEqual(listed.tokens.map((t) => t.id).sort(), [m.tokenId, tokenId].sort());
  assert.ok(!JSON.stringify(listed).includes(token));
  assert.deepEqual(await m.identity.tokens.revoke({ tokenId: m.tokenId }), {});
  await rejects(m.vm.exec("true"), "UNAUTHORIZED_ERROR");
  assert.equal((await as(token).vms.ref({ vmId }).exec("echo ok")).stdout, "ok\n");
  await client().identities.delete({ identityId: m.identityId });
  await rejects(as(token).vms.ref({ vmId }).exec("true"), "UNAUTHORIZED_ERROR");
  await rejects(as("nonsense").vms.list(), "UNAUTHORIZED_ERROR");
});

test("our additions: a token that expires, names, SSH keys", async () => {
  const name = `ci-${Date.now()}`;
  const made = await raw("POST", "/identity/v1/identities", { name });
  assert.equal(made.status, 200);
  const of = `/identity/v1/identities/${name}`;
  const { json: brief } = await raw("POST", `${of}/tokens`, { ttlSeconds: 1 });
  assert.ok(Date.parse(brief.expiresAt) - Date.now() < 5_000);
  assert.equal((await as(brief.token).whoami()).identityId, made.json.id);
  await new Promise((r) => setTimeout(r, 1_300));
  await rejects(as(brief.token).vms.list(), "UNAUTHORIZED_ERROR");
  assert.deepEqual((await raw("GET", `${of}/tokens`)).json, { tokens: [] });
  for (const bad of [{ ttlSeconds: 0 }, { ttlSeconds: -1 }, { expiresAt: "2001-01-01T00:00:00Z" }, { ttlSeconds: 9, expiresAt: "2999-01-01T00:00:00Z" }])
    assert.equal((await raw("POST", `${of}/tokens`, bad)).status, 400);
  const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGh0bWxzYWZlLXRlc3Qta2V5LTAxMjM0NTY3ODkwMTIz laptop";
  const added = await raw("POST", `${of}/keys`, { publicKey, forwardAgent: true });
  assert.equal(added.json.name, "laptop");
  assert.ok(added.json.fingerprint.startsWith("SHA256:") && added.json.forwardAgent);
  assert.equal((await raw("POST", `${of}/keys`, { publicKey })).status, 409);
  assert.equal((await raw("POST", `${of}/keys`, { publicKey: "no key" })).status, 400);
  assert.equal((await raw("GET", `${of}/keys`)).json.keys.length, 1);
  assert.equal((await raw("DELETE", `${of}/keys/laptop`)).status, 200);
  assert.deepEqual((await raw("GET", `${of}/keys`)).json, { keys: [] });
});
