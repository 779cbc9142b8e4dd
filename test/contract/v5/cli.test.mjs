// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// The package's command line against /v5.
import assert from "node:assert/strict";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import test from "node:test";
import { cli } from "./common.mjs";

// ok runs a command that has to succeed.
async function ok(...args) {
  const r = await cli(...args);
  assert.equal(r.code, 0, `freestyle ${args.join(" ")}: ${r.stderr}${r.stdout}`);
  return r.stdout;
}

test("the command line works on a VM", async () => {
  const made = JSON.parse(await ok("vm", "create", "--slug", "v5-cli", "--display-name", "By hand", "--no-ssh", "--output", "json", "--metadata", "team=web"));
  try {
    assert.equal(made.slug, "v5-cli");
    assert.ok((await ok("vm", "list")).includes("v5-cli"), "list");
    assert.ok((await ok("vm", "get", "v5-cli")).includes("By hand"), "get");
    assert.equal(await ok("vm", "exec", "v5-cli", "--env", "X=a b", "--", "sh", "-c", "echo $X"), "a b\n");
    const failed = await cli("vm", "exec", "v5-cli", "--", "sh", "-c", "exit 5");
    assert.equal(failed.code, 5, failed.stderr);
    const dir = await mkdtemp(path.join(tmpdir(), "v5-"));
    await writeFile(path.join(dir, "in"), "bytes");
    await ok("vm", "fs", "write", "v5-cli", "/root/x", path.join(dir, "in"));
    await ok("vm", "fs", "read", "v5-cli", "/root/x", "--out", path.join(dir, "out"));
    assert.equal(await readFile(path.join(dir, "out"), "utf8"), "bytes");
    assert.ok((await ok("vm", "fs", "ls", "v5-cli", "/root")).includes("x"), "ls");
    await ok("vm", "pause", "v5-cli");
    await ok("vm", "start", "v5-cli");
    await ok("vm", "snapshot", "create", "v5-cli", "--slug", "v5-cli-snap");
    assert.ok((await ok("snapshot", "list")).includes("v5-cli-snap"), "snapshots");
    await ok("snapshot", "delete", "v5-cli-snap");
    assert.ok((await ok("firewall", "list")).length > 0, "rules");
  } finally {
    await ok("vm", "delete", "v5-cli");
  }
  const gone = await cli("vm", "get", "v5-cli");
  assert.equal(gone.code, 1, "a VM that is gone");
  assert.ok(gone.stderr.includes("no such VM") || gone.stdout.includes("no such VM"), gone.stderr);
});
