// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Domains, mappings and DNS routes through both packages and the CLI. The
// server's verifications ask the name server that WARREN_TEST_DNS says; this
// script is that server.
import assert from "node:assert/strict";
import dgram from "node:dgram";
import { execFile } from "node:child_process";
import test, { after, before } from "node:test";
import { promisify } from "node:util";
import { apiKey, client, Freestyle, Older, raw, rejects, url } from "./common.mjs";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const address = process.env.WARREN_TEST_DNS;
const verified = (name, f) => test(name, { skip: !address && "needs a server that asks WARREN_TEST_DNS" }, f);
const run = Date.now().toString(36); // names of one run are not those of the next
const below = (label) => `${label}-${run}.warren.localhost`;
const real = (label) => `${label}-${run}.example.com`;

// zone is what the name server knows: name → texts of its TXT record.
const zone = new Map();
const dns = dgram.createSocket("udp4");
dns.on("message", (ask, from) => {
  const labels = [];
  let at = 12;
  for (; ask[at] !== 0; at += 1 + ask[at]) labels.push(ask.toString("ascii", at + 1, at + 1 + ask[at]));
  const end = at + 5;
  const texts = (ask.readUInt16BE(at + 1) === 16 && zone.get(labels.join(".").toLowerCase())) || [];
  const head = Buffer.from(ask.subarray(0, 12));
  head.writeUInt16BE(texts.length ? 0x8580 : 0x8583, 2);
  head.writeUInt16BE(texts.length, 6);
  head.fill(0, 8, 12);
  const answers = texts.map((t) => {
    const fixed = Buffer.from([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 1, 0, t.length + 1, t.length]);
    return Buffer.concat([fixed, Buffer.from(t)]);
  });
  dns.send(Buffer.concat([head, ask.subarray(12, end), ...answers]), from.port, from.address);
});

let vm, vmId, other, otherAccount;
before(async () => {
  if (address) {
    const [host, port] = address.split(":");
    await new Promise((done) => dns.bind(Number(port), host, done));
  }
  ({ vm, vmId } = await client().vms.create({ name: "contract-domains" }));
  const made = await raw("POST", "/v1/accounts", { name: `domains-${run}` });
  assert.equal(made.status, 200, JSON.stringify(made.json));
  otherAccount = made.json.id ?? made.json.account?.id;
  other = new Freestyle({ baseUrl: url, apiKey: made.json.secret ?? made.json.key?.secret });
});
after(async () => {
  await client().vms.delete({ vmId });
  await raw("DELETE", `/v1/accounts/domains-${run}?force=true`);
  if (address) dns.close();
});

// claim verifies a domain by the SDK, as its README tells.
async function claim(f, domain) {
  const { verificationId, record } = await f.domains.verifications.create({ domain });
  zone.set(record.name, ["v=spf1 -all", record.value]);
  assert.deepEqual(await f.domains.verifications.complete({ domain }), { domain });
  return { verificationId, record };
}

