// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

const aHash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// api makes a request with the key, and fills out from the answer.
func (s *sim) api(want int, method, path, body string, out any) string {
	s.Helper()
	code, got := s.do(method, "/e2b"+path, body, "X-API-KEY", s.key)
	if code != want {
		s.Fatalf("%s %s answers %d %s, want %d", method, path, code, got, want)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(got), out); err != nil {
			s.Fatalf("%s %s answers no JSON: %v: %s", method, path, err, got)
		}
	}
	return got
}

// requested is the answer to the first call of a build.
type requested struct {
	Template string   `json:"templateID"`
	Build    string   `json:"buildID"`
	Tags     []string `json:"tags"`
}

type buildStatus struct {
	Status  string `json:"status"`
	Entries []struct {
		Level   string `json:"level"`
		Message string `json:"message"`
	} `json:"logEntries"`
	Reason struct {
		Message string `json:"message"`
		Step    string `json:"step"`
	} `json:"reason"`
}

func (s *sim) request(body string) (r requested) {
	s.Helper()
	s.api(202, "POST", "/v3/templates", body, &r)
	return r
}

func (r requested) path() string { return "/templates/" + r.Template + "/builds/" + r.Build }

// wait polls a build to its end, as the SDKs do, and returns its last status and its whole log.
func (s *sim) wait(r requested) (last buildStatus, log string) {
	s.Helper()
	offset, until := 0, time.Now().Add(time.Minute)
	for {
		var st buildStatus
		s.api(200, "GET", r.path()+"/status?logsOffset="+strconv.Itoa(offset), "", &st)
		if len(st.Entries) > 100 {
			s.Fatalf("a status has %d entries, want at most 100", len(st.Entries))
		}
		for _, e := range st.Entries {
			log += e.Message + "\n"
		}
		offset += len(st.Entries)
		if (st.Status == "ready" || st.Status == "error") && len(st.Entries) == 0 {
			return st, log
		}
		if time.Now().After(until) {
			s.Fatalf("the build does not end; its log:\n%s", log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// build builds a template and wants a status at its end.
func (s *sim) build(want, request, plan string) (requested, buildStatus, string) {
	s.Helper()
	r := s.request(request)
	s.api(202, "POST", "/v2"+r.path(), plan, nil)
	st, log := s.wait(r)
	if st.Status != want {
		s.Fatalf("the build ends as %s (step %q: %s), want %s; its log:\n%s", st.Status, st.Reason.Step, st.Reason.Message, want, log)
	}
	return r, st, log
}

// archive is a tar in gzip.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	tw := tar.NewWriter(z)
	for name, text := range files {
		if err := tw.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatalf("no entry: %v", err)
		}
		if _, err := io.WriteString(tw, text); err != nil {
			t.Fatalf("no content: %v", err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatalf("no archive: %v", err)
	}
	if err := z.Close(); err != nil {
		t.Fatalf("no gzip: %v", err)
	}
	return out.Bytes()
}

// link asks where the files of a COPY are put.
func (s *sim) link(r requested, hash string) (present bool, at string) {
	s.Helper()
	var out struct {
		Present bool   `json:"present"`
		URL     string `json:"url"`
	}
	s.api(201, "GET", "/templates/"+r.Template+"/files/"+hash, "", &out)
	u, err := url.Parse(out.URL)
	if err != nil || u.Host != "example.com" || !strings.HasPrefix(u.Path, "/e2b/templates/") {
		s.Fatalf("files are put to %q (%v), want an address of the server", out.URL, err)
	}
	return out.Present, u.RequestURI()
}

// run runs a command in a sandbox and returns its output.
func (s *sim) run(id, command string) string {
	s.Helper()
	body := fmt.Sprintf(`{"process":{"cmd":"/bin/sh","args":["-c",%q]},"stdin":false}`, command)
	frame := append([]byte{0, 0, 0, 0, byte(len(body))}, body...)
	if len(body) > 255 {
		s.Fatal("the command is too long for this frame")
	}
	code, got := s.do("POST", "/process.Process/Start", string(frame), "E2b-Sandbox-Id", id, "X-Access-Token", s.token(id), "Content-Type", "application/connect+json")
	if code != 200 {
		s.Fatalf("a command answers %d %s", code, got)
	}
	out := ""
	for data := []byte(got); len(data) >= 5; {
		n := int(data[1])<<24 | int(data[2])<<16 | int(data[3])<<8 | int(data[4])
		var m struct {
			Event struct {
				Data struct {
					Stdout []byte `json:"stdout"`
				} `json:"data"`
			} `json:"event"`
		}
		if err := json.Unmarshal(data[5:5+n], &m); err != nil {
			s.Fatalf("a frame is no JSON: %v", err)
		}
		out += string(m.Event.Data.Stdout)
		data = data[5+n:]
	}
	return out
}

// TestTemplateBuild: a template is built in steps, and sandboxes made of it have its files, its
// variables, its user and its directory. The VM of the build and the uploaded files go away.
func TestTemplateBuild(t *testing.T) {
	s := newSim(t)
	r := s.request(`{"name":"app"}`)
	present, at := s.link(r, aHash)
	if present {
		t.Error("files that nobody uploaded are present")
	}
	if code, body := s.do("PUT", at, string(archive(t, map[string]string{"hello.txt": "hello"}))); code != 200 {
		t.Fatalf("the upload answers %d %s", code, body)
	}
	if present, _ = s.link(r, aHash); !present {
		t.Error("uploaded files are not present")
	}
	plan := `{"fromTemplate":"base","steps":[
		{"type":"ENV","args":["GREETING","hi","B","1"]},
		{"type":"ENV","args":["BOTH","$GREETING-you"]},
		{"type":"WORKDIR","args":["/srv/app"]},
		{"type":"COPY","args":["hello.txt","sub/","",""],"filesHash":"` + aHash + `"},
		{"type":"RUN","args":["echo built by $(whoami) $GREETING; echo built > made.txt"]},
		{"type":"RUN","args":["whoami","root"]},
		{"type":"USER","args":["app"]}],
		"startCmd":"touch /tmp/started; sleep 100","readyCmd":"[ -f /tmp/started ]"}`
	s.api(202, "POST", "/v2"+r.path(), plan, nil)
	st, log := s.wait(r)
	if st.Status != "ready" {
		t.Fatalf("the build ends as %s (step %s: %s); its log:\n%s", st.Status, st.Reason.Step, st.Reason.Message, log)
	}
	for _, want := range []string{"[1/7] ENV GREETING B\n", "built by user hi\n", "\nroot\n", "the template is ready\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
	if list := s.house.Rooms.Engine.VMsWhere(func(*vm.VM) bool { return true }); len(list) > 0 {
		t.Errorf("after the build there are %d VMs, want none", len(list))
	}
	if left, err := os.ReadDir(s.dir.TemplateFiles()); err != nil || len(left) > 0 {
		t.Errorf("after the build there are %d uploaded files (%v), want none", len(left), err)
	}
	var made struct {
		ID string `json:"sandboxID"`
	}
	s.api(201, "POST", "/v2/sandboxes", `{"templateID":"app","envVars":{"OWN":"1"}}`, &made)
	for command, want := range map[string]string{
		"cat /srv/app/sub/hello.txt": "hello", "cat made.txt": "built\n", "whoami": "app\n", "pwd": "/srv/app\n",
		"echo $GREETING $BOTH $OWN": "hi hi-you 1\n",
	} {
		if got := s.run(made.ID, command); got != want {
			t.Errorf("in a sandbox of the template %q prints %q, want %q", command, got, want)
		}
	}
	var snap struct {
		ID string `json:"snapshotID"`
	}
	s.api(201, "POST", "/sandboxes/"+made.ID+"/snapshots", `{}`, &snap)
	s.api(201, "POST", "/v2/sandboxes", `{"templateID":"`+snap.ID+`"}`, &made)
	if got := s.run(made.ID, "echo $GREETING in $(pwd)"); got != "hi in /srv/app\n" {
		t.Errorf("in a sandbox of a snapshot of it the command prints %q", got)
	}
	var page []struct {
		ID string `json:"snapshotID"`
	}
	if s.api(200, "GET", "/snapshots", "", &page); len(page) != 1 || page[0].ID != snap.ID {
		t.Errorf("the snapshots are %v, want only that of the sandbox", page)
	}
}

// TestTemplateFails: a step that fails ends the build with its number and the end of its output,
// and nothing is left of it.
func TestTemplateFails(t *testing.T) {
	s := newSim(t)
	for _, c := range []struct{ plan, step, message string }{
		{`{"fromTemplate":"base","steps":[{"type":"RUN","args":["true"]},{"type":"RUN","args":["echo oh no; exit 3"]}]}`, "2", "exit status 3: oh no"},
		{`{"fromTemplate":"nope","steps":[]}`, "base", "no such"},
		{`{"fromImage":"python:3","steps":[]}`, "base", "warren image import oci:python:3"},
		{`{"fromTemplate":"base","steps":[],"startCmd":"echo broken; exit 4","readyCmd":"false"}`, "finalize", "exit status 4: broken"},
		{`{"fromTemplate":"base","steps":[{"type":"RUN","args":["true","nobodyhere"]}]}`, "1", "no such Linux user"},
	} {
		_, st, log := s.build("error", `{"name":"app"}`, c.plan)
		if st.Reason.Step != c.step || !strings.Contains(st.Reason.Message, c.message) {
			t.Errorf("%s fails at step %q with %q, want step %s and %q", c.plan, st.Reason.Step, st.Reason.Message, c.step, c.message)
		}
		if !strings.Contains(log, c.message) {
			t.Errorf("the log of %s does not say %q:\n%s", c.plan, c.message, log)
		}
	}
	if list := s.house.Rooms.Engine.VMsWhere(func(*vm.VM) bool { return true }); len(list) > 0 {
		t.Errorf("after the builds there are %d VMs, want none", len(list))
	}
	s.api(404, "GET", "/templates/aliases/app", "", nil)
	s.api(400, "POST", "/v2/sandboxes", `{"templateID":"app"}`, nil)
}

// TestTemplateRefused: a build that cannot be carried out is refused before anything is made.
func TestTemplateRefused(t *testing.T) {
	s := newSim(t)
	for body, want := range map[string]int{
		`{"name":""}`: 400, `{"name":"A b"}`: 400, `{"name":"a..b"}`: 400, `{"name":"base"}`: 409, `{"name":"app","tags":["a b"]}`: 400, `{"name":"app:"}`: 400,
		`{"name":"app","cpuCount":1000}`: 400, `{"name":"app","memoryMB":-1}`: 400, `{`: 400,
	} {
		s.api(want, "POST", "/v3/templates", body, nil)
	}
	r := s.request(`{"name":"ns/App:v1","tags":["v1","stable"]}`)
	if strings.Join(r.Tags, " ") != "v1 stable" {
		t.Errorf("the tags are %v, want v1 and stable", r.Tags)
	}
	for what, plan := range map[string]string{
		"no base": `{"steps":[]}`, "two bases": `{"fromImage":"a","fromTemplate":"b"}`, "an unknown step": `{"fromImage":"a","steps":[{"type":"MAGIC"}]}`,
		"credentials":          `{"fromImage":"a","fromImageRegistry":{"type":"registry","username":"u","password":"p"}}`,
		"a copy from above":    `{"fromImage":"a","steps":[{"type":"COPY","args":["../x","y"],"filesHash":"` + aHash + `"}]}`,
		"a copy of no files":   `{"fromImage":"a","steps":[{"type":"COPY","args":["x","y"]}]}`,
		"files not uploaded":   `{"fromImage":"a","steps":[{"type":"COPY","args":["x","y"],"filesHash":"` + aHash + `"}]}`,
		"an owner with quotes": `{"fromImage":"a","steps":[{"type":"COPY","args":["x","y","$(id)"],"filesHash":"` + aHash + `"}]}`,
		"a wrong variable":     `{"fromImage":"a","steps":[{"type":"ENV","args":["A=B","x"]}]}`, "half a variable": `{"fromImage":"a","steps":[{"type":"ENV","args":["A"]}]}`,
		"a wrong user": `{"fromImage":"a","steps":[{"type":"USER","args":["a;b"]}]}`, "a NUL byte": `{"fromImage":"a","steps":[{"type":"RUN","args":["a\u0000"]}]}`,
	} {
		if code, body := s.do("POST", "/e2b/v2"+r.path(), plan, "X-API-KEY", s.key); code != 400 {
			t.Errorf("a plan with %s answers %d %s, want 400", what, code, body)
		}
	}
	_, _, stranger, err := s.house.Rooms.Access.CreateAccount(t.Context(), s.call, "stranger")
	if err != nil {
		t.Fatalf("no other account: %v", err)
	}
	if code, _ := s.do("POST", "/e2b/v2"+r.path(), `{"fromTemplate":"base"}`, "X-API-KEY", stranger); code != 404 {
		t.Errorf("another account starts the build with status %d, want 404", code)
	}
	if code, body := s.do("GET", "/e2b"+r.path()+"/status", "", "X-API-KEY", stranger); code != 200 || !strings.Contains(body, `"status":"error"`) {
		t.Errorf("another account sees the build as %d %s, want one that the server does not know", code, body)
	}
	if code, _ := s.do("GET", "/e2b/templates/"+r.Template+"/files/"+aHash, "", "X-API-KEY", stranger); code != 404 {
		t.Errorf("another account gets an address for files with status %d, want 404", code)
	}
	if _, err := s.house.Rooms.Engine.Create(t.Context(), s.call, engine.CreateRequest{Name: "mine"}); err != nil {
		t.Fatalf("no VM: %v", err)
	}
	if _, err := s.house.Rooms.Engine.Snapshot(t.Context(), s.call, "mine", engine.SnapshotRequest{Name: "kept"}); err != nil {
		t.Fatalf("no snapshot: %v", err)
	}
	s.api(409, "POST", "/v3/templates", `{"name":"kept"}`, nil)
	for range 19 {
		s.request(`{"name":"app"}`)
	}
	s.api(429, "POST", "/v3/templates", `{"name":"app"}`, nil)
}

// TestTemplateUpload: the address of an upload works for its own files and for a time only, and
// takes what was announced.
func TestTemplateUpload(t *testing.T) {
	s := newSim(t)
	r := s.request(`{"name":"app"}`)
	_, at := s.link(r, aHash)
	other := strings.Repeat("f", 64)
	u, _ := url.Parse(at)
	q := u.Query()
	q.Set("until", "1")
	for what, path := range map[string]string{
		"other files": strings.Replace(at, aHash, other, 1), "another time": u.Path + "?" + q.Encode(), "no token": u.Path, "another template": strings.Replace(at, r.Template, "x", 1),
	} {
		if code, _ := s.do("PUT", path, "data"); code != 401 {
			t.Errorf("the address with %s answers %d, want 401", what, code)
		}
	}
	for what, size := range map[string]int64{"no length": -1, "too much": 1<<30 + 1, "more than comes": 100, "less than comes": 2} {
		req := httptest.NewRequest("PUT", at, strings.NewReader("data"))
		req.ContentLength = size
		w := httptest.NewRecorder()
		if s.door.ServeHTTP(w, req); w.Code/100 != 4 {
			t.Errorf("an upload with %s answers %d, want a refusal", what, w.Code)
		}
	}
	if present, _ := s.link(r, aHash); present {
		t.Error("a refused upload is present")
	}
	s.api(400, "GET", "/templates/"+r.Template+"/files/..%2F..%2Fx", "", nil)
	if code, _ := s.do("PUT", at, "no archive"); code != 200 {
		t.Fatalf("the upload answers %d", code)
	}
	s.api(202, "POST", "/v2"+r.path(), `{"fromTemplate":"base","steps":[{"type":"COPY","args":["x","/y"],"filesHash":"`+aHash+`"}]}`, nil)
	if st, _ := s.wait(r); st.Status != "error" || st.Reason.Step != "1" || !strings.Contains(st.Reason.Message, "damaged") {
		t.Errorf("a build with a damaged archive ends as %s with %q, want an error of step 1", st.Status, st.Reason.Message)
	}
}

// TestTemplateTags: a tag means one build. A build that loses its last tag to a newer build is
// removed.
func TestTemplateTags(t *testing.T) {
	s := newSim(t)
	plan := func(text string) string {
		return `{"fromTemplate":"base","steps":[{"type":"ENV","args":["V","` + text + `"]}]}`
	}
	version := func(template string) string {
		var made struct {
			ID string `json:"sandboxID"`
		}
		s.api(201, "POST", "/v2/sandboxes", `{"templateID":"`+template+`"}`, &made)
		return strings.TrimSpace(s.run(made.ID, "echo $V"))
	}
	count := func() int {
		list, err := s.house.Rooms.Engine.Snapshots(t.Context(), s.call, false)
		if err != nil {
			t.Fatalf("no snapshots: %v", err)
		}
		return len(list)
	}
	first, _, _ := s.build("ready", `{"name":"app:v1"}`, plan("1"))
	s.api(400, "POST", "/v2/sandboxes", `{"templateID":"app"}`, nil)
	s.api(201, "POST", "/templates/tags", `{"target":"app:v1","tags":["default","stable"]}`, nil)
	s.api(404, "POST", "/templates/tags", `{"target":"app:v9","tags":["x"]}`, nil)
	s.api(400, "POST", "/templates/tags", `{"target":"app:v1","tags":[]}`, nil)
	if got := version("app") + version("App:stable") + version(first.Template); got != "111" {
		t.Errorf("the sandboxes have versions %s, want 1 each", got)
	}
	second, _, _ := s.build("ready", `{"name":"app"}`, plan("2"))
	if second.Template != first.Template {
		t.Errorf("the second build has template %s, want that of the first, %s", second.Template, first.Template)
	}
	if got := version("app") + version("app:v1"); got != "21" {
		t.Errorf("the sandboxes have versions %s, want 2 and 1", got)
	}
	if g, err := s.house.Rooms.Engine.FindSnapshot(t.Context(), s.call, "app"); err != nil || g.Template == nil || g.Template.Build != second.Build {
		t.Errorf("the snapshot app is %+v (%v), want the second build", g.Template, err)
	}
	s.build("ready", `{"name":"app"}`, plan("3"))
	if got := version("app"); got != "3" || count() != 2 {
		t.Errorf("after a third build the sandbox has version %s and there are %d builds, want 3 and 2", got, count())
	}
	var tags []struct {
		Tag   string `json:"tag"`
		Build string `json:"buildID"`
	}
	if s.api(200, "GET", "/templates/app/tags", "", &tags); len(tags) != 3 {
		t.Errorf("the tags are %v, want default, v1 and stable", tags)
	}
	s.api(204, "DELETE", "/templates/tags", `{"name":"app","tags":["stable"]}`, nil)
	s.api(400, "POST", "/v2/sandboxes", `{"templateID":"app:stable"}`, nil)
	s.api(400, "DELETE", "/templates/tags", `{"name":"app","tags":["default"]}`, nil)
	s.api(200, "GET", "/templates/aliases/app:v1", "", nil)
	s.api(404, "GET", "/templates/aliases/app:v9", "", nil)
	if list := s.api(200, "GET", "/templates", "", nil); !strings.Contains(list, `"aliases":["app"]`) || !strings.Contains(list, `"buildCount":2`) {
		t.Errorf("the templates are %s, want app with 2 builds", list)
	}
	s.api(204, "DELETE", "/templates/"+first.Template, "", nil)
	if s.api(404, "GET", "/templates/aliases/app", "", nil); count() != 0 {
		t.Errorf("after the delete there are %d builds, want none", count())
	}
}

// TestTemplateUnknown: the status of a build of which the server knows nothing, such as after
// its restart, is an error with a sentence; that of one that succeeded is not.
func TestTemplateUnknown(t *testing.T) {
	s := newSim(t)
	built, _, _ := s.build("ready", `{"name":"app"}`, `{"fromTemplate":"base"}`)
	waiting := s.request(`{"name":"app"}`)
	_, at := s.link(waiting, aHash)
	s.do("PUT", at, "data")
	left := vm.Sandbox{Builds: "app", Template: "base", By: s.call.Actor.Key, Timeout: vm.Seconds(time.Minute), EndsAt: time.Now().Add(time.Hour), OnEnd: vm.OpDelete}
	rec, err := s.house.Rooms.Engine.Create(t.Context(), s.call, engine.CreateRequest{Sandbox: &left})
	if err != nil {
		t.Fatalf("no VM: %v", err)
	}
	s.api(404, "GET", "/sandboxes/"+string(rec.ID), "", nil)
	if list := s.api(200, "GET", "/v2/sandboxes", "", nil); strings.Contains(list, string(rec.ID)) {
		t.Errorf("the VM of a build is listed as a sandbox: %s", list)
	}
	s.restart()
	if st, _ := s.wait(built); st.Status != "ready" {
		t.Errorf("after a restart a build that succeeded is %s, want ready", st.Status)
	}
	if st, _ := s.wait(waiting); st.Status != "error" || !strings.Contains(st.Reason.Message, "was started again") {
		t.Errorf("after a restart a build is %s with %q, want an error that says why", st.Status, st.Reason.Message)
	}
	s.api(404, "POST", "/v2"+waiting.path(), `{"fromTemplate":"base"}`, nil)
	if present, _ := s.link(s.request(`{"name":"app"}`), aHash); present {
		t.Error("after a restart files of an earlier server are present")
	}
	for until := time.Now().Add(time.Minute); ; {
		if _, there := s.house.Rooms.Engine.VMOf(rec.ID); !there {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the VM of a build of an earlier server is not removed")
		}
		time.Sleep(5 * time.Millisecond)
	}
}
