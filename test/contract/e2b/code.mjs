// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// The code interpreter by its own SDK.
import assert from "node:assert/strict";
import { Sandbox } from "@e2b/code-interpreter";
import { fails, finish, row } from "./common.mjs";

const s = await row("a sandbox is created", () => Sandbox.create({ timeoutMs: 240000, envs: { CITY: "Ulm" } }));
await row("code has a result, output and a memory", async () => {
  const seen = [];
  const r = await s.runCode("x = 41; print('hi'); x + 1", { onStdout: (m) => seen.push(m.line) });
  assert.deepEqual([r.text, r.logs.stdout.join(""), seen.join("")], ["42", "hi\n", "hi\n"]);
  assert.equal((await s.runCode("x")).text, "41");
});
await row("an exception is told", async () => {
  const { error } = await s.runCode("1/0");
  assert.equal(error.name, "ZeroDivisionError");
  assert.match(error.traceback, /line 1/);
});
await row("a result has the formats of its value", async () => {
  const r = await s.runCode("class H:\n  def _repr_html_(self): return '<b>'\nH()");
  assert.equal(r.results[0].html, "<b>");
});
await row("variables, shell lines and await work", async () => {
  const r = await s.runCode("!echo shell\nimport os, asyncio\nawait asyncio.sleep(0)\nos.environ['A']", { envs: { A: "b" } });
  assert.deepEqual([r.text, r.logs.stdout.join("")], ["'b'", "shell\n"]);
});
await row("contexts are apart, restart and end", async () => {
  const c = await s.createCodeContext({ cwd: "/tmp" });
  assert.equal((await s.runCode("import os; os.getcwd()", { context: c })).text, "'/tmp'");
  assert.equal((await s.runCode("x", { context: c })).error.name, "NameError");
  await s.runCode("y = 1", { context: c });
  await s.restartCodeContext(c);
  assert.equal((await s.runCode("y", { context: c })).error.name, "NameError");
  assert.ok((await s.listCodeContexts()).some((other) => other.id === c.id));
  await s.removeCodeContext(c);
  await fails(s.runCode("1", { context: c }), "NotFoundError");
});
await row("code that runs too long is interrupted", async () => {
  await fails(s.runCode("import time; time.sleep(100)", { timeoutMs: 1000 }), "TimeoutError");
  assert.equal((await s.runCode("x")).text, "41");
});
await row("the port wants a token", async () => {
  const headers = { "e2b-sandbox-id": s.sandboxId, "e2b-sandbox-port": "49999" };
  assert.equal((await fetch(`${process.env.E2B_SANDBOX_URL}/contexts`, { headers })).status, 401);
});
await row("a server that ended is started again, and told the variables", async () => {
  await assert.rejects(s.runCode("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nimport time; time.sleep(60)"));
  assert.equal((await s.runCode("import os; os.environ['CITY']")).text, "'Ulm'");
});
await s.kill();
finish();
