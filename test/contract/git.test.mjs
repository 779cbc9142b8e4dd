// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Git hosting through freestyle@0.1.63 and, where it has git, freestyle-sandboxes@0.1.46.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import test, { after, before } from "node:test";
import { Freestyle, Older, apiKey, client, raw, rejects, url } from "./common.mjs";

const run = promisify(execFile);
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const sha = /^[0-9a-f]{40}$/;
const nobody = "00000000-0000-4000-8000-000000000000";
const repos = () => client().git.repos;

let dir, repo, repoId, first, second;
const made = [];
before(async () => {
  dir = await mkdtemp(join(tmpdir(), "contract-git-"));
  ({ repo, repoId } = await repos().create({ name: `contract-${Date.now()}` }));
  made.push(repoId);
  first = (
    await repo.commits.create({
      message: "Initial commit",
      files: [
        { path: "README.md", content: "# My Project\n" },
        { path: "src/index.ts", content: "console.log('Hello!');\n// TODO: more\n" },
        { path: "logo.bin", content: Buffer.from([0, 1, 255]).toString("base64"), encoding: "base64" },
      ],
      author: { name: "John Doe", email: "john@example.com" },
    })
  ).commit;
  second = (await repo.commits.create({ message: "More\n\nwith a body", files: [{ path: "src/index.ts", content: "console.log('Bye!');\n" }, { path: "logo.bin", deleted: true }], branch: "main", expectedSha: first.sha })).commit;
});
after(async () => {
  for (const id of made) await repos().delete({ repoId: id });
  for (const { id } of (await client().identities.list()).identities) await client().identities.delete({ identityId: id });
  await rm(dir, { recursive: true, force: true });
});

// git runs the user's git without the user's settings.
const git = (cwd, ...args) =>
  run("git", args, { cwd, env: { PATH: process.env.PATH, HOME: dir, GIT_TERMINAL_PROMPT: "0", GIT_AUTHOR_NAME: "Ann", GIT_AUTHOR_EMAIL: "a@b", GIT_COMMITTER_NAME: "Ann", GIT_COMMITTER_EMAIL: "a@b" } });

// member makes an identity with a token and a permission.
async function member(permission) {
  const { identity, identityId } = await client().identities.create();
  if (permission) await identity.permissions.git.grant({ repoId, permission });
  const { token } = await identity.tokens.create();
  const u = new URL(url);
  return { identity, identityId, token, sdk: new Freestyle({ baseUrl: url, accessToken: token }), remote: `${u.protocol}//x-access-token:${token}@${u.host}/${repoId}` };
}

test("create, list, commit", async () => {
  assert.match(repoId, uuid);
  assert.match(first.sha, sha);
  assert.equal(first.message.trim(), "Initial commit");
  assert.deepEqual([first.author.name, first.author.email, first.committer.name], ["John Doe", "john@example.com", "John Doe"]);
  assert.deepEqual(first.parents, []);
  assert.deepEqual(second.parents, [{ sha: first.sha }]);
  assert.match(second.tree.sha, sha);
  const list = await repos().list({ limit: 100 });
  const one = list.repositories.find((r) => r.id === repoId);
  assert.equal(one.defaultBranch, "main");
  assert.deepEqual(one.branches.main, { default: true, name: "main", target: second.sha });
  assert.ok(list.total >= 1 && list.offset === 0);
  await rejects(repo.commits.create({ message: "late", files: [{ path: "a", content: "x" }], expectedSha: first.sha }), "CONFLICTING_PARENT");
  for (const [path, code] of [[".GIT/config", "INVALID_FILE_PATH"], ["git~1", "INVALID_FILE_PATH"], ["../x", "INVALID_FILE_PATH"], ["/etc/passwd", "INVALID_FILE_PATH"]])
    await rejects(repo.commits.create({ message: "bad", files: [{ path, content: "x" }] }), code);
  await rejects(repo.commits.create({ message: "bad", files: [{ path: "a", content: "x", deleted: true }] }), "INVALID_FILE_CHANGE");
  await rejects(repo.commits.create({ message: "bad", files: [{ path: "a", content: "*", encoding: "base64" }] }), "INVALID_BASE64_CONTENT");
  const orphan = (await repo.commits.create({ message: "root", branch: "pages", files: [{ path: "index.html", content: "hi" }] })).commit;
  assert.deepEqual(orphan.parents, []);
});

