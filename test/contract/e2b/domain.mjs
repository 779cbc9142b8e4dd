// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// A sandbox reached only by names of the preview domain, over TLS: E2B_DOMAIN and nothing else.
import assert from "node:assert/strict";
import { fails, finish, row, sdk, until } from "./common.mjs";

const { Sandbox } = sdk;
const s = await row("a sandbox is created", () => Sandbox.create({ timeoutMs: 120000, network: { allowPublicTraffic: false } }));
await row("commands and files work", async () => {
  assert.equal((await s.commands.run("echo hi")).stdout, "hi\n");
  await s.files.write("a.txt", "hey");
  assert.equal(await (await fetch(await s.downloadUrl("a.txt"))).text(), "hey");
});
await row("a port wants the token", async () => {
  await s.commands.run("cd /tmp && echo page > index.html && python3 -m http.server 8000", { background: true, timeoutMs: 0 });
  const at = `https://${s.getHost(8000)}/`;
  const headers = { "e2b-traffic-access-token": s.trafficAccessToken };
  await until(async () => (await fetch(at, { headers })).status === 200);
  assert.equal(await (await fetch(at, { headers })).text(), "page\n");
  assert.equal((await fetch(at)).status, 403);
});
await row("a closed port is told", async () => {
  const answer = await fetch(`https://${s.getHost(9999)}/`, { headers: { "e2b-traffic-access-token": s.trafficAccessToken } });
  assert.equal(answer.status, 502);
  assert.deepEqual(await answer.json(), { sandboxId: s.sandboxId, message: "The sandbox is running but port is not open", code: 502, port: 9999 });
});
await row("a killed sandbox is told", async () => {
  await s.kill();
  const answer = await fetch(`https://${s.getHost(8000)}/`);
  assert.equal(answer.status, 502);
  assert.equal((await answer.json()).message, "The sandbox was not found");
  await fails(s.commands.run("true"), "SandboxNotFoundError");
});
finish();
