// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// What the contract tests share. They drive the unmodified npm packages against
// the server that FREESTYLE_API_URL and FREESTYLE_API_KEY name.
import assert from "node:assert/strict";
import test from "node:test";
import * as current from "freestyle";
import * as older from "freestyle-sandboxes";

export const url = process.env.FREESTYLE_API_URL;
export const apiKey = process.env.FREESTYLE_API_KEY;
assert.ok(url && apiKey, "set FREESTYLE_API_URL and FREESTYLE_API_KEY");

export const { Freestyle, Errors } = current;
export const Older = older.Freestyle;

// real is a test that needs a real Linux in the VM, not the simulator's shell.
const simulated = process.env.WARREN_SIMULATED === "1";
export const real = (name, f) => test(name, { skip: simulated && "needs a real Linux; test/system runs it" }, f);

// client returns a client of the current package.
export const client = () => new Freestyle({ baseUrl: url, apiKey });

// raw makes a request of its own, for what no SDK method shows.
export async function raw(method, path, body, headers = {}) {
  const answer = await fetch(url + path, {
    method,
    headers: { Authorization: `Bearer ${apiKey}`, ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
    body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, json: text ? JSON.parse(text) : undefined };
}

// withVM creates a VM, hands it to f and deletes it.
export async function withVM(options, f) {
  const made = await client().vms.create(options);
  try {
    return await f(made.vm, made);
  } finally {
    await client().vms.delete({ vmId: made.vmId });
  }
}

// rejects wants a typed error of the SDK with that code.
export async function rejects(promise, code) {
  await assert.rejects(promise, (e) => {
    assert.equal(e.body?.code, code, `${e.message}`);
    assert.ok(e.body.message && e.body.kind, "body has message and kind");
    return true;
  });
}
