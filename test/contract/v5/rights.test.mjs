// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Rights of callers in /v5, what a VM may reach, names, and what is refused.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { as, client, closed, fails, Freestyle, FreestyleApiError, raw, terminal, url, withVM } from "./common.mjs";

const { identities, domains, tunnels, vpc: vpcs } = client();
const firewall = client().firewall.rules;
const { forwardAuth, rules: tls } = client().tls;
let vm, vmId;
before(async () => {
  ({ vm, vmId } = await client().vms.create({ ...closed, slug: "v5-rights" }));
});
after(() => vm.delete());

// member makes an identity with a token and a permission for the VM.
async function member(allowedLinuxUsers) {
  const { identity, identityId } = await identities.create();
  const { id, token } = await identity.tokens.create();
  const permission = await identity.permissions.vm.grant({ vmId, allowedLinuxUsers });
  return { identity, identityId, tokenId: id, token, permission, vm: as(token).vms.ref(vmId) };
}

test("an identity has tokens and permissions", async () => {
  const m = await member();
  assert.deepEqual(await identities.get(m.identityId).then((i) => [i.id, i.managed, !!i.accountId]), [m.identityId, false, true]);
  assert.ok((await identities.list()).identities.some((i) => i.id === m.identityId));
  assert.deepEqual(await m.identity.tokens.list(), [{ id: m.tokenId }]);
  const grants = m.identity.permissions.vm;
  assert.deepEqual([m.permission.vmId, m.permission.allowedLinuxUsers], [vmId, null]);
  assert.deepEqual(await grants.list(), [m.permission]);
  await fails(grants.grant({ vmId }), 409, "CONFLICT");
  await fails(grants.grant({ vmId: "v5-rights" }), 400, "BAD_REQUEST", "id of a VM");
  assert.deepEqual((await grants.update(vmId, ["ann"])).allowedLinuxUsers, ["ann"]);
  assert.equal((await grants.update(vmId, null)).allowedLinuxUsers, null);
  await grants.revoke(vmId);
  await fails(grants.get(vmId), 404, "VM_PERMISSION_NOT_FOUND");
  await m.identity.tokens.revoke(m.tokenId);
  await m.identity.delete();
  await fails(identities.get(m.identityId), 404, "IDENTITY_NOT_FOUND");
  await fails(identities.create({ managed: true }), 501, "UNSUPPORTED", "managed");
});

test("a token reaches the VM that it was granted, and nothing else", async () => {
  const m = await member();
  assert.equal((await m.vm.exec("echo hi")).stdout, "hi\n");
  const t = terminal();
  const s = await m.vm.pty.open({ exec: "echo seen", ...t.events });
  await t.until("seen");
  s.detach();
  await withVM({}, async (other, made) => {
    await fails(as(m.token).vms.ref(made.vmId).exec("true"), 403, "FORBIDDEN");
  });
  const their = as(m.token);
  for (const denied of [
    () => m.vm.delete(), () => m.vm.pause(), () => m.vm.snapshot(), () => m.vm.update({ slug: "x" }), () => their.vms.create(closed), () => their.identities.create(), () => their.firewall.rules.list(),
  ])
    await fails(denied(), 403, "FORBIDDEN");
  await m.identity.tokens.revoke(m.tokenId);
  await fails(m.vm.exec("true"), 401, "INVALID_API_KEY", "token");
  await m.identity.delete();
});

test("a permission for some Linux users holds for these", async () => {
  await vm.exec("useradd -m v5bob");
  const m = await member(["v5bob"]);
  assert.equal((await m.vm.exec({ command: "whoami", linuxUser: "v5bob" })).stdout, "v5bob\n");
  await fails(m.vm.exec("whoami"), 403, "FORBIDDEN", "linuxUser");
  await fails(m.vm.exec({ command: "whoami", linuxUser: "root" }), 403, "FORBIDDEN");
  await fails(m.vm.fs.readFile("/etc/shadow"), 403, "FORBIDDEN");
  await assert.rejects(m.vm.pty.open(), /403/);
  await m.identity.delete();
});

test("foreign keys, logins and versions are told", async () => {
  const wrong = new Freestyle({ baseUrl: url, apiKey: "fs-0123456789-abcdef" });
  await fails(wrong.vms.list(), 401, "INVALID_API_KEY", "warren key create");
  await fails(new Freestyle({ baseUrl: url, stackAccessToken: "x.y.z", teamId: "t" }).vms.list(), 401, "INVALID_CLI_CREDENTIAL", "FREESTYLE_API_KEY");
  await fails(as("nonsense").vms.ref(vmId).exec("true"), 401, "INVALID_API_KEY", "token");
  await fails(client({ baseUrl: url + "/v5" }).vms.list(), 404, "NOT_FOUND", "base URL");
  const newer = await client().fetch("/v6/vms");
  assert.deepEqual([newer.status, (await newer.json()).code], [501, "UNSUPPORTED"]);
  const unknown = await raw("POST", `/v5/vms/${vmId}/teleport`, "{}");
  assert.deepEqual([unknown.status, unknown.json.code], [404, "NOT_FOUND"]);
  assert.ok(unknown.json.message.includes("newer"), unknown.json.message);
  assert.equal((await fetch(url + "/v5/vms")).status, 401);
});