verified("a domain is verified by its TXT record, listed, and let go", async () => {
  const f = client();
  const domain = real("verify");
  const { verificationId, record, instructions } = await f.domains.verifications.create({ domain });
  assert.match(verificationId, uuid);
  assert.equal(record.type, "TXT");
  assert.equal(record.name, `_freestyle_custom_hostname.${domain}`);
  assert.ok(instructions.includes(record.value) && record.value.length >= 20);
  const pending = (await f.domains.verifications.list()).find((v) => v.domain === domain);
  assert.equal(pending.verificationCode, record.value);
  assert.ok(Math.abs(Date.now() - Date.parse(pending.createdAt)) < 60_000);
  assert.equal((await f.domains.verifications.create({ domain })).record.value, record.value);

  await rejects(f.domains.verifications.complete({ domain }), "VERIFICATION_FAILED");
  zone.set(record.name, ["another-code"]);
  await rejects(f.domains.verifications.complete({ verificationId }), "VERIFICATION_FAILED");
  await rejects(f.domains.mappings.create({ domain, vmId, vmPort: 3000 }), "DOMAIN_OWNERSHIP_NOT_VERIFIED");
  zone.set(record.name, ["another-code", record.value]);
  assert.deepEqual(await f.domains.verifications.complete({ verificationId }), { domain });
  assert.ok(!(await f.domains.verifications.list()).some((v) => v.domain === domain));

  const row = (await f.domains.list({ limit: 50 })).find((d) => d.domain === domain);
  assert.match(row.id, uuid);
  assert.equal(row.accountId, (await f.whoami()).accountId);
  assert.ok(row.verifiedDns && row.deployToDomain && row.deployToSubdomains && !row.implicitlyOwned && !row.manageDns);
  await rejects(f.domains.verifications.create({ domain }), "DOMAIN_ALREADY_EXISTS");

  await rejects(f.domains.verifications.cancel({ domain, verificationCode: "wrong" }), "VERIFICATION_NOT_FOUND");
  assert.deepEqual(await f.domains.verifications.cancel({ domain, verificationCode: record.value }), { domain, verificationCode: record.value });
  await rejects(f.domains.verifications.complete({ domain }), "VERIFICATION_NOT_FOUND");
  assert.ok(!(await f.domains.list({ limit: 50 })).some((d) => d.domain === domain));
});

verified("a verified domain is mapped, with all below it, and mapped again", async () => {
  const f = client();
  const domain = real("mapped");
  await claim(f, domain);
  const first = await f.domains.mappings.create({ domain: `www.${domain}`, vmId, vmPort: 3000 });
  assert.match(first.id, uuid);
  assert.equal(first.ownershipId, (await f.domains.list({ limit: 50 })).find((d) => d.domain === domain).id);
  assert.deepEqual([first.domain, first.vmId, first.vmPort], [`www.${domain}`, vmId, 3000]);
  assert.ok(Date.parse(first.createdAt) > 0);
  assert.equal((await f.domains.mappings.create({ domain: `www.${domain}`, vmId, vmPort: 4000 })).vmPort, 4000);
  const { mappings } = await f.domains.mappings.list({ domain: `www.${domain}` });
  assert.deepEqual(mappings.map((m) => m.vmPort), [4000]);
  assert.deepEqual((await f.domains.mappings.list({ domainOwnership: first.ownershipId })).mappings.length, 1);
  assert.deepEqual(await f.domains.mappings.delete({ domain: `www.${domain}` }), {});
  await rejects(f.domains.mappings.delete({ domain: `www.${domain}` }), "FAILED_PERMISSIONS_CHECK");
  assert.deepEqual((await f.domains.mappings.list({ domain: `www.${domain}` })).mappings, []);
});

verified("another account's domain is not mapped, completed or let go", async () => {
  const domain = real("foreign");
  const { verificationId, record } = await claim(client(), domain);
  await client().domains.mappings.create({ domain, vmId, vmPort: 3000 });
  const theirs = (await other.vms.create({ name: "theirs" })).vmId;
  await rejects(other.domains.verifications.create({ domain }), "DOMAIN_ALREADY_EXISTS");
  await rejects(other.domains.verifications.complete({ verificationId }), "VERIFICATION_NOT_FOUND");
  await rejects(other.domains.verifications.cancel({ domain, verificationCode: record.value }), "VERIFICATION_NOT_FOUND");
  await rejects(other.domains.mappings.create({ domain, vmId: theirs, vmPort: 3000 }), "DOMAIN_OWNERSHIP_NOT_VERIFIED");
  await rejects(other.domains.mappings.create({ domain: `x.${domain}`, vmId: theirs, vmPort: 3000 }), "DOMAIN_OWNERSHIP_NOT_VERIFIED");
  await rejects(other.domains.mappings.delete({ domain }), "FAILED_PERMISSIONS_CHECK");
  await rejects(other.dns.records.list({ domain }), "DOMAIN_OWNERSHIP_ERROR");
  assert.deepEqual(await other.domains.list(), []);
  assert.deepEqual((await other.domains.mappings.list()).mappings, []);
  assert.equal((await client().domains.mappings.list({ domain })).mappings[0].vmId, vmId);
  await other.vms.delete({ vmId: theirs });
});

