// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// modelScript is a stand-in of Anthropic's Messages API and OpenAI's Responses API. Its model asks
// for one tool after the other, and then repeats what they answered.
type modelScript []modelCall

// modelCall is a tool that the model asks for.
type modelCall struct {
	tool  string
	input map[string]any
}

// modelRequest is what the stand-in reads of a request of either API.
type modelRequest struct {
	Stream   bool
	Tools    []struct{ Name string }
	Messages []struct{ Content json.RawMessage }
	Input    json.RawMessage
}

// modelBlock is a part of a request in which a tool may answer.
type modelBlock struct {
	Type            string
	Content, Output json.RawMessage
}

// serve starts the stand-in and returns the variables with which programs reach it.
func (m modelScript) serve(t *testing.T) []string {
	t.Helper()
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	return []string{
		"ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=of-a-test", "ANTHROPIC_AUTH_TOKEN=",
		"OPENAI_BASE_URL=" + server.URL + "/v1", "OPENAI_API_KEY=of-a-test", "OPENAI_AGENTS_DISABLE_TRACING=1",
	}
}

func (m modelScript) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req modelRequest
	data, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err == nil {
		err = json.Unmarshal(data, &req)
	}
	known := map[string]bool{"/v1/messages": true, "/messages": true, "/v1/responses": true}
	if err != nil || !known[r.URL.Path] {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	told := req.told()
	var call *modelCall
	if len(told) < len(m) && req.has(m[len(told)].tool) {
		call = &m[len(told)]
	}
	says := "done"
	if len(told) > 0 {
		says = "the tools answer: " + strings.Join(told, "\n")
	}
	switch {
	case r.URL.Path == "/v1/responses":
		answerJSON(w, openaiItem(call, len(told), says))
	case req.Stream:
		answerEvents(w, call, len(told), says)
	default:
		answerJSON(w, anthropicMessage(call, len(told), says))
	}
}

// has says whether a tool is offered. Requests for something else, such as a title, offer none.
func (r modelRequest) has(tool string) bool {
	for _, t := range r.Tools {
		if t.Name == tool {
			return true
		}
	}
	return false
}

// told returns what the tools have answered.
func (r modelRequest) told() (texts []string) {
	parts := []json.RawMessage{r.Input}
	for _, m := range r.Messages {
		parts = append(parts, m.Content)
	}
	for _, p := range parts {
		var blocks []modelBlock
		if json.Unmarshal(p, &blocks) != nil {
			continue // it is text
		}
		for _, b := range blocks {
			switch b.Type {
			case "tool_result":
				texts = append(texts, textOf(b.Content))
			case "function_call_output":
				texts = append(texts, textOf(b.Output))
			}
		}
	}
	return texts
}

// textOf returns the text of a content, which is a string or a list of parts.
func textOf(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	if json.Unmarshal(content, &parts) != nil {
		return string(content)
	}
	for _, p := range parts {
		text += p.Text
	}
	return text
}

func answerJSON(w http.ResponseWriter, answer map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client has left
}

// anthropicMessage is an answer of the Messages API.
func anthropicMessage(call *modelCall, n int, says string) map[string]any {
	block, reason := map[string]any{"type": "text", "text": says}, "end_turn"
	if call != nil {
		block, reason = map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", n), "name": call.tool, "input": call.input}, "tool_use"
	}
	return map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": []any{block},
		"stop_reason": reason, "stop_sequence": nil, "usage": map[string]any{"input_tokens": 3, "output_tokens": 1},
	}
}

// answerEvents sends the same as events.
func answerEvents(w http.ResponseWriter, call *modelCall, n int, says string) {
	w.Header().Set("Content-Type", "text/event-stream")
	start, delta, reason := `{"type":"text","text":""}`, map[string]any{"type": "text_delta", "text": says}, "end_turn"
	if call != nil {
		input, _ := json.Marshal(call.input) // strings and numbers
		start = fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":%q,"input":{}}`, n, call.tool)
		delta, reason = map[string]any{"type": "input_json_delta", "partial_json": string(input)}, "tool_use"
	}
	change, _ := json.Marshal(delta) // strings
	sendEvent(w, "message_start", `"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}`)
	sendEvent(w, "content_block_start", `"index":0,"content_block":`+start)
	sendEvent(w, "content_block_delta", `"index":0,"delta":`+string(change))
	sendEvent(w, "content_block_stop", `"index":0`)
	sendEvent(w, "message_delta", fmt.Sprintf(`"delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"input_tokens":3,"output_tokens":1}`, reason))
	_, _ = io.WriteString(w, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
}

// openaiItem is an answer of the Responses API.
func openaiItem(call *modelCall, n int, says string) map[string]any {
	item := map[string]any{
		"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": says, "annotations": []any{}}},
	}
	if call != nil {
		input, _ := json.Marshal(call.input) // strings and numbers
		item = map[string]any{"type": "function_call", "id": fmt.Sprintf("fc_%d", n), "call_id": fmt.Sprintf("call_%d", n), "name": call.tool, "arguments": string(input), "status": "completed"}
	}
	return map[string]any{
		"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "gpt", "output": []any{item},
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{},
		"usage": map[string]any{"input_tokens": 3, "input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens": 1, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": 4},
	}
}
