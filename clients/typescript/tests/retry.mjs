// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Which requests are sent again, and what keeps a stream whole. Needs no server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { GuestError, NotFoundError, UnavailableError, Warren } from "../dist/index.js";

const unavailable = () => Response.json({ code: "SERVICE_UNAVAILABLE", kind: "unavailable", message: "starting", hint: "wait" }, { status: 503 });

/** A client whose requests get these answers, one after the other; an Error is a broken connection. */
function fake(...answers) {
  const sent = [];
  const warren = new Warren({
    url: "http://127.0.0.1:1", apiKey: "k", retries: 3,
    fetch: async (url, init) => {
      sent.push(`${init.method} ${new URL(url).pathname}`);
      const answer = answers.length > 1 ? answers.shift() : answers[0];
      const made = typeof answer === "function" ? answer() : answer;
      if (made instanceof Error) throw made;
      return made;
    },
  });
  return { warren, sent };
}

test("a create is sent once", async () => {
  for (const answer of [unavailable, () => new TypeError("fetch failed")]) {
    const { warren, sent } = fake(answer);
    await assert.rejects(warren.machine(), UnavailableError);
    assert.deepEqual(sent, ["POST /v1/vms"], "a create whose answer is lost was sent again");
  }
});

test("a read is sent again until it succeeds", async () => {
  const { warren, sent } = fake(unavailable, () => new TypeError("fetch failed"), () => Response.json({ vms: [] }));
  assert.deepEqual(await warren.list(), [], "the list is not the last answer");
  assert.equal(sent.length, 3, "the read was not sent three times");
});

test("a read is not sent again for ever", async () => {
  const { warren, sent } = fake(unavailable);
  await assert.rejects(warren.list(), UnavailableError);
  assert.equal(sent.length, 4, "three retries are not four requests");
});

test("a delete that has happened is a success", async () => {
  const gone = () => Response.json({ code: "VM_NOT_FOUND", kind: "not-found", message: "no" }, { status: 404 });
  const again = fake(() => new TypeError("fetch failed"), gone);
  await again.warren.deleteSnapshot("sc-1");
  assert.equal(again.sent.length, 2, "the delete was not sent twice");
  await assert.rejects(fake(gone).warren.deleteSnapshot("sc-1"), NotFoundError, "the first delete of nothing succeeds");
});

test("output that ends before the command does is an error", async () => {
  const lines = '{"type":"started","process":{"id":"p1"}}\n\n{"type":"stdout","data":"4pyT"}\n';
  const { warren } = fake(() => Response.json({ id: "a", vm: {} }), () => new Response(lines));
  const m = await warren.machine();
  await assert.rejects(m.run("true"), GuestError);
});

test("a character that is cut in two is whole", async () => {
  const line = (o) => JSON.stringify(o) + "\n";
  const lines = line({ type: "stdout", data: "4p" + "w=" }) + line({ type: "stdout", data: "kw==" }) + line({ type: "exit", status: { code: 0 } });
  const { warren } = fake(() => Response.json({ id: "a", vm: {} }), () => new Response(lines));
  const m = await warren.machine();
  assert.equal((await m.run("true")).stdout, "✓", "the result has another character");
});

test("an answer that is not Warren's says what to check", async () => {
  const { warren } = fake(() => new Response("<html>", { status: 404 }));
  await assert.rejects(warren.images(), (err) => err instanceof UnavailableError && /not a Warren server/.test(err.message));
});
