// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// VmSpec, builds and services through freestyle@0.1.63.
import assert from "node:assert/strict";
import test from "node:test";
import { VmBaseImage, VmSpec } from "freestyle";
import { Errors, client, raw, real, rejects, withVM } from "./common.mjs";

const f = client();

// environment is a spec with an inner layer; the mark keeps runs apart.
const environment = (mark) =>
  new VmSpec()
    .additionalFiles({ "/opt/app/greeting": { content: "hello" } })
    .users([{ name: "ann" }])
    .runCommands("cat /opt/app/greeting > /root/made", `echo ${mark} >> /root/made`)
    .snapshot();

test("a layer is made once, and the next VM of the spec starts on it", async () => {
  const mark = `m${Date.now()}`;
  const begun = Date.now();
  const first = await f.vms.create({ spec: environment(mark), name: "specs-1" });
  const slow = Date.now() - begun;
  try {
    assert.equal((await first.vm.exec("cat /root/made")).stdout, `hello${mark}\n`);
    const again = Date.now();
    await withVM({ spec: environment(mark), name: "specs-2" }, async (vm, made) => {
      const fast = Date.now() - again;
      assert.equal((await vm.exec("cat /root/made")).stdout, `hello${mark}\n`);
      assert.equal((await vm.user({ username: "ann" }).exec("whoami")).stdout, "ann\n");
      const build = await vm.getBuild();
      assert.equal((await build.get()).state, "succeeded");
      const phases = await build.phases();
      assert.deepEqual(phases.map((p) => p.name), ["layer-1", "start", "setup"]);
      assert.equal(phases[0].cached, true);
      assert.match(made.vmId, /^[a-z0-9]{20}$/);
      console.log(`# first ${slow} ms, second ${fast} ms`);
      if (process.env.WARREN_SIMULATED !== "1") assert.ok(fast * 2 < slow, `the second create took ${fast} ms, the first ${slow}`);
    });
    const { vms } = await f.vms.list();
    assert.ok(!vms.some((v) => v.name?.startsWith("layer")), "VMs that are made for a layer are not listed");
  } finally {
    await f.vms.delete({ vmId: first.vmId });
  }
});

test("the outermost layer is done to the VM, in order", async () => {
  const spec = new VmSpec()
    .runCommands("echo one > /root/log", "echo two >> /root/log")
    .systemdService({ name: "after", mode: "oneshot", bash: "echo three >> /root/log" })
    .waitFor("test -e /root/log", { intervalSeconds: 0.2 });
  await withVM({ spec }, async (vm) => {
    assert.equal((await vm.exec("cat /root/log")).stdout, "one\ntwo\nthree\n");
  });
});

real("a service runs, and still does in a VM made of its layer", async () => {
  const spec = new VmSpec()
    .systemdService({ name: "web", exec: ["/usr/bin/python3 -m http.server 3000"], workdir: "/etc", env: { GREETING: 'say "hi" 100%' } })
    .waitFor("python3 -c 'import urllib.request as u; u.urlopen(\"http://127.0.0.1:3000/hostname\")'", { intervalSeconds: 0.5 })
    .snapshot();
  await withVM({ spec }, async (vm) => {
    assert.equal((await vm.systemd.service("web").status()).activeState, "active");
    const { stdout } = await vm.exec("python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:3000/hostname\").read().decode().strip())'; hostname");
    const [served, own] = stdout.trim().split("\n");
    assert.equal(served, own);
    const env = await vm.exec("tr '\\0' '\\n' < /proc/$(systemctl show -p MainPID --value web)/environ | grep GREETING");
    assert.equal(env.stdout, 'GREETING=say "hi" 100%\n');
    // It starts again on a cold boot: nothing that it waited for is missing.
    await vm.stop();
    await vm.start();
    assert.equal((await vm.systemd.service("web").status()).activeState, "active");
  });
});

test("a command that fails says what it wrote, and leaves no VM", async () => {
  const before = (await f.vms.list()).totalCount;
  const spec = new VmSpec().runCommands("echo it is broken\nexit 3");
  await assert.rejects(f.vms.create({ spec }), (e) => {
    assert.ok(e instanceof Errors.VmSetupFailedError, e.message);
    assert.match(e.body.failedReason, /freestyle-run-command-1/);
    const log = e.body.diagnostics.failedServiceLogs.find((l) => l.unitName === "freestyle-run-command-1.service");
    assert.match(log.log, /it is broken/);
    assert.ok(e.body.diagnostics.serviceStates.some((s) => s.activeState === "failed"));
    assert.equal(e.body.snapshotId, null);
    assert.match(e.message, /it is broken/, "the SDK prints the diagnostics");
    return true;
  });
  await rejects(f.vms.create({ spec: spec.snapshot() }), "VM_SETUP_FAILED");
  assert.equal((await f.vms.list()).totalCount, before);
});

test("a snapshot is built from a spec, with a Dockerfile's commands", async () => {
  const base = new VmBaseImage("FROM debian:12").runCommands("echo built > /root/built");
  const { snapshotId } = await f.vms.snapshots.create({ spec: new VmSpec().baseImage(base), name: `specs-${Date.now()}` });
  assert.match(snapshotId, /^sc-[a-z0-9]{20}$/);
  const build = await f.vms.snapshots.ref({ snapshotId }).getBuild();
  assert.deepEqual((await build.phases()).map((p) => p.name).slice(-1), ["snapshot"]);
  await withVM({ snapshotId }, async (vm) => assert.equal((await vm.exec("cat /root/built")).stdout, "built\n"));
  await f.vms.snapshots.delete({ snapshotId });
  await rejects(f.vms.create({ spec: new VmSpec().baseImage({ dockerfileContent: "FROM alpine" }) }), "UNSUPPORTED_OS");
});

test("a long create keeps running in the background", async () => {
  const answer = await raw("POST", "/v1/vms", { spec: { systemd: { services: [{ name: "slow", mode: "oneshot", exec: ["sleep 0.5"] }] } } }, { "x-freestyle-background-after-secs": "0.1" });
  assert.equal(answer.status, 202);
  const id = answer.headers.get("x-freestyle-background-request-id");
  for (;;) {
    const done = await raw("GET", `/auth/v1/background-requests/${id}`);
    if (done.status === 200) {
      await f.vms.delete({ vmId: done.json.id });
      break;
    }
    assert.equal(done.status, 202);
    await new Promise((ok) => setTimeout(ok, 200));
  }
});

test("services of a running VM", async () => {
  await withVM({}, async (vm) => {
    const made = await vm.systemd.create({ name: "job", mode: "oneshot", exec: ["echo done"], enable: false });
    assert.deepEqual(made, { success: true, message: "installed", serviceName: "job.service" });
    await rejects(vm.systemd.create({ name: "job", mode: "oneshot", exec: ["true"] }), "SERVICE_ALREADY_EXISTS");
    await rejects(vm.systemd.create({ name: "none", mode: "service", exec: [] }), "EXEC_EMPTY");
    const job = vm.systemd.service("job");
    assert.equal((await job.status()).activeState, "inactive");
    assert.deepEqual((await job.start()).results, [{ serviceId: "job", success: true, message: "started" }]);
    assert.equal((await job.status()).subState, "exited");
    assert.ok((await job.logs({ lines: 20 })).logs.some((l) => l.message === "done"));
    assert.ok((await vm.systemd.list()).services.some((s) => s.name === "job.service"));
    assert.equal((await job.delete()).success, true);
    await rejects(job.status(), "SERVICE_NOT_FOUND");
  });
});
