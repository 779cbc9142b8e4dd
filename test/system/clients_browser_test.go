//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// inPage uses the client in a page, and returns what was found true.
const inPage = `import("/dist/index.js").then(async ({ Warren, NotFoundError }) => {
	const found = [];
	const warren = new Warren({ url: %q, apiKey: %q });
	const m = await warren.machine();
	if (String(await m.run("echo hi")) === "hi\n") found.push("a command runs");
	let streamed = "";
	for await (const piece of await m.stream("echo one; echo two")) streamed += piece.text;
	if (streamed === "one\ntwo\n") found.push("output streams");
	await m.files.write("/work/a", new Uint8Array([1, 2, 3]));
	if ((await m.files.read("/work/a")).join() === "1,2,3") found.push("a file keeps its bytes");
	const t = await m.terminal();
	t.write("exit 5\n");
	for await (const part of t);
	if (t.exitCode === 5) found.push("a terminal ends with its status");
	await m.delete();
	if (await warren.get(m.id).then(() => 0, (err) => err instanceof NotFoundError)) found.push("a deleted machine is not found");
	return found.join(", ");
})`

// TestClientsBrowser: the client for TypeScript works in a page of another origin, which the server's settings name; a
// page of an origin that they do not name gets nothing.
func TestClientsBrowser(t *testing.T) {
	t.Parallel()
	dir := absolute("../../clients/typescript")
	builds(t, dir)
	named, other := httptest.NewServer(http.FileServer(http.Dir(dir))), httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(named.Close)
	t.Cleanup(other.Close)
	h := unstarted(t)
	if err := os.WriteFile(filepath.Join(h.data, "server.yaml"), []byte("webOrigins: ["+named.URL+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.serve()
	t.Cleanup(h.close)
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(inPage, "http://"+h.listen, strings.TrimSpace(string(key)))
	ctx := startChromium(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(named.URL+"/src/")); err != nil {
		t.Fatal(err)
	}
	got, err := chromedp.Run(ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
	if want := "a command runs, output streams, a file keeps its bytes, a terminal ends with its status, a deleted machine is not found"; err != nil || got != want {
		t.Errorf("in a page of a named origin: %q, %v; want %q", got, err, want)
	}
	read := func(origin, want string) {
		t.Helper()
		js := fmt.Sprintf(`fetch(%q).then(() => "read", () => "refused")`, "http://"+h.listen+"/healthz")
		if got, err := chromedp.Run(ctx, chromedp.Evaluate[string](js, chromedp.EvalAwaitPromise)); err != nil || got != want {
			t.Errorf("in a page of the %s origin an answer is %q, %v; want %s", origin, got, err, want)
		}
	}
	read("named", "read")
	if err := chromedp.Do(ctx, chromedp.Navigate(other.URL+"/src/")); err != nil {
		t.Fatal(err)
	}
	read("other", "refused")
}