test("contents, trees, blobs", async () => {
  const file = await repo.contents.get({ path: "src/index.ts", rev: first.sha });
  assert.deepEqual([file.type, file.name, file.path, file.size], ["file", "index.ts", "src/index.ts", 37]);
  assert.equal(Buffer.from(file.content, "base64").toString(), "console.log('Hello!');\n// TODO: more\n");
  const root = await repo.contents.get();
  assert.equal(root.type, "dir");
  assert.deepEqual(root.entries.map((e) => [e.type, e.path]).sort(), [["dir", "src"], ["file", "README.md"]]);
  assert.deepEqual((await repo.contents.get({ path: "src" })).entries.map((e) => e.path), ["src/index.ts"]);
  await rejects(repo.contents.get({ path: "nope" }), "PATH_NOT_FOUND");
  const tree = await repo.trees.get({ sha: second.tree.sha });
  assert.equal(tree.sha, second.tree.sha);
  const entry = tree.tree.find((e) => e.path === "README.md");
  assert.deepEqual([entry.type, entry.size], ["blob", 13]);
  const blob = await repo.blobs.get({ sha: entry.sha });
  assert.deepEqual([blob.encoding, blob.size, Buffer.from(blob.content, "base64").toString()], ["base64", 13, "# My Project\n"]);
  await rejects(repo.blobs.get({ sha: "1".repeat(40) }), "BLOB_NOT_FOUND");
});

test("branches: list, get, default; the SDK's broken create says why", async () => {
  const { branches } = await repo.branches.list();
  assert.equal(branches.find((b) => b.name === "main").commit, second.sha);
  assert.equal((await repo.branches.get({ branchName: "main" })).sha, second.sha);
  await rejects(repo.branches.get({ branchName: "none" }), "BRANCH_NOT_FOUND");
  assert.deepEqual(await repo.branches.getDefaultBranch(), { defaultBranch: "main" });
  await repo.commits.create({ message: "f", branch: "feature/x", files: [{ path: "f", content: "f" }] });
  assert.deepEqual(await repo.branches.setDefaultBranch({ defaultBranch: "feature/x" }), {});
  assert.deepEqual(await repo.branches.getDefaultBranch(), { defaultBranch: "feature/x" });
  await repo.branches.setDefaultBranch({ defaultBranch: "main" });
  assert.match((await repo.branches.get({ branchName: "feature/x" })).sha, sha);
  await rejects(repo.branches.create({ name: "y" }), "GIT_INVALID_REQUEST");
});

test("commits: list, pages, one", async () => {
  const all = await repo.commits.list({ branch: "main" });
  assert.deepEqual(all.commits.map((c) => c.sha), [second.sha, first.sha]);
  assert.deepEqual([all.count, all.total, all.limit, all.order], [2, 2, 50, "desc"]);
  const one = await repo.commits.list({ branch: "main", limit: 1, order: "asc" });
  assert.deepEqual(one.commits.map((c) => c.sha), [first.sha]);
  assert.deepEqual((await repo.commits.list({ branch: "main", since: first.sha })).commits.map((c) => c.sha), [second.sha]);
  await rejects(repo.commits.list({ since: first.sha, offset: 1 }), "OFFSET_WITH_SELECTOR");
  assert.equal((await repo.commits.get({ sha: first.sha })).sha, first.sha);
  await rejects(repo.commits.get({ sha: "1".repeat(40) }), "COMMIT_NOT_FOUND");
});

test("compare", async () => {
  const c = await repo.compare({ base: first.sha, head: "main" });
  assert.deepEqual([c.status, c.ahead_by, c.behind_by, c.total_commits], ["ahead", 1, 0, 1]);
  const file = c.files.find((f) => f.filename === "src/index.ts");
  assert.deepEqual([file.status, file.additions, file.deletions, file.changes], ["modified", 1, 2, 3]);
  assert.equal(c.files.find((f) => f.filename === "logo.bin").status, "removed");
  assert.equal((await repo.compare({ base: "main", head: "main" })).status, "identical");
  assert.equal((await repo.compare({ base: "main", head: first.sha })).status, "behind");
});

test("the four searches", async () => {
  const text = await repo.search({ query: "HELLO", rev: first.sha, pathPattern: "**/*.ts" });
  assert.deepEqual([text.totalFiles, text.totalMatches, text.hasMore], [1, 1, false]);
  assert.deepEqual(text.files[0].matches, [{ lineNumber: 1, line: "console.log('Hello!');", startColumn: 13, endColumn: 18, contextBefore: [], contextAfter: ["// TODO: more"] }]);
  assert.equal(text.files[0].extension, "ts");
  assert.equal((await repo.search({ query: "HELLO", rev: first.sha, caseSensitive: true })).totalFiles, 0);
  assert.equal((await repo.search({ query: "^console.*Bye", isRegex: true })).totalMatches, 1);
  await rejects(repo.search({ query: "" }), "EMPTY_QUERY");
  await rejects(repo.search({ query: "(", isRegex: true }), "INVALID_REGEX");
  assert.deepEqual((await repo.searchFiles({ query: "index" })).files.map((f) => f.path), ["src/index.ts"]);
  assert.deepEqual((await repo.searchFiles({ query: "*.md" })).files, [{ path: "README.md", extension: "md", size: 13 }]);
  const commits = await repo.searchCommits({ query: "body" });
  assert.deepEqual([commits.totalCommits, commits.commits[0].sha, commits.commits[0].message], [1, second.sha, "More"]);
  const diffs = await repo.searchDiffs({ query: "TODO" });
  assert.deepEqual(diffs.commits.map((c) => c.sha), [second.sha, first.sha]);
  assert.deepEqual(diffs.commits[0].files, [{ path: "src/index.ts", matches: [{ line: "// TODO: more", lineNumber: 2, startColumn: 3, endColumn: 7, isAddition: false }] }]);
});

