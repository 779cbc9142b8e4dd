// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// freestyle-sandboxes@0.1.46, the older name and form of the same client.
import assert from "node:assert/strict";
import test from "node:test";
import { apiKey, Older, real, url } from "./common.mjs";

const client = () => new Older({ baseUrl: url, apiKey });

test("create, exec, files, stop, start, delete", async () => {
  const f = client();
  const { vm, vmId } = await f.vms.create({ workdir: "/work", ports: [], vcpuCount: 1, rootfsSizeGb: 16 });
  try {
    const row = (await f.vms.list()).vms.find((v) => v.id === vmId);
    assert.deepEqual(row.persistence, { type: "sticky", priority: 5 });
    const r = await vm.exec("pwd; echo hi");
    assert.equal(r.stdout, "/work\nhi\n");
    await vm.fs.writeTextFile("/work/f", "data");
    assert.equal(await vm.fs.readTextFile("/work/f"), "data");
    await vm.stop();
    await vm.start();
    assert.equal(await vm.fs.readTextFile("/work/f"), "data");
  } finally {
    await f.vms.delete({ vmId });
  }
});

real("users, groups and files are there when create returns", async () => {
  const f = client();
  const { vm, vmId } = await f.vms.create({
    groups: [{ name: "crew" }],
    users: [{ name: "ann", groups: ["crew"], shell: "/bin/sh" }],
    additionalFiles: { "/opt/run.sh": { content: "#!/bin/sh\necho ran\n", executable: true } },
  });
  try {
    assert.equal((await vm.exec("/opt/run.sh")).stdout, "ran\n");
    assert.match((await vm.exec("id ann")).stdout, /crew/);
  } finally {
    await f.vms.delete({ vmId });
  }
});

test("what is not carried out is refused, with a code", async () => {
  const error = await client().vms.create({ ports: [{ port: 443, targetPort: 3000 }] }).then(() => null, (e) => e);
  assert.ok(error, "ports were silently ignored");
  assert.equal(error.body?.code, "CREATE_VM_BAD_REQUEST");
});
