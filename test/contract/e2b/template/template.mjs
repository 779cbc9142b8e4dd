// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Templates that the SDK for JavaScript builds.
import assert from "node:assert/strict";
import { fails, finish, row, sdk } from "../common.mjs";

const { Sandbox, Template, waitForPort } = sdk;
const log = [];
const template = Template()
  .fromTemplate("base")
  .setEnvs({ GREETING: "hi", WHERE: "$HOME/bin" })
  .setWorkdir("/srv/app")
  .copy("hello.txt", "texts/")
  .copy("site", "/srv/app/site", { mode: 0o755 })
  .runCmd("echo made by $(id -un) > made.txt && ls -R . && [ -n \"$GREETING\" ]")
  .runCmd("echo $GREETING > /etc/greeting", { user: "root" })
  .setStartCmd("python3 -m http.server 8000 -d site", waitForPort(8000));

await row("a template is built in steps", async () => {
  const info = await Template.build(template, "sdk-app", { tags: ["default", "v1"], onBuildLogs: (e) => log.push(e.message) });
  assert.deepEqual(info.tags, ["default", "v1"]);
  assert.ok(log.some((m) => m.includes("[5/6] RUN echo made by")), log.join("\n"));
  assert.ok(log.includes("made.txt"), log.join("\n"));
  assert.equal(await Template.exists("sdk-app"), true);
});
const s = await row("a sandbox is created of it by its name", () => Sandbox.create("sdk-app", { envs: { OWN: "1" } }));
await row("it has the files, variables, user and directory of the steps", async () => {
  const r = await s.commands.run("cat texts/hello.txt made.txt /etc/greeting; echo $GREETING $OWN $WHERE; id -un; pwd; stat -c '%U %a' texts/hello.txt site/index.html");
  assert.equal(r.stdout, "hello from the context\nmade by user\nhi\nhi 1 /home/user/bin\nuser\n/srv/app\nuser 644\nuser 755\n");
});
await row("its start command answers already", async () => {
  assert.equal((await s.commands.run("curl -s http://127.0.0.1:8000/")).stdout, "<h1>site</h1>\n");
});
await row("a failed step is a build error", async () => {
  const broken = Template().fromTemplate("sdk-app").runCmd("cat texts/hello.txt && echo it broke >&2 && exit 3");
  await fails(Template.build(broken, "sdk-broken"), "BuildError", "exit status 3: it broke");
  assert.equal(await Template.exists("sdk-broken"), false);
});
await row("tags name builds", async () => {
  await Template.assignTags("sdk-app:v1", "stable");
  await Template.removeTags("sdk-app", "v1");
  assert.deepEqual((await Template.getTags("sdk-app")).map((t) => t.tag).sort(), ["default", "stable"]);
  await fails(Sandbox.create("sdk-app:v1"), "SandboxError", "no such template");
});
await row("a template is deleted, and its sandbox stays", async () => {
  assert.equal(await Sandbox.deleteSnapshot("sdk-app"), true);
  assert.equal(await Template.exists("sdk-app"), false);
  assert.equal((await s.commands.run("echo still here")).stdout, "still here\n");
  await s.kill();
});
finish();