test("tarball and zip", async () => {
  const tar = Buffer.from(await repo.contents.downloadTarball({ rev: "main" }));
  const at = join(dir, "r.tar");
  await writeFile(at, tar);
  const { stdout } = await run("tar", ["-tf", at]);
  assert.deepEqual(stdout.trim().split("\n").sort(), ["README.md", "src/", "src/index.ts"]);
  const zip = Buffer.from(await repo.contents.downloadZip());
  assert.equal(zip.subarray(0, 2).toString(), "PK");
});

test("grant, token, git clone with it, and what it may not", async () => {
  const reader = await member("read");
  const got = await reader.identity.permissions.git.get({ repoId });
  assert.equal(got.accessLevel, "read");
  const list = await reader.identity.permissions.git.list();
  assert.deepEqual(list.repositories.map((r) => [r.id, r.permissions]), [[repoId, "read"]]);
  await git(dir, "clone", "-q", reader.remote, "read");
  assert.equal(await readFile(join(dir, "read", "README.md"), "utf8"), "# My Project\n");
  await assert.rejects(git(join(dir, "read"), "push", "-q", "origin", "HEAD:agent/x"));
  assert.equal((await reader.sdk.git.repos.ref({ repoId }).branches.list()).branches.some((b) => b.name === "main"), true);
  await rejects(reader.sdk.git.repos.ref({ repoId }).commits.create({ message: "m", files: [{ path: "a", content: "x" }] }), "REPOSITORY_ACCESS_DENIED");
  await rejects(reader.sdk.git.repos.create({}), "FORBIDDEN");

  const writer = await member("write");
  await git(dir, "clone", "-q", writer.remote, "write");
  const work = join(dir, "write");
  await writeFile(join(work, "new"), "x");
  await git(work, "add", ".");
  await git(work, "commit", "-qm", "by an agent");
  await git(work, "push", "-q", "origin", "HEAD:agent/fix");
  assert.match((await repo.branches.get({ branchName: "agent/fix" })).sha, sha);
  await assert.rejects(git(work, "push", "-q", "origin", "HEAD:main"));
  assert.equal((await repo.branches.get({ branchName: "main" })).sha, second.sha);

  const none = await member();
  await rejects(none.sdk.git.repos.ref({ repoId }).commits.list(), "REPOSITORY_ACCESS_DENIED");
  await assert.rejects(git(dir, "clone", "-q", none.remote, "none"));
  await client().identities.delete({ identityId: writer.identityId });
  await assert.rejects(git(work, "fetch", "-q", "origin"));
});

test("a branch that is protected is not rewound or deleted", async () => {
  const u = new URL(url);
  await git(dir, "clone", "-q", `${u.protocol}//x-access-token:${apiKey}@${u.host}/${repoId}`, "own");
  const work = join(dir, "own");
  assert.equal((await raw("PUT", `/git/v1/repo/${repoId}/protected-branches/pages`)).status, 200);
  await git(work, "checkout", "-q", "--orphan", "other");
  await git(work, "commit", "-qm", "another history");
  await assert.rejects(git(work, "push", "-q", "--force", "origin", "HEAD:pages"));
  await assert.rejects(git(work, "push", "-q", "origin", ":pages"));
  assert.equal((await raw("DELETE", `/git/v1/repo/${repoId}/protected-branches/pages`)).status, 200);
  await git(work, "push", "-q", "--force", "origin", "HEAD:pages");
  await git(work, "tag", "-m", "first release", "v1");
  await git(work, "push", "-q", "origin", "v1");
  const { tags } = await repo.tags.list();
  assert.deepEqual([tags[0].name, tags[0].message.trim(), tags[0].tagger.name], ["v1", "first release", "Ann"]);
  assert.equal((await repo.tags.get({ tagName: "v1" })).sha, tags[0].sha);
  assert.equal((await repo.tags.getByHash({ sha: tags[0].sha })).target.sha, tags[0].target.sha);
  await rejects(repo.tags.get({ tagName: "none" }), "TAG_NOT_FOUND");
});

