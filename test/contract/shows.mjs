// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// A repository as a program of the SDK makes it: TestReviewShows continues with what this
// prints. SHOWS_REPO is the repository's name.
import assert from "node:assert/strict";
import { client } from "./common.mjs";

const files = {
  "parse.py": "def parse(s):\n    return s.split(';')\n",
  "test.py": "from parse import parse\nassert parse('a,b') == ['a', 'b'], parse('a,b')\nprint('1 passed')\n",
  "docs/one.md": "# One\n", "docs/two.md": "# Two\n", "docs/three.md": "# Three\n",
};
const { repo, repoId } = await client().git.repos.create({ name: process.env.SHOWS_REPO });
const { commit } = await repo.commits.create({ message: "First", files: Object.entries(files).map(([path, content]) => ({ path, content })) });

const file = await repo.contents.get({ path: "parse.py" });
assert.equal(Buffer.from(file.content, "base64").toString(), files["parse.py"]);
const docs = await repo.contents.get({ path: "docs" });
assert.deepEqual(docs.entries.map((e) => e.path).sort(), ["docs/one.md", "docs/three.md", "docs/two.md"]);
assert.deepEqual((await repo.branches.list()).branches.map((b) => [b.name, b.commit]), [["main", commit.sha]]);

const { identity } = await client().identities.create();
await identity.permissions.git.grant({ repoId, permission: "read" });
const { token } = await identity.tokens.create();
console.log(JSON.stringify({ repoId, sha: commit.sha, token }));
