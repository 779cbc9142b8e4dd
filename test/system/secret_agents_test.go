//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
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
	answer func(w http.ResponseWriter, r *http.Request, call *modelCall) bool // false = there is no such address
	call   *modelCall                                                         // what the model asks the agent to do before it greets; nil = nothing
	asked  *atomic.Int32                                                      // how often it asked for call; nil without call
}

// modelSays is what every model answers.
const modelSays = "the model greets you"

// modelAPIs are the services of the agents that npm ships. All of them answer modelSays.
func modelAPIs() map[string]modelAPI {
	return map[string]modelAPI{
		"anthropic": {host: "anthropic.example.com", header: "X-Api-Key", secret: "ANTHROPIC_API_KEY", value: "sk-ant-THE-VALUE-no-guest-ever-holds-4711", answer: anthropicAnswer},
		"openai":    {host: "openai.example.com", header: "Authorization", before: "Bearer ", secret: "OPENAI_API_KEY", value: "sk-proj-THE-VALUE-no-guest-ever-holds-4711", answer: openaiAnswer},
		"google":    {host: "google.example.com", header: "X-Goog-Api-Key", secret: "GEMINI_API_KEY", value: "AIza-THE-VALUE-no-guest-ever-holds-4711", answer: googleAnswer},
	}
}

// modelConversation is what the stand-in reads of a request: the tools that the agent offers, and what was said.
type modelConversation struct {
	Tools, Messages, Input, Contents json.RawMessage
}

// answered reports whether a tool has answered, in the words of any of the services.
func (c modelConversation) answered() bool {
	said := slices.Concat(c.Messages, c.Input, c.Contents)
	return slices.ContainsFunc([]string{"tool_result", "function_call_output", "functionResponse"}, func(word string) bool {
		return bytes.Contains(said, []byte(`"`+word+`"`))
	})
}

func (m modelAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get(m.header); got != m.before+m.value {
		m.t.Errorf("%s got %s %s with %s %q", m.host, r.Method, r.URL.Path, m.header, got)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var asked modelConversation
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var call *modelCall
	if m.call != nil && !asked.answered() && bytes.Contains(asked.Tools, []byte(`"name":"`+m.call.tool+`"`)) {
		call = m.call
		m.asked.Add(1)
	}
	if r.Method != http.MethodPost || !m.answer(w, r, call) {
		w.WriteHeader(http.StatusNotFound)
	}
}

// sendEvent writes an event with a name, which is its type as well.
func sendEvent(w io.Writer, kind, rest string) {
	_, _ = fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, rest)
}

// anthropicAnswer is of the Messages API.
func anthropicAnswer(w http.ResponseWriter, r *http.Request, call *modelCall) bool {
	if r.URL.Path != "/v1/messages" {
		return false
	}
	answerEvents(w, call, 0, modelSays)
	return true
}

// openaiAnswer is of the Responses API.
func openaiAnswer(w http.ResponseWriter, r *http.Request, call *modelCall) bool {
	if r.URL.Path != "/v1/responses" {
		return false
	}
	done := openaiItem(call, 0, modelSays)
	response, err := json.Marshal(done)
	item, err2 := json.Marshal(done["output"].([]any)[0])
	if err != nil || err2 != nil {
		panic("strings and numbers can be JSON")
	}
	w.Header().Set("Content-Type", "text/event-stream")
	sendEvent(w, "response.created", `"response":{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","model":"gpt","output":[]}`)
	if call == nil { // some clients show what comes in parts, others the whole
		sendEvent(w, "response.output_item.added", `"output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","status":"in_progress","content":[]}`)
		sendEvent(w, "response.output_text.delta", `"item_id":"msg_1","output_index":0,"content_index":0,"delta":"`+modelSays+`"`)
	}
	sendEvent(w, "response.output_item.done", `"output_index":0,"item":`+string(item))
	sendEvent(w, "response.completed", `"response":`+string(response))
	return true
}

// googleAnswer is of the Gemini API. Gemini CLI asks one question without a stream: how hard the prompt is. It chooses the model by that.
func googleAnswer(w http.ResponseWriter, r *http.Request, call *modelCall) bool {
	part := map[string]any{"text": modelSays}
	_, method, _ := strings.Cut(r.URL.Path, ":")
	switch {
	case method == "generateContent":
		part["text"] = `{"complexity_reasoning":"it is short","complexity_score":1}`
	case method != "streamGenerateContent":
		return false
	case call != nil:
		part = map[string]any{"functionCall": map[string]any{"name": call.tool, "args": call.input}}
	}
	answer := map[string]any{
		"candidates":    []any{map[string]any{"content": map[string]any{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": map[string]any{"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4}, "modelVersion": "gemini",
	}
	if method == "generateContent" {
		answerJSON(w, answer)
		return true
	}
	text, err := json.Marshal(answer)
	if err != nil {
		panic("strings and numbers can be JSON")
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "data: %s\r\n\r\n", text)
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
	if _, err := os.Stat(filepath.Join(modules, "@google/gemini-cli")); err != nil {
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
		{name: "gemini", want: modelSays, slow: true, line: `mkdir -p /tmp/gemini/.gemini; cd /tmp/gemini; echo '{"security":{"auth":{"selectedType":"gemini-api-key"}}}' > .gemini/settings.json
HOME=/tmp/gemini GEMINI_CLI_TRUST_WORKSPACE=true GOOGLE_GEMINI_BASE_URL=https://google.example.com LD_LIBRARY_PATH=/tools/lib /tools/bin/node /agents/node_modules/@google/gemini-cli/bundle/gemini.js -p "say hi" < /dev/null`},
		{name: "opencode", want: modelSays, slow: true, line: `mkdir -p /tmp/opencode; cd /tmp/opencode; echo '{"provider":{"anthropic":{"options":{"baseURL":"https://anthropic.example.com/v1"}}}}' > opencode.json
HOME=/tmp/opencode OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1 /agents/node_modules/opencode-linux-x64-baseline/bin/opencode run --model anthropic/claude-sonnet-4-6 "say hi" < /dev/null`},
	}
}
