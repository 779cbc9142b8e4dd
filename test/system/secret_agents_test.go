//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// modelAPI is the stand-in of one service of models: it streams its answer to a prompt.
type modelAPI struct {
	t      *testing.T
	host   string
	header string // of the secret
	before string // the word before the value in it, such as "Bearer "
	secret string // the name of the secret, which is that of the variable, too
	value  string
	answer func(w io.Writer, r *http.Request, model string) bool // false = there is no such address
}

// modelSays is what every model answers.
const modelSays = "the model greets you"

// modelAPIs are the services of the agents that npm ships. All of them answer modelSays.
func modelAPIs() []modelAPI {
	return []modelAPI{
		{host: "anthropic.example.com", header: "X-Api-Key", secret: "ANTHROPIC_API_KEY", value: "sk-ant-THE-VALUE-no-guest-ever-holds-4711", answer: anthropicAnswer},
		{host: "openai.example.com", header: "Authorization", before: "Bearer ", secret: "OPENAI_API_KEY", value: "sk-proj-THE-VALUE-no-guest-ever-holds-4711", answer: openaiAnswer},
	}
}

func (m modelAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get(m.header); got != m.before+m.value {
		m.t.Errorf("%s got %s %s with %s %q", m.host, r.Method, r.URL.Path, m.header, got)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var asked struct{ Model string }
	body, err := io.ReadAll(r.Body)
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if !m.answer(w, r, asked.Model) {
		w.WriteHeader(http.StatusNotFound)
	}
}

// sendEvent writes an event with a name, which is its type as well.
func sendEvent(w io.Writer, kind, rest string) {
	_, _ = fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, rest)
}

// anthropicAnswer is of the Messages API.
func anthropicAnswer(w io.Writer, r *http.Request, model string) bool {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" {
		return false
	}
	const usage = `"usage":{"input_tokens":3,"output_tokens":1}`
	sendEvent(w, "message_start", fmt.Sprintf(`"message":{"id":"msg_1","type":"message","role":"assistant","model":%q,"content":[],"stop_reason":null,"stop_sequence":null,%s}`, model, usage))
	sendEvent(w, "content_block_start", `"index":0,"content_block":{"type":"text","text":""}`)
	sendEvent(w, "content_block_delta", `"index":0,"delta":{"type":"text_delta","text":"`+modelSays+`"}`)
	sendEvent(w, "content_block_stop", `"index":0`)
	sendEvent(w, "message_delta", `"delta":{"stop_reason":"end_turn","stop_sequence":null},`+usage)
	_, _ = io.WriteString(w, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	return true
}

// openaiAnswer is of the Responses API.
func openaiAnswer(w io.Writer, r *http.Request, model string) bool {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/responses" {
		return false
	}
	const (
		text = `{"type":"output_text","text":"` + modelSays + `","annotations":[]}`
		item = `{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[` + text + `]}`
	)
	response := func(status, rest string) string {
		return fmt.Sprintf(`"response":{"id":"resp_1","object":"response","created_at":1,"status":%q,"model":%q,%s}`, status, model, rest)
	}
	sendEvent(w, "response.created", response("in_progress", `"output":[]`))
	sendEvent(w, "response.output_item.added", `"output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","status":"in_progress","content":[]}`)
	sendEvent(w, "response.output_text.delta", `"item_id":"msg_1","output_index":0,"content_index":0,"delta":"`+modelSays+`"`)
	sendEvent(w, "response.output_item.done", `"output_index":0,"item":`+item)
	sendEvent(w, "response.completed", response("completed", `"output":[`+item+`],"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":0},"output_tokens":1,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":4}`))
	return true
}

// agentPrograms installs the command lines of agents. It returns the directory, which a guest
// mounts as /agents/node_modules.
func agentPrograms(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("testdata/programs")
	if err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "@openai/codex")); err != nil {
		// Their scripts would fetch programs for this host.
		install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
		install.Dir = dir
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
	}
	return modules
}

// agentLines are the commands of agents in a guest.
func agentLines() []program {
	return []program{
		{name: "claude", want: modelSays, slow: true, line: `mkdir -p /tmp/claude; cd /tmp/claude; HOME=/tmp/claude ANTHROPIC_BASE_URL=https://anthropic.example.com CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 /agents/node_modules/@anthropic-ai/claude-code-linux-x64/claude -p "say hi"`},
		{name: "codex", want: modelSays, line: `mkdir -p /tmp/codex; cd /tmp/codex; cat > config.toml <<E
model = "gpt-5"
model_provider = "tools"
[model_providers.tools]
name = "tools"
base_url = "https://openai.example.com/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
E
CODEX_HOME=/tmp/codex LD_LIBRARY_PATH=/tools/lib /tools/bin/node /agents/node_modules/@openai/codex/bin/codex.js exec --skip-git-repo-check "say hi" < /dev/null`},
	}
}
