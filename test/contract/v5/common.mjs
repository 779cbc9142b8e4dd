// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// What the rows of Freestyle's /v5 share. They drive the unmodified npm package freestyle@0.2.17
// against the server that FREESTYLE_API_URL and FREESTYLE_API_KEY name.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import * as sdk from "freestyle-v5";

export const url = process.env.FREESTYLE_API_URL;
export const apiKey = process.env.FREESTYLE_API_KEY;
assert.ok(url && apiKey, "FREESTYLE_API_URL and FREESTYLE_API_KEY are not set");

export const { Freestyle, FreestyleApiError } = sdk;
export const client = (more = {}) => new Freestyle({ baseUrl: url, apiKey, ...more });
export const as = (identityAccessToken) => new Freestyle({ baseUrl: url, identityAccessToken });

// What a create needs at least: a VM that reaches nothing.
export const closed = { firewall: { rules: [] } };

// withVM makes a VM, hands it to f and deletes it.
export async function withVM(options, f) {
  const made = await client().vms.create({ ...closed, ...options });
  try {
    return await f(made.vm, made);
  } finally {
    await client().vms.delete(made.vmId).catch(() => {});
  }
}

// fails wants the SDK's own error, with a status, a code and a part of its message.
export async function fails(promise, status, code, part = "") {
  await assert.rejects(promise, (e) => {
    assert.ok(e instanceof FreestyleApiError, `${e.name}: ${e.message}`);
    assert.deepEqual([e.status, e.code], [status, code], e.message);
    assert.ok(e.message.includes(part), `"${e.message}" does not say "${part}"`);
    return true;
  });
}

// raw makes a request of its own, for what the SDK does not send.
export async function raw(method, at, body, headers = {}) {
  const answer = await fetch(url + at, { method, headers: { Authorization: `Bearer ${apiKey}`, ...headers }, body });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, json: text ? JSON.parse(text) : undefined };
}

// terminal collects what a terminal says.
export function terminal() {
  let text = "";
  let ended;
  const exited = new Promise((resolve) => (ended = resolve));
  const decoder = new TextDecoder();
  return {
    exited,
    text: () => text,
    events: { onData: (bytes) => (text += decoder.decode(bytes, { stream: true })), onExit: ended, onError: () => {} },
    async until(part) {
      for (const end = Date.now() + 30_000; Date.now() < end; await new Promise((r) => setTimeout(r, 50))) if (text.includes(part)) return;
      assert.fail(`the terminal does not say ${JSON.stringify(part)} within 30 s: ${JSON.stringify(text)}`);
    },
  };
}

const command = fileURLToPath(new URL("../node_modules/freestyle-v5/dist/cli/index.js", import.meta.url));

// cli runs the package's command line.
export function cli(...args) {
  const env = { ...process.env, FREESTYLE_PROXY: url, FREESTYLE_API_KEY: apiKey, CI: "1", NO_COLOR: "1" };
  return new Promise((resolve) => {
    const p = spawn(process.execPath, [command, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
    let stdout = "";
    let stderr = "";
    p.stdout.on("data", (d) => (stdout += d));
    p.stderr.on("data", (d) => (stderr += d));
    p.on("close", (code) => resolve({ code, stdout, stderr }));
  });
}

let failed = 0;

// row states a fact and whether it holds, for test/system.
export async function row(fact, check) {
  try {
    const value = await check();
    console.log(`${fact}: true`);
    return value;
  } catch (e) {
    failed++;
    console.log(`${fact}: false: ${e.name}: ${e.message}`);
    return {};
  }
}

export const finish = () => process.exit(failed ? 1 : 0);