test("triggers", async () => {
  const { triggerId } = await repo.triggers.create({ trigger: { event: "push", branches: ["main"] }, action: { action: "webhook", endpoint: "https://203.0.113.7/hook" } });
  assert.match(triggerId, uuid);
  const { triggers } = await repo.triggers.list();
  assert.equal(triggers.length, 1);
  assert.deepEqual([triggers[0].id, triggers[0].repositoryId, triggers[0].managed, triggers[0].trigger.branches], [triggerId, repoId, false, ["main"]]);
  assert.ok(!JSON.stringify(triggers).includes("secret"));
  assert.deepEqual(await repo.triggers.delete({ triggerId }), {});
  assert.deepEqual(await repo.triggers.list(), { triggers: [] });
  for (const endpoint of ["http://169.254.169.254/latest", "http://10.0.0.1/"])
    assert.equal((await raw("POST", `/git/v1/repo/${repoId}/trigger`, { trigger: { event: "push" }, action: { action: "webhook", endpoint } })).status, 403);
});

test("GitHub sync is not configured", async () => {
  assert.equal(await repo.githubSync.get(), null);
  await assert.rejects(repo.githubSync.enable({ githubRepoName: "a/b" }));
});

test("import, source, and both at once", async () => {
  const { repo: copy, repoId: id } = await repos().create({ import: { type: "files", files: { "a/b.txt": "text\n" }, commitMessage: "Start", authorName: "Ann", authorEmail: "ann@example.com" } });
  made.push(id);
  const { commits } = await copy.commits.list();
  assert.deepEqual([commits.length, commits[0].message.trim(), commits[0].author.name], [1, "Start", "Ann"]);
  assert.equal((await copy.contents.get({ path: "a/b.txt" })).size, 5);
  await rejects(repos().create({ source: { url: "https://example.com/x" }, import: { type: "files", files: {}, commitMessage: "m" } }), "SOURCE_IMPORT_CONFLICT");
  await rejects(repos().create({ import: { type: "files", files: { "../x": "x" }, commitMessage: "m" } }), "INVALID_FILE_PATH");
  await rejects(repos().create({ source: { url: "file:///etc" } }), "GIT_INVALID_REQUEST");
  assert.equal((await raw("POST", "/git/v1/repo", { source: { url: "http://10.0.0.1/x.git" } })).status, 403);
  const before = (await repos().list()).total;
  await assert.rejects(repos().create({ source: { url: "http://192.168.0.1/x.git" } }));
  assert.equal((await repos().list()).total, before);
});

test("what is not there", async () => {
  await rejects(repos().ref({ repoId: nobody }).branches.list(), "REPOSITORY_NOT_FOUND");
  await rejects(repos().delete({ repoId: nobody }), "REPOSITORY_NOT_FOUND");
  const { repoId: id } = await repos().create({});
  assert.deepEqual(await repos().delete({ repoId: id }), {});
  await rejects(repos().ref({ repoId: id }).branches.list(), "REPOSITORY_NOT_FOUND");
});

test("the CLI's git clone, with the server as its proxy", async () => {
  const cli = join(dirname(fileURLToPath(import.meta.resolve("freestyle"))), "cli.mjs");
  const to = join(dir, "by-cli");
  await run("node", [cli, "git", "clone", repoId, to], {
    cwd: dir,
    env: {
      PATH: process.env.PATH, HOME: dir, FREESTYLE_API_URL: url, FREESTYLE_API_KEY: apiKey, GIT_TERMINAL_PROMPT: "0",
      GIT_CONFIG_COUNT: "2", GIT_CONFIG_KEY_0: "url.http://x-access-token:.insteadOf", GIT_CONFIG_VALUE_0: "https://x-access-token:",
      GIT_CONFIG_KEY_1: "http.http://git.freestyle.sh/.proxy", GIT_CONFIG_VALUE_1: url,
    },
  });
  assert.equal(await readFile(join(to, "README.md"), "utf8"), "# My Project\n");
});

test("freestyle-sandboxes@0.1.46", async () => {
  const old = new Older({ baseUrl: url, apiKey });
  const { repo: theirs, repoId: id } = await old.git.repos.create({ name: `older-${Date.now()}`, public: true });
  made.push(id);
  const { commit } = await theirs.commits.create({ message: "one", files: [{ path: "a", content: "b" }] });
  assert.match(commit.sha, sha);
  assert.equal((await theirs.contents.get({ path: "a" })).content, Buffer.from("b").toString("base64"));
  assert.equal((await theirs.branches.list()).branches[0].name, "main");
  await git(dir, "clone", "-q", `${url}/${id}`, "public"); // everybody reads a public repository
});
