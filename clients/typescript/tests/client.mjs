// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// The client against a server with real machines. Prints each fact that is true.
import { CommandError, CommandTimeout, NotFoundError, UnauthenticatedError, UnavailableError, Warren } from "../dist/index.js";

const fact = (name, is) => console.log(`${name}: ${Boolean(is)}`);
const thrown = (promise) => promise.then(() => undefined, (err) => err);
const warren = new Warren();

const m = await warren.machine({ labels: { from: "typescript" } });
fact("a machine runs a command", String(await m.run("echo hi")) === "hi\n");
const both = await m.run(["sh", "-c", "cat; echo $WORD >&2; exit 3"], { input: "in", env: { WORD: "err" }, cwd: "/tmp" });
fact("input, variables and the exit code arrive", both.stdout === "in" && both.stderr === "err\n" && both.exitCode === 3);

const pieces = [];
const begun = Date.now();
let first;
for await (const piece of await m.stream("echo one; sleep 1; echo two >&2")) {
  first ??= Date.now() - begun;
  pieces.push(`${piece.stream} ${piece.text}`);
}
fact("output streams", pieces.join() === "stdout one\n,stderr two\n" && Date.now() - begun > first + 700);
for await (const piece of await m.stream("echo left; exec sleep 77")) if (piece.text) break;
fact("leaving the loop ends the command", (await m.run("for i in $(seq 50); do pgrep -xf 'sleep 77' || exit 0; sleep 0.1; done; exit 1")).ok);
const failed = await thrown(m.run("echo why >&2; exit 4", { check: true }));
fact("a failed command throws with check", failed instanceof CommandError && failed.result.exitCode === 4 && failed.message.includes("why"));
fact("a command ends at its timeout", (await thrown(m.run("sleep 60", { timeoutMs: 500 }))) instanceof CommandTimeout);

const data = Uint8Array.from({ length: 1 << 20 }, (_, i) => i % 251);
await m.files.write("/work/a b/data", data);
fact("a file keeps its bytes", Buffer.compare(await m.files.read("/work/a b/data"), data) === 0);
fact("a directory is listed", (await m.files.list("/work/a b")).map((f) => f.name).join() === "data");
await m.files.rename("/work/a b/data", "/work/moved");
fact("a file is moved", (await m.files.stat("/work/moved")).size === data.length);
const missing = await thrown(m.files.readText("/work/none"));
fact("a missing file throws the error class", missing instanceof NotFoundError && missing.code === "FILE_NOT_FOUND" && missing.status === 404);
const stranger = await thrown(new Warren({ apiKey: "wrong" }).list());
fact("a wrong key throws the error class with a hint", stranger instanceof UnauthenticatedError && stranger.hint !== "");

const p = await m.start("echo started; exec sleep 300");
await m.run("echo kept > /root/note");
const copies = await m.fork(2, { name: "ts" });
const notes = await Promise.all(copies.map(async (c) => (await c.run("cat /root/note; pgrep -c sleep")).stdout));
fact("forks are a list of running copies", copies.map((c) => c.name).join() === "ts-1,ts-2" && notes.join() === "kept\n1\n,kept\n1\n");
await Promise.all(copies.map((c) => c[Symbol.asyncDispose]()));
await p.kill();
fact("a process in the background ends by a signal", (await p.wait()) === 137 && (await p.output()) === "started\n");

const t = await m.terminal({ cols: 100, rows: 30, env: { SEEN: "by terminal" } });
t.write("stty size; echo $SEEN; exit 5\n");
let seen = "";
for await (const part of t) seen += new TextDecoder().decode(part);
fact("a terminal shows what a program prints", seen.includes("30 100") && seen.includes("by terminal") && t.exitCode === 5);
const none = await thrown(m.attach("none"));
fact("a terminal that is not there throws the error class", none instanceof NotFoundError || none instanceof UnavailableError);

fact("an operation is called by its id", (await warren.call("getHost", {})).capacity !== undefined || (await warren.call("whoAmI", {})) !== undefined);
await m[Symbol.asyncDispose]();
fact("a machine is deleted at the end of its block", (await thrown(warren.get(m.id))) instanceof NotFoundError);