test("rules say what a VM may reach", async () => {
  const rule = (destination, source = { vmId: "v5-rights" }) => ({ action: "allow", source, destination });
  const web = await firewall.create(rule({ public: true, port: 443, protocol: "tcp" }));
  assert.deepEqual([web.source, web.destination], [{ vmId }, { public: true, port: 443, protocol: "tcp" }]);
  assert.deepEqual(web.dependencies, [{ kind: "vm", id: vmId, slug: "v5-rights" }]);
  const net = await firewall.create(rule({ cidr: "198.51.100.0/24", protocol: "udp", port: 53 }));
  const all = await firewall.create(rule({ public: true }));
  assert.deepEqual(all.destination, { public: true });
  assert.deepEqual((await vm.firewallRules()).rules.map((r) => r.id).sort(), [web.id, net.id, all.id].sort());
  assert.deepEqual(await firewall.get(net.id), net);
  for (const r of [web, net, all]) await firewall.delete(r.id);
  assert.equal((await vm.firewallRules()).totalCount, 0);
  await fails(firewall.get(web.id), 404, "NOT_FOUND");
  await fails(firewall.delete("rule-x"), 404, "NOT_FOUND");
  for (const [r, part] of [
    [rule({ vmId, port: 80, protocol: "tcp" }, { public: true }), "from outside"], [rule({ vmId }), "do not reach each other"], [rule({ vpcId: "v" }), "private networks"],
    [rule({ public: true, protocol: "icmp" }), "tcp and udp"], [rule({ cidr: "198.51.100.0/24" }), "protocol"],
  ])
    await fails(firewall.create(r), 501, "UNSUPPORTED", part);
  await fails(firewall.create({ ...rule({ public: true }), description: "why" }), 501, "UNSUPPORTED", "description");
  await fails(firewall.create(rule({ public: true }, { vmId: "no-such-vm" })), 404, "NOT_FOUND");
  await fails(firewall.create(rule({ cidr: "198.51.100.7/24", protocol: "tcp" })), 400, "BAD_REQUEST", "cidr");
});

test("a name leads to a port of a VM", async () => {
  const rule = { action: "allow", domain: "v5-site.warren.localhost", source: { public: true }, destination: { vmId, port: 8000 } };
  const made = await tls.create(rule);
  assert.deepEqual([made.domain, made.protocol, made.destination], [rule.domain, "http", { vmId, port: 8000 }]);
  await fails(tls.create(rule), 409, "CONFLICT");
  assert.deepEqual((await tls.list({ vmId: "v5-rights" })).rules.map((r) => r.id), [made.id]);
  assert.equal((await tls.update(made.id, { ...rule, destination: { vmId, port: 9000 } })).destination.port, 9000);
  assert.equal((await tls.get(made.id)).destination.port, 9000);
  await tls.delete(made.id);
  await fails(tls.get(made.id), 404, "NOT_FOUND");
  await withVM({ tls: { rules: [{ ...rule, destination: { port: 3000 } }] } }, async (other, { tlsRules, vmId: id }) => {
    assert.deepEqual(tlsRules.map((r) => r.destination), [{ vmId: id, port: 3000 }]);
  });
  await fails(tls.create({ ...rule, domain: "www.example.com" }), 403, "DOMAIN_NOT_OWNED");
  const secret = { action: "allow", domain: "api.example.com", source: { vmId }, destination: { public: true }, transform: [{ headers: { authorization: "x" } }] };
  const answer = await raw("POST", "/v5/tls", JSON.stringify(secret));
  assert.deepEqual([answer.status, answer.json.code], [501, "UNSUPPORTED"]);
  assert.ok(answer.json.message.includes("warren secret"), answer.json.message);
});

test("domains are verified", async () => {
  const { verifications } = domains;
  const begun = await verifications.create("v5.example.org");
  assert.deepEqual([begun.domain, begun.state, begun.recordName, begun.verifiedAt], ["v5.example.org", "pending", "_freestyle_custom_hostname.v5.example.org", null]);
  assert.equal((await verifications.get(begun.id)).verificationCode, begun.verificationCode);
  assert.ok((await verifications.list({ state: "pending" })).some((v) => v.id === begun.id));
  await fails(verifications.complete("v5.example.org"), 400, "VERIFICATION_FAILED", begun.verificationCode);
  await verifications.delete("v5.example.org");
  await fails(verifications.get("v5.example.org"), 404, "NOT_FOUND");
  assert.deepEqual((await domains.list()).filter((d) => d.domain === "v5.example.org"), []);
  assert.equal(await domains.placeholder.get(), null);
});

test("what Warren does not have is refused by name", async () => {
  const refused = {
    "private networks": [() => vpcs.list(), () => vpcs.create({}), () => vpcs.get("x"), () => firewall.list({ vpcId: "x" })],
    tunnels: [() => tunnels.list(), () => tunnels.create({}), () => tunnels.get("x")],
    certificates: [() => domains.certificates.list(), () => domains.certificates.createWildcard("x.example.org")],
    branding: [() => domains.placeholder.set({ logoUrl: "https://example.org/logo" }), () => domains.placeholder.delete()],
    "asks before each request": [() => forwardAuth.list(), () => forwardAuth.create({ url: "https://example.org" })],
    "net explain": [() => client().firewall.evaluate({ source: { vmId }, destination: { public: true } })],
  };
  for (const [part, calls] of Object.entries(refused)) for (const call of calls) await fails(call(), 501, "UNSUPPORTED", part);
  for (const [method, at] of [["GET", "/v5/free-tier/binary"], ["POST", "/v5/free-tier/grant"], ["GET", "/v5/hardware"], ["PUT", `/v5/vms/${vmId}/networks`]]) {
    const answer = await raw(method, at, method === "GET" ? undefined : "{}");
    assert.deepEqual([answer.status, answer.json.code], [501, "UNSUPPORTED"], at);
  }
  assert.ok(new FreestyleApiError(501, { code: "UNSUPPORTED", message: "m" }) instanceof Error, "the SDK's class");
});
