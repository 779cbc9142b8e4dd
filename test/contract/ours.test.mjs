// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Warren's own routes beside the contract's, as a plain HTTP client sees them.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import http from "node:http";
import test, { after, before } from "node:test";
import { apiKey, client, raw, url } from "./common.mjs";

let vm;
let base;
before(async () => {
  vm = (await client().vms.create({ name: "contract-ours" })).vm;
  base = `/v1/vms/${vm.vmId}`;
});
after(async () => {
  await vm.delete();
});

// stream makes a request whose trailers matter, which fetch does not show.
function stream(method, path, body, headers = {}) {
  return new Promise((resolve, reject) => {
    const q = http.request(url + path, { method, headers: { Authorization: `Bearer ${apiKey}`, ...headers } }, (answer) => {
      const parts = [];
      answer.on("data", (d) => parts.push(d));
      answer.on("error", reject);
      answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, trailers: answer.trailers, body: Buffer.concat(parts) }));
    });
    q.on("error", reject);
    q.end(body);
  });
}

// 000-04, 003-23, 003-31
test("raw files: any bytes, with length and digest, bounded on request", async () => {
  const data = randomBytes(3 << 20);
  const digest = createHash("sha256").update(data).digest("hex");
  const put = await stream("PUT", `${base}/raw/%2Fwork%2Fnew%2Fdir%2Fblob?mode=0640&parents=true`, data);
  assert.equal(put.status, 200, put.body.toString());
  const { file, sha256 } = JSON.parse(put.body);
  assert.deepEqual([file.size, file.mode, sha256], [data.length, 0o640, digest]);
  const got = await stream("GET", `${base}/raw/%2Fwork%2Fnew%2Fdir%2Fblob`);
  assert.equal(got.headers["warren-length"], String(data.length));
  assert.equal(got.trailers["warren-digest"], digest);
  assert.ok(got.body.equals(data));
  const bounded = await raw("GET", `${base}/raw/%2Fwork%2Fnew%2Fdir%2Fblob?maxBytes=1000`);
  assert.deepEqual([bounded.status, bounded.json.kind], [400, "limit"]);
  assert.equal((await raw("GET", `${base}/raw/%2Fnone`)).json.code, "FILE_NOT_FOUND");
  const empty = await stream("PUT", `${base}/raw/%2Fwork%2Fempty`, "");
  assert.equal(empty.status, 200, empty.body.toString());
  assert.equal((await stream("GET", `${base}/raw/%2Fwork%2Fempty`)).headers["warren-length"], "0");
});

test("the tree: mkdir, stat, rename, chmod, symlink, list, remove", async () => {
  const op = async (verb, body) => assert.deepEqual((await raw("POST", `${base}/fs/${verb}`, body)).json, {}, verb);
  const stat = async (p) => (await raw("GET", `${base}/fs/stat?path=${encodeURIComponent(p)}`)).json;
  await op("mkdir", { path: "/work/t/a", parents: true, mode: 0o750 });
  await raw("PUT", `${base}/files/${encodeURIComponent("/work/t/a/ü $x.txt")}`, { content: "data" });
  await op("rename", { from: "/work/t/a/ü $x.txt", to: "/work/t/b.txt" });
  await op("chmod", { path: "/work/t/b.txt", mode: 0o600 });
  await op("symlink", { target: "b.txt", path: "/work/t/link" });
  const file = await stat("/work/t/b.txt");
  assert.deepEqual([file.kind, file.size, file.mode, file.path], ["file", 4, 0o600, "/work/t/b.txt"]);
  const link = await stat("/work/t/link");
  assert.deepEqual([link.kind, link.target], ["symlink", "b.txt"]);
  const { files } = (await raw("GET", `${base}/fs/list?path=/work/t`)).json;
  assert.deepEqual(files.map((e) => e.name).sort(), ["a", "b.txt", "link"]);
  assert.equal((await raw("POST", `${base}/fs/remove`, { path: "/work/t" })).status, 400);
  await op("remove", { path: "/work/t", recursive: true });
  assert.equal((await stat("/work/t")).code, "FILE_NOT_FOUND");
  assert.equal((await raw("GET", `${base}/fs/stat`)).json.code, "INVALID_REQUEST");
});

test("a tree as tar, down and up", async () => {
  await raw("PUT", `${base}/files/${encodeURIComponent("/work/tree/x/1")}`, { content: "one" });
  const down = await stream("GET", `${base}/tar/%2Fwork%2Ftree`);
  assert.equal(down.status, 200);
  assert.equal(down.trailers["warren-end"], "ok");
  assert.equal(down.body.length % 512, 0);
  const up = await stream("PUT", `${base}/tar/%2Fwork%2Fcopy`, down.body, { "Content-Type": "application/x-tar" });
  assert.equal(up.status, 200, up.body.toString());
  const found = [];
  const walk = async (p) => {
    for (const e of (await raw("GET", `${base}/fs/list?path=${encodeURIComponent(p)}`)).json.files) {
      if (e.kind === "directory") await walk(e.path);
      else found.push(e.path);
    }
  };
  await walk("/work/copy");
  assert.equal(found.length, 1, found.join());
  assert.ok(found[0].endsWith("/x/1"));
});

