// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Commands and files in a VM through freestyle@0.1.63.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import test, { after, before } from "node:test";
import { apiKey, client, Errors, raw, real, rejects, url } from "./common.mjs";

let vm;
before(async () => {
  vm = (await client().vms.create({ name: "contract-guest" })).vm;
});
after(async () => {
  await vm.delete();
});

// 000-29
test("exec: output, status, time-out", async () => {
  const r = await vm.exec("echo out; echo err >&2; exit 7");
  assert.deepEqual([r.stdout, r.stderr, r.statusCode], ["out\n", "err\n", 7]);
  assert.equal((await vm.exec("pwd")).stdout, "/workspace\n");
  assert.equal((await vm.exec("echo $HOME; whoami")).stdout, "/root\nroot\n");
  assert.equal((await vm.exec("no-such-command-here")).statusCode, 127);
  await rejects(vm.exec({ command: "echo part; sleep 60", timeoutMs: 1500 }), "EXEC_TIMED_OUT");
  const error = await vm.exec({ command: "echo part; sleep 60", timeoutMs: 1500 }).catch((e) => e);
  assert.ok(error instanceof Errors.ExecTimedOutError);
  assert.equal(error.body.stdout, "part\n");
  assert.equal(error.body.timeoutMs, 1500);
});

real("exec: a shell's whole language, children that stay, bytes that are no text", async () => {
  const several = await vm.exec("a='x y'\nfor i in 1 2; do echo \"$a $i\"; done | tac");
  assert.equal(several.stdout, "x y 2\nx y 1\n");
  const t = Date.now();
  const left = await vm.exec("setsid sleep 30 & echo left"); // a child that holds the pipe
  assert.equal(left.stdout, "left\n");
  assert.ok(Date.now() - t < 10_000);
  const mess = await vm.exec("printf '\\377\\376ok'");
  assert.ok(mess.stdout.endsWith("ok"));
});

real("exec: output without end is bounded", async () => {
  const r = await vm.exec("head -c 20000000 /dev/zero | tr '\\0' x");
  assert.equal(r.stdout.length, 8 << 20);
});

// 000-04, 000-30
test("files: write, read, list, stat, remove", async () => {
  const data = randomBytes(300_000);
  await vm.fs.writeFile("/work/a dir/ü.bin", data);
  assert.deepEqual(Buffer.from(await vm.fs.readFile("/work/a dir/ü.bin")), data);
  await vm.fs.writeTextFile("/work/t.txt", "grüße\n");
  assert.equal(await vm.fs.readTextFile("/work/t.txt"), "grüße\n");
  await vm.fs.mkdir("/work/deep/er", true);
  assert.equal(await vm.fs.exists("/work/deep/er"), true);
  assert.equal(await vm.fs.exists("/work/none"), false);
  const entries = await vm.fs.readDir("/work");
  const kinds = Object.fromEntries(entries.map((e) => [e.name, e.kind]));
  assert.equal(kinds["t.txt"], "file");
  assert.equal(kinds["a dir"], "directory");
  const st = await vm.fs.stat("/work/t.txt");
  assert.equal(st.size, 8);
  await vm.fs.remove("/work/deep", true);
  assert.equal(await vm.fs.exists("/work/deep"), false);
  await rejects(vm.fs.readFile("/work/none"), "FILE_NOT_FOUND");
  const relative = await raw("PUT", `/v1/vms/${vm.vmId}/files/rel.txt`, { content: "r" });
  assert.deepEqual(relative.json, {});
  assert.equal((await vm.exec("cat /workspace/rel.txt")).stdout, "r");
});

test("commands as another Linux user", async () => {
  await vm.exec("useradd -m worker");
  assert.equal((await vm.user({ username: "worker" }).exec("whoami")).stdout, "worker\n");
  await rejects(vm.user({ username: "nobodyhere" }).exec("true"), "USER_NOT_FOUND");
  await rejects(vm.user({ username: "nobodyhere" }).fs.readFile("/etc/hostname"), "USER_NOT_FOUND");
});

real("files as another Linux user", async () => {
  const worker = vm.user({ username: "worker" });
  await worker.fs.writeTextFile("/home/worker/mine", "x");
  assert.equal((await vm.exec("stat -c %U /home/worker/mine")).stdout, "worker\n");
  await assert.rejects(worker.fs.writeTextFile("/etc/mine", "x"));
});

real("files of the kernel, whose length nobody knows", async () => {
  assert.match(await vm.fs.readTextFile("/proc/version"), /^Linux version/);
});

// 001-31
test("watch-files: a line for each change", async () => {
  const end = new AbortController();
  const answer = await fetch(`${url}/v1/vms/${vm.vmId}/watch-files`, {
    method: "POST", headers: { Authorization: `Bearer ${apiKey}` }, signal: end.signal,
  });
  assert.equal(answer.status, 200);
  await vm.exec("echo 1 > /workspace/seen.txt; mkdir -p /workspace/sub; sleep 0.3; echo 2 > /workspace/sub/deep.txt");
  const seen = [];
  let rest = "";
  const timer = setTimeout(() => end.abort(), 20_000);
  try {
    for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
      rest += chunk;
      const lines = rest.split("\n");
      rest = lines.pop();
      for (const line of lines) if (line.trim()) seen.push(JSON.parse(line));
      if (seen.some((e) => e.filename.endsWith("deep.txt"))) break;
    }
  } finally {
    clearTimeout(timer);
    end.abort();
  }
  assert.ok(seen.some((e) => e.eventType === "create" && e.filename.endsWith("seen.txt")), JSON.stringify(seen));
  assert.ok(seen.some((e) => e.filename.endsWith("sub/deep.txt")), JSON.stringify(seen));
});

// 000-03
test("a background process has an id, a log that outlives it, and can be signalled", async () => {
  const base = `/v1/vms/${vm.vmId}/processes`;
  const p = (await raw("POST", base, { command: "echo begun; sleep 60" })).json;
  assert.ok((await raw("GET", base)).json.processes.some((x) => x.id === p.id && x.exitCode === undefined));
  const log = async () => (await fetch(`${url}${base}/${p.id}/log`, { headers: { Authorization: `Bearer ${apiKey}` } })).text();
  while ((await log()) === "") await new Promise((r) => setTimeout(r, 50));
  assert.equal((await raw("POST", `${base}/${p.id}/signal`, { signal: "KILL" })).status, 200);
  const ended = (await raw("POST", `${base}/${p.id}/wait?timeoutMs=20000`)).json;
  assert.equal(ended.exitCode, 137);
  assert.equal(await log(), "begun\n");
});

test("a chunked exec streams as it goes", async () => {
  const answer = await fetch(`${url}/v1/vms/${vm.vmId}/exec`, {
    method: "POST",
    headers: { Authorization: `Bearer ${apiKey}`, "Content-Type": "application/json" },
    body: JSON.stringify({ argv: ["sh", "-c", "cat; echo e >&2; exit 5"], input: Buffer.from("in").toString("base64") }),
  });
  const lines = (await answer.text()).trim().split("\n").map((l) => JSON.parse(l));
  const text = (type) => lines.filter((l) => l.type === type).map((l) => Buffer.from(l.data, "base64").toString()).join("");
  assert.equal(text("stdout"), "in");
  assert.equal(text("stderr"), "e\n");
  assert.equal(lines.at(-1).type, "exit");
  assert.equal(lines.at(-1).status.code, 5);
});
