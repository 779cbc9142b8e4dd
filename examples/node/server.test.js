import assert from "node:assert/strict";
import { test } from "node:test";

import { counter } from "./server.js";

test("visits are counted, other paths are not", async (t) => {
  const server = counter().listen(0, "127.0.0.1");
  t.after(() => server.close());
  await new Promise((listening) => server.once("listening", listening));
  const at = `http://127.0.0.1:${server.address().port}`;
  assert.equal(await (await fetch(`${at}/`)).text(), "visit 1\n");
  assert.equal((await fetch(`${at}/favicon.ico`)).status, 404);
  assert.equal(await (await fetch(`${at}/`)).text(), "visit 2\n");
});
