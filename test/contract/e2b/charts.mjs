// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// The code interpreter in the image of the recipe python-interpreter.
import assert from "node:assert/strict";
import { Sandbox } from "@e2b/code-interpreter";
import { finish, row } from "./common.mjs";

const s = await row("a sandbox is created", () => Sandbox.create({ timeoutMs: 480000, envs: { CITY: "Ulm" } }));
await row("the interpreter is a service", async () => {
  const r = await s.commands.run("systemctl is-active code-interpreter && ! pgrep -f -- '[w]arren-code-interpreter.py 49999$'");
  assert.equal(r.stdout, "active\n");
});
await row("the first code needs no start", async () => {
  const began = Date.now();
  const r = await s.runCode("import os, sys; ('pandas' in sys.modules, os.environ['CITY'])", { timeoutMs: 240000 });
  assert.equal(r.error, undefined, r.error?.traceback);
  assert.equal(r.text, "(True, 'Ulm')");
  console.error(`first code after ${Date.now() - began} ms`);
});
await row("a figure is a picture", async () => {
  const r = await s.runCode("import matplotlib.pyplot as plt\nplt.plot([1, 2, 4])\nplt.show()", { timeoutMs: 240000 });
  assert.equal(r.error, undefined, r.error?.traceback);
  assert.deepEqual([...Buffer.from(r.results.find((one) => one.png).png, "base64").subarray(1, 4)].map((c) => String.fromCharCode(c)).join(""), "PNG");
});
await row("a table is HTML", async () => {
  const r = await s.runCode("import pandas\npandas.DataFrame({'a': [1, 2]})", { timeoutMs: 240000 });
  assert.equal(r.error, undefined, r.error?.traceback);
  assert.match(r.results[0].html, /<table/);
});
await row("a server that ended is started again, and told the variables", async () => {
  await assert.rejects(s.runCode("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nimport time; time.sleep(60)", { timeoutMs: 240000 }));
  assert.equal((await s.runCode("import os; os.environ['CITY']", { timeoutMs: 240000 })).text, "'Ulm'");
});
await row("the sandbox is killed", () => s.kill());
finish();