test("names below the preview domain: first come, first served", async () => {
  const f = client();
  const name = below("first");
  const theirs = (await other.vms.create({ name: "theirs" })).vmId;
  const m = await f.domains.mappings.create({ domain: name, vmId });
  assert.equal(m.vmPort, 443);
  await rejects(other.domains.mappings.create({ domain: name, vmId: theirs, vmPort: 80 }), "DOMAIN_OWNERSHIP_NOT_VERIFIED");
  await rejects(other.domains.mappings.create({ domain: below("theirs"), vmId, vmPort: 80 }), "VM_ACCESS_DENIED_FOR_MAPPING");
  const row = (await f.domains.list({ limit: 50 })).find((d) => d.domain === name);
  assert.ok(row.implicitlyOwned && !row.verifiedDns);
  assert.equal((await raw("GET", "/domains/v1/domains?implicitlyOwned=false")).json.some((d) => d.domain === name), false);
  assert.deepEqual(await f.domains.mappings.delete({ domain: name }), {});
  assert.equal((await other.domains.mappings.create({ domain: name, vmId: theirs, vmPort: 80 })).vmId, theirs);
  await other.vms.delete({ vmId: theirs });
});

test("refusals have codes that the SDK knows", async () => {
  const f = client();
  for (const domain of ["no name", "10.0.0.1", "*.example.com", below("x"), "warren.localhost", "localhost"])
    await rejects(f.domains.verifications.create({ domain }), "INVALID_DOMAIN");
  for (const domain of ["warren.localhost", "3000-x.warren.localhost", "a.b.warren.localhost", "-x.warren.localhost"])
    await rejects(f.domains.mappings.create({ domain, vmId, vmPort: 80 }), "INVALID_DOMAIN");
  await rejects(f.domains.verifications.complete({ domain: "never.example" }), "VERIFICATION_NOT_FOUND");
  await rejects(f.domains.mappings.create({ domain: "never.example", vmId, vmPort: 80 }), "DOMAIN_OWNERSHIP_NOT_VERIFIED");
  await rejects(f.domains.mappings.create({ domain: below("x"), vmId: "aaaaaaaaaaaaaaaaaaaa", vmPort: 80 }), "VM_ACCESS_DENIED_FOR_MAPPING");
  await rejects(f.domains.mappings.create({ domain: below("x"), vmId, vmPort: 70000 }), "INVALID_REQUEST");
  await rejects(f.domains.mappings.create({ domain: below("x"), deploymentId: "d" }), "BAD_REQUEST");
  await rejects(f.domains.mappings.delete({ domain: "never.example" }), "FAILED_PERMISSIONS_CHECK");
  await rejects(f.domains.certificates.createWildcard({ domain: "never.example" }), "FAILED_TO_PROVISION_CERTIFICATE");
});

test("DNS routes: the server keeps no zone", async () => {
  const f = client();
  const domain = below("dns");
  const record = { kind: "A", name: "www", value: "192.0.2.1", ttl: "60" };
  await rejects(f.dns.records.list({ domain }), "DOMAIN_OWNERSHIP_ERROR");
  await rejects(f.dns.records.create({ domain, record }), "DOMAIN_OWNERSHIP_ERROR");
  await f.domains.mappings.create({ domain, vmId, vmPort: 80 });
  assert.deepEqual(await f.dns.records.list({ domain }), { records: [] });
  await rejects(f.dns.records.create({ domain, record }), "ERROR_CREATING_RECORD");
  await rejects(f.dns.records.delete({ domain, record: { ...record, managed: false } }), "ERROR_DELETING_RECORD");
  await rejects(f.dns.records.list({ domain: "" }), "INVALID_DOMAIN");
  await f.domains.mappings.delete({ domain });
});

