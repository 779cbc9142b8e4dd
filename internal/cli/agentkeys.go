// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// provider is a service of models, and how its key travels.
type provider struct {
	host   string
	header string
	env    string // the variable that holds the key, and the name of the secret
}

var (
	anthropic = provider{"api.anthropic.com", "X-Api-Key", "ANTHROPIC_API_KEY"}
	openai    = provider{"api.openai.com", "Authorization", "OPENAI_API_KEY"}
	google    = provider{"generativelanguage.googleapis.com", "X-Goog-Api-Key", "GEMINI_API_KEY"}
)

// codingAgent is a program of the image agents.
type codingAgent struct {
	argv      []string
	providers []provider // that it can use; the first with a key is used
	env       []string
	prepare   string // a command line that runs before it, each time
}

// codingAgents are the agents that the verb knows by name.
var codingAgents = map[string]codingAgent{
	"claude": {argv: []string{"claude"}, providers: []provider{anthropic}, env: []string{"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1"}},
	// Codex takes the key from its own file only: what stands there is the placeholder.
	"codex": {argv: []string{"codex"}, providers: []provider{openai}, prepare: `printenv OPENAI_API_KEY | codex login --with-api-key`},
	// Without it, Gemini CLI refuses a directory for which nobody has answered its question.
	"gemini": {argv: []string{"gemini"}, providers: []provider{google}, env: []string{"GEMINI_CLI_TRUST_WORKSPACE=true"}},
	// It has a list of models of its own, and asks a host that is not open for another one.
	"opencode": {argv: []string{"opencode"}, providers: []provider{anthropic, openai, google}, env: []string{"OPENCODE_DISABLE_MODELS_FETCH=1"}},
}

// agentNames are the names of the agents, in order.
func agentNames() []string { return slices.Sorted(maps.Keys(codingAgents)) }

// chosen is what one call runs.
type chosen struct {
	label    string // claude, or the program of --cmd
	argv     []string
	env      []string
	prepare  string
	image    string
	hosts    []string
	secrets  []string
	provider *provider // whose key it needs; nil = --cmd
}

// choose reads AGENT, or --cmd. rest are further words for the agent.
func (o *agentOptions) choose(agent string, rest []string, getenv func(string) string, kept []string) (chosen, error) {
	out := chosen{label: agent, image: o.image, hosts: o.hosts, secrets: slices.Clone(o.secrets)}
	if o.cmd != "" {
		out.label, _, _ = strings.Cut(strings.TrimSpace(o.cmd), " ")
		out.label = out.label[strings.LastIndexByte(out.label, '/')+1:]
		out.argv = []string{"sh", "-c", o.cmd + ` "$@"`, "sh"}
		out.argv = append(out.argv, rest...)
		return out, nil
	}
	known, ok := codingAgents[agent]
	if !ok {
		return out, usage("%s is not an agent that this verb knows", printable(agent)).
			WithHint("they are %s; any other program runs by --cmd 'PROGRAM ...'", strings.Join(agentNames(), ", "))
	}
	out.argv, out.env, out.prepare = append(slices.Clone(known.argv), rest...), known.env, known.prepare
	has := func(p provider) bool { return slices.Contains(kept, p.env) || getenv(p.env) != "" }
	i := slices.IndexFunc(known.providers, has)
	if i < 0 {
		p := known.providers[0]
		return out, vm.Errorf(vm.NotFound, p.env, "%s needs a key of its provider, and there is none", agent).
			WithHint("set %s here, or keep it with `warren secret set %s --host %s --header %s --file FILE`", p.env, p.env, p.host, p.header)
	}
	p := known.providers[i]
	out.provider, out.hosts, out.secrets = &p, append([]string{p.host}, out.hosts...), append(out.secrets, p.env)
	return out, nil
}

// secretOf is the request that keeps a provider's key.
func (p provider) secretOf(value string) api.SetSecret {
	return api.SetSecret{Name: p.env, Host: p.host, Header: p.header, Env: p.env, Value: value}
}