test("stats, ports, inspect, host, images, console", async () => {
  const stats = (await raw("GET", `${base}/stats`)).json;
  assert.ok(stats.memTotalBytes > 0 && stats.uptimeSeconds > 0 && stats.processes.length > 0, JSON.stringify(stats).slice(0, 300));
  assert.ok(Array.isArray((await raw("GET", `${base}/ports`)).json.ports));
  const inspect = (await raw("GET", `${base}/inspect`)).json;
  assert.equal(inspect.vm.id, vm.vmId);
  assert.equal(inspect.machine.agent.protocol > 0 || inspect.machine.ready, true);
  const host = (await raw("GET", "/v1/host")).json;
  if (host.accel === "tcg") assert.ok(host.warnings.includes("emulated: not an isolation boundary"));
  assert.ok((await raw("GET", "/v1/images")).json.images.some((i) => i.name === "base"));
  const console = await stream("GET", `${base}/logs`);
  assert.equal(console.status, 200);
  assert.match(console.headers["warren-offset"], /^\d+$/);
});

test("the network policy can be changed while the VM runs", async () => {
  const changed = await raw("PUT", `${base}/network`, { mode: "packages" });
  assert.equal(changed.json.network, "packages");
  assert.ok(changed.headers.get("warren-receipt"));
  assert.equal((await raw("PUT", `${base}/network`, { mode: "wide" })).json.code, "INVALID_REQUEST");
  assert.equal((await raw("PUT", `${base}/network`, { mode: "closed" })).json.network, "closed");
  assert.ok(Array.isArray((await raw("GET", `${base}/connections`)).json.connections));
});

test("events: a reader continues where it stopped", async () => {
  const read = async (after, until) => {
    const end = new AbortController();
    const answer = await fetch(`${url}/v1/events?vm=${vm.vmId}`, { headers: { Authorization: `Bearer ${apiKey}`, "Last-Event-ID": String(after) }, signal: end.signal });
    assert.equal(answer.headers.get("content-type"), "text/event-stream");
    const timer = setTimeout(() => end.abort(), 20_000);
    const events = [];
    let rest = "";
    try {
      for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
        rest += chunk;
        const blocks = rest.split("\n\n");
        rest = blocks.pop();
        for (const b of blocks) {
          const data = b.split("\n").find((l) => l.startsWith("data: "));
          if (data) events.push(JSON.parse(data.slice(6)));
        }
        if (events.some(until)) return events;
      }
    } finally {
      clearTimeout(timer);
      end.abort();
    }
    return events;
  };
  const all = await read(0, (e) => e.type === "vm.network" && e.data.mode === "closed");
  const types = all.map((e) => e.type);
  assert.ok(types.includes("vm.created") && types.includes("vm.running"), types.join());
  assert.ok(all.every((e) => e.vm === vm.vmId));
  const middle = all[1].id;
  const resumed = await read(middle, (e) => e.id === all.at(-1).id);
  assert.deepEqual(resumed.map((e) => e.id), all.map((e) => e.id).filter((id) => id > middle));
});

test("accounts, keys and the audit chain", async () => {
  const made = (await raw("POST", "/v1/accounts", { name: "contract-other" })).json;
  try {
    const other = { Authorization: `Bearer ${made.secret}` };
    assert.equal((await raw("GET", "/v1/vms", undefined, other)).json.totalCount, 0);
    assert.equal((await raw("GET", base, undefined, other)).json.code, "VM_NOT_FOUND");
    assert.equal((await raw("GET", "/v1/accounts", undefined, other)).json.code, "FORBIDDEN");
    const key = (await raw("POST", "/v1/keys", { name: "second" }, other)).json;
    const rotated = (await raw("POST", `/v1/keys/${key.key.id}/rotate`, undefined, other)).json;
    assert.notEqual(rotated.secret, key.secret);
    assert.equal((await raw("GET", "/v1/vms", undefined, { Authorization: `Bearer ${key.secret}` })).status, 401);
    assert.equal((await raw("DELETE", `/v1/keys/${key.key.id}`, undefined, other)).status, 200);
    const listed = (await raw("GET", "/v1/keys", undefined, other)).json.keys;
    assert.equal(listed.length, 1);
    assert.ok(!JSON.stringify(listed).includes(made.secret) && !("hash" in listed[0]));
  } finally {
    assert.equal((await raw("DELETE", `/v1/accounts/${made.account.id}?force=true`)).status, 200);
  }
  const verified = (await raw("GET", "/v1/audit/verify")).json;
  assert.equal(verified.ok, true, verified.problem);
});

test("what needs no key, and the description of all the rest", async () => {
  for (const path of ["/healthz", "/readyz"]) assert.equal((await fetch(url + path)).status, 200);
  const doc = await (await fetch(`${url}/openapi.json`)).json();
  assert.equal(doc.openapi, "3.1.0");
  assert.ok(doc.paths["/v1/vms/{vm}/exec-await"].post);
});
