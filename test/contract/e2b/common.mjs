// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// What the rows share. They drive an unmodified npm package against the server that
// E2B_API_URL, E2B_SANDBOX_URL or E2B_DOMAIN name.
import assert from "node:assert/strict";
import dns from "node:dns";

// The names of a preview domain below localhost, which not every resolver knows.
const lookup = dns.lookup;
dns.lookup = (name, options, done) => lookup(name.endsWith(".localhost") ? "127.0.0.1" : name, options, done);

export const sdk = await import(process.env.E2B_PACKAGE || "e2b");

let failed = 0;

// row states a fact and whether it holds.
export async function row(fact, check) {
  try {
    const value = await check();
    console.log(`${fact}: true`);
    return value;
  } catch (e) {
    failed++;
    console.log(`${fact}: false: ${e.constructor.name}: ${e.message}`);
  }
}

// fails wants an error of that class, with that text.
export async function fails(promise, name, text = "") {
  let error;
  try {
    await promise;
  } catch (e) {
    error = e;
  }
  assert.ok(error, `no ${name} was thrown`);
  assert.equal(error.constructor.name, name, error.message);
  assert.ok(error.message.includes(text), `${error.message} does not say ${text}`);
}

// until waits for what takes a moment.
export async function until(check) {
  for (const end = Date.now() + 60000; Date.now() < end; await new Promise((r) => setTimeout(r, 100))) {
    if (await check()) return;
  }
  assert.fail("not within 60 s");
}

export const finish = () => process.exit(failed ? 1 : 0);