test("create maps domains, start names them, delete ends them", async () => {
  const f = client();
  const name = below("made");
  const made = await f.vms.create({ name: "contract-mapped", domains: [{ domain: name, vmPort: 3000 }] });
  try {
    assert.deepEqual(made.domains, [name, `${made.vmId}.warren.localhost`]);
    assert.deepEqual((await made.vm.start()).domains, made.domains);
    const { mappings } = await f.domains.mappings.list({ domain: name });
    assert.deepEqual([mappings[0].vmId, mappings[0].vmPort], [made.vmId, 3000]);
    await rejects(other.vms.create({ domains: [{ domain: name, vmPort: 80 }] }), "DOMAIN_OWNERSHIP_NOT_VERIFIED");
  } finally {
    await f.vms.delete({ vmId: made.vmId });
  }
  assert.deepEqual((await f.domains.mappings.list({ domain: name })).mappings, []);
});

test("lists come in pages", async () => {
  const f = client();
  const names = [...Array(12).keys()].map((i) => below(`page${String(i).padStart(2, "0")}`));
  for (const domain of names) await f.domains.mappings.create({ domain, vmId, vmPort: 80 });
  const seen = [];
  for (let cursor = 0; ; cursor += 5) {
    const { mappings } = await f.domains.mappings.list({ limit: 5, cursor: String(cursor) });
    seen.push(...mappings.map((m) => m.domain));
    if (mappings.length < 5) break;
  }
  assert.deepEqual(seen.filter((n) => names.includes(n)), names);
  assert.equal((await f.domains.mappings.list()).mappings.length, 10);
  assert.equal((await f.domains.list({ limit: 3 })).length, 3);
  for (const domain of names) await f.domains.mappings.delete({ domain });
});

verified("freestyle-sandboxes does the same", async () => {
  const f = new Older({ baseUrl: url, apiKey });
  const domain = real("older");
  const { record } = await claim(f, domain);
  assert.equal((await f.domains.mappings.create({ domain, vmId, vmPort: 3000 })).vmId, vmId);
  assert.equal((await f.domains.mappings.list({ domain })).mappings.length, 1);
  await rejects(f.domains.mappings.create({ domain: "never.example", vmId, vmPort: 80 }), "DOMAIN_OWNERSHIP_NOT_VERIFIED");
  await rejects(f.dns.records.create({ domain, record: { kind: "A", name: "www", value: "192.0.2.1" } }), "ERROR_CREATING_RECORD");
  assert.deepEqual(await f.domains.mappings.delete({ domain }), {});
  await f.domains.verifications.cancel({ domain, verificationCode: record.value });
  assert.ok(!(await f.domains.list()).some((d) => d.domain === domain));
});

verified("the CLI's domains commands", async () => {
  const freestyle = async (...args) => {
    const env = { ...process.env, FREESTYLE_API_URL: url, FREESTYLE_API_KEY: apiKey };
    const { stdout } = await promisify(execFile)(process.execPath, ["node_modules/freestyle/cli.mjs", ...args], { env });
    return args.includes("--json") ? JSON.parse(stdout) : stdout;
  };
  const cli = (...args) => freestyle("domains", ...args);
  const domain = real("cli");
  const made = await cli("verify", domain, "--json");
  assert.ok((await cli("verifications")).includes(made.record.value));
  await assert.rejects(cli("complete", "--domain", domain));
  zone.set(made.record.name, [made.record.value]);
  assert.deepEqual(await cli("complete", "--verification-id", made.verificationId, "--json"), { domain });
  assert.ok((await cli("list")).includes(domain));
  assert.equal((await cli("map", domain, "--vm-id", vmId, "--vm-port", "3000", "--json")).vmPort, 3000);
  assert.ok((await cli("mappings", "--domain", domain)).includes(vmId));
  assert.match(await cli("unmap", domain), /deleted/);
  assert.deepEqual(await cli("mappings", "--domain", domain, "--json"), []);
  const said = await freestyle("vm", "create", "--domain", `www.${domain}`, "--port", "4000");
  assert.ok(said.includes(`www.${domain}`), said);
  const [mapped] = await cli("mappings", "--domain", `www.${domain}`, "--json");
  assert.equal(mapped.vmPort, 4000);
  await client().vms.delete({ vmId: mapped.vmId });
});
