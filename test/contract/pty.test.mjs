// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Terminals through freestyle@0.1.63. Node 20 has no WebSocket of its own
// without --experimental-websocket, which the tests' runner gives.
import assert from "node:assert/strict";
import test, { after, before } from "node:test";
import { client, real, rejects } from "./common.mjs";

let vm;
before(async () => {
  vm = (await client().vms.create({ name: "contract-pty" })).vm;
});
after(async () => {
  await vm.delete();
});

// watch makes the callbacks of a session, and waits for what is in its output.
function watch() {
  let text = "";
  let ended;
  const decoder = new TextDecoder();
  const waiting = new Set();
  const exited = new Promise((resolve) => (ended = resolve));
  return {
    exited,
    events: {
      onData: (bytes) => {
        text += typeof bytes === "string" ? bytes : decoder.decode(bytes, { stream: true });
        for (const check of waiting) check();
      },
      onExit: (e) => ended(typeof e === "number" ? e : e.exitCode),
      onError: () => {},
    },
    until: (want) =>
      new Promise((resolve, reject) => {
        const late = setTimeout(() => reject(new Error(`no ${JSON.stringify(want)} in ${JSON.stringify(text)}`)), 20_000);
        const check = () => {
          if (!text.includes(want)) return;
          clearTimeout(late);
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      }),
  };
}

// 000-39, 000-40
test("open, type, detach, attach, exit", async () => {
  const out = watch();
  const session = await vm.pty.open({ cols: 80, rows: 24, sessionId: "first", ...out.events });
  assert.equal(session.sessionId, "first");
  session.write("echo marker-one\n");
  await out.until("marker-one\r\n");
  session.detach();

  const { sessions } = await vm.pty.list();
  assert.equal(sessions.length, 1);
  assert.deepEqual([sessions[0].sessionId, sessions[0].running, sessions[0].user], ["first", true, null]);

  const seen = watch();
  const again = await vm.pty.attach({ sessionId: "first", cols: 80, rows: 24, ...seen.events });
  await seen.until("marker-one");
  again.write("exit 7\n");
  assert.equal(await seen.exited, 7);
});

test("a session that is closed tells its viewers", async () => {
  const out = watch();
  await vm.pty.open({ sessionId: "closed", ...out.events });
  const answer = await vm.pty.close({ sessionId: "closed" });
  assert.equal(answer.sessionId, "closed");
  assert.equal(typeof (await out.exited), "number");
  await rejects(vm.pty.close({ sessionId: "closed" }), "SESSION_NOT_FOUND");
});

test("a signal keeps its place in the input", async () => {
  const out = watch();
  const session = await vm.pty.open({ sessionId: "signal", ...out.events });
  session.write("echo rea''dy\n");
  await out.until("ready"); // a shell that has just begun dies of ^C
  session.write("half a line");
  session.signal("SIGINT");
  // The half line is gone: this is a command of its own. It begins with blanks, since bash loses a byte that it reads
  // in the moment of a signal.
  session.write("   echo af''ter-the-signal\n");
  await out.until("after-the-signal\r\n");
  session.signal("SIGKILL");
  assert.equal(await out.exited, 137);
});

real("a real terminal: the size, ^C of a program, another Linux user", async () => {
  const out = watch();
  const session = await vm.pty.open({ cols: 100, rows: 30, exec: "bash --norc --noprofile", sessionId: "real", ...out.events });
  session.write("stty size; sleep 4713\n");
  await out.until("30 100");
  // A signal goes to the program in front: not before there is one.
  for (let tries = 0; (await vm.exec("pgrep -xf 'sleep 4713'")).statusCode !== 0; tries++) assert.ok(tries < 100, "no sleep");
  session.signal("SIGINT");
  session.write("   echo after-the-$((1+1))\n");
  await out.until("after-the-2\r\n");
  session.resize({ cols: 90, rows: 20 });
  session.write("stty size; exit 3\n");
  await out.until("20 90");
  assert.equal(await out.exited, 3);
  const who = watch();
  const other = await vm.user({ username: "nobody" }).pty.open({ exec: "id -un", cwd: "/", ...who.events });
  await who.until("nobody");
  assert.equal(await who.exited, 0);
  assert.ok(other.sessionId);
});
