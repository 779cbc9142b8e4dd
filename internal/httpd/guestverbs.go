// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// guestPolicy is what the programs of a VM learn of its network policy.
type guestPolicy struct {
	Mode    vm.NetworkMode `json:"mode"`
	Means   string         `json:"means"` // the mode in words
	Rules   []string       `json:"rules"` // in words
	Secrets []guestSecret  `json:"secrets,omitempty"`
	Refused []guestRefusal `json:"refused"` // the last ones, the newest last
	Next    string         `json:"next"`    // how to ask
}

type guestSecret struct {
	Name   string `json:"name"`
	Host   string `json:"host"`
	Port   int    `json:"port"`
	Header string `json:"header"`
}

// guestRefusal is what was refused. Reason and Allowed are what the policy says now, without
// the addresses that the host's record has.
type guestRefusal struct {
	Time    time.Time `json:"time"`
	Count   int       `json:"count"`
	Host    string    `json:"host"`
	Port    int       `json:"port,omitempty"`
	Method  string    `json:"method,omitempty"`
	Path    string    `json:"path,omitempty"`
	Reason  string    `json:"reason"`
	Allowed bool      `json:"allowed"`
}

// guestStatus is what the programs of a VM learn of it.
type guestStatus struct {
	ID         vm.ID          `json:"id"`
	Name       string         `json:"name,omitempty"`
	Image      string         `json:"image"`
	Profile    string         `json:"profile"`
	Parent     string         `json:"forkOf,omitempty"`
	VCPU       int            `json:"vcpu"`
	MemoryMiB  int            `json:"memoryMib"`
	DiskMiB    int            `json:"diskMib"`
	Workdir    string         `json:"workdir,omitempty"`
	ExpiresAt  *time.Time     `json:"expiresAt,omitempty"`
	Verbs      []vm.GuestVerb `json:"verbs"`
	Mounts     []guestMount   `json:"mounts"`
	Network    vm.NetworkMode `json:"network"`
	Emulated   bool           `json:"emulated,omitempty"`
	Repository []string       `json:"repositories,omitempty"` // URLs
}

type guestMount struct {
	Path  string `json:"path"`
	What  string `json:"what"` // such as "volume cache"; a directory of the host has no path here
	Write bool   `json:"write"`
	Lost  bool   `json:"lost,omitempty"` // every access fails
}

// guestForks is the answer to a fork.
type guestForks struct {
	Forks []guestFork `json:"forks"`
}

type guestFork struct {
	ID   vm.ID  `json:"id"`
	Name string `json:"name,omitempty"`
}

// maxRefused is how many of the last refusals a guest sees.
const maxRefused = 10

// policy answers what the network of the VM allows.
func (q *guestRequest) policy() (guestReply, error) {
	p := q.vm.Network
	out := guestPolicy{Mode: p.Mode, Means: modeMeans(p), Rules: []string{}, Refused: q.refused(), Next: q.howToAsk("HOST")}
	for _, r := range p.Rules {
		if r.Until.IsZero() || r.Until.After(time.Now()) {
			out.Rules = append(out.Rules, ruleWords(r))
		}
	}
	for _, u := range p.Secrets {
		out.Secrets = append(out.Secrets, guestSecret{Name: u.Name, Host: u.Host, Port: u.Port, Header: u.Header})
	}
	return guestReply{answer: answerDone, body: out, text: policyText(nameOf(q.vm), out)}, nil
}

// refused returns the last refusals; none if the monitor does not say.
func (q *guestRequest) refused() []guestRefusal {
	ctx, stop := q.within()
	defer stop()
	out := []guestRefusal{}
	list, err := q.s.Inside.Connections(ctx, q.call, q.ref())
	if err != nil {
		return out
	}
	for _, r := range q.s.Policy.Refusals(q.vm, list) {
		out = append(out, guestRefusal{Time: r.Last, Count: r.Count, Host: r.Host, Port: r.Port, Method: r.Method, Path: r.Path, Reason: r.Now.Reason, Allowed: r.Now.Allowed})
	}
	return out[max(0, len(out)-maxRefused):]
}

// why explains what the policy says of one request.
func (q *guestRequest) why() (guestReply, error) {
	ask, err := q.question()
	if err != nil {
		return guestReply{}, err
	}
	a, err := q.s.Policy.Explain(q.Context(), q.call, q.ref(), ask)
	if err != nil {
		return guestReply{}, err
	}
	answer := answerAllowed
	if !a.Allowed {
		answer = answerRefused
		a.Next = q.howToAsk(ask.Host)
	}
	return guestReply{answer: answer, body: a, text: whyText(ask, a)}, nil
}

// howToAsk says how the programs of the VM get a host that is refused.
func (q *guestRequest) howToAsk(host string) string {
	if p, err := vm.FindProfile(q.vm.Profile); err != nil || !p.Grants(vm.GuestAsk) {
		return fmt.Sprintf("tell the person you work for; on the host: `warren net allow %s %s`", nameOf(q.vm), host)
	}
	return fmt.Sprintf("ask for it: `warren-agent ask %s --why REASON`", host)
}

// status describes the VM.
func (q *guestRequest) status() (guestReply, error) {
	v := q.vm
	out := guestStatus{
		ID: v.ID, Name: v.Name, Image: v.ImageName, Profile: q.call.Actor.Guest, Parent: q.parent(), VCPU: v.Size.VCPU, MemoryMiB: v.Size.MemoryMiB,
		DiskMiB: v.Size.DiskMiB, Workdir: v.Workdir, ExpiresAt: moment(v.ExpiresAt), Network: v.Network.Mode, Emulated: v.Accel == vm.TCG, Mounts: q.mounts(),
	}
	if p, err := vm.FindProfile(v.Profile); err == nil {
		out.Verbs = p.GuestVerbs
	}
	for _, g := range v.Repos {
		out.Repository = append(out.Repository, q.s.vmRepo(q.Context(), v, g.Repo).URL)
	}
	return guestReply{answer: answerDone, body: out, text: statusText(out)}, nil
}

// parent is the name of the VM that this one was forked from; "" = none.
func (q *guestRequest) parent() string {
	if q.vm.Parent == "" {
		return ""
	}
	if p, ok := q.s.Engine.VMOf(q.vm.Parent); ok {
		return nameOf(p)
	}
	return string(q.vm.Parent)
}

// mounts lists what is mounted in the VM. A guest does not learn paths of the host.
func (q *guestRequest) mounts() []guestMount {
	out := []guestMount{}
	list, err := q.s.Engine.Mounts(q.Context(), q.call, q.ref())
	if err != nil {
		return out
	}
	for _, m := range list {
		one := guestMount{Path: m.Path, What: "volume " + m.Name, Write: m.RW && !m.Cut, Lost: m.Cut}
		switch {
		case vm.IsObjects(m.Host):
			one.What = "objects " + m.Host
		case m.Host != "":
			one.What = "directory of the host"
		}
		out = append(out, one)
	}
	return out
}

// writeFilesystemMD writes FILESYSTEM.md into the working directory of a new VM. A file that
// its image or a repository put there stays.
func (s *server) writeFilesystemMD(ctx context.Context, c *vm.Call, v vm.VM) error {
	const name = "FILESYSTEM.md"
	own := *c // the receipt of the answer is that of the create
	own.Receipt = ""
	switch _, err := s.Inside.Stat(ctx, &own, string(v.ID), "", name); {
	case err == nil:
		return nil
	case vm.KindOf(err) != vm.NotFound:
		return err
	}
	text := filesystemText(v, "", nil, s.reposOf(ctx, v), time.Now())
	_, err := s.Inside.WriteFile(ctx, &own, string(v.ID), "", name, vm.WriteOptions{Mode: 0o644, Parents: true, Size: int64(len(text))}, strings.NewReader(text))
	return err
}

// filesystem describes the places of the VM, as FILESYSTEM.md does.
func (q *guestRequest) filesystem() (guestReply, error) {
	text := filesystemText(q.vm, q.parent(), q.mounts(), q.s.reposOf(q.Context(), q.vm), time.Now())
	return guestReply{answer: answerDone, body: map[string]string{"text": text}, text: text}, nil
}

// reposOf are the URLs of the repositories that a VM may use.
func (s *server) reposOf(ctx context.Context, v vm.VM) (urls []string) {
	for _, g := range v.Repos {
		urls = append(urls, s.vmRepo(ctx, v, g.Repo).URL)
	}
	return urls
}

// ask files a proposal for a rule.
func (q *guestRequest) ask() (guestReply, error) {
	rule, err := q.proposed()
	if err != nil {
		return guestReply{}, err
	}
	a, err := q.s.Asks.Propose(q.Context(), q.call, q.vm, rule, q.in.Why)
	if err != nil {
		return guestReply{}, err
	}
	return q.askReply(a), nil
}

// proposed is the rule that the input proposes.
func (q *guestRequest) proposed() (vm.NetRule, error) {
	ask, err := q.question()
	if err != nil {
		return vm.NetRule{}, err
	}
	r := vm.NetRule{Action: vm.NetAllow, To: ask.Host, Proto: ask.Proto}
	if ask.Port > 0 {
		r.Ports = []vm.PortRange{{First: ask.Port, Last: ask.Port}}
	}
	if ask.Method != "" {
		r.Methods = []string{ask.Method}
	}
	if ask.Path != "" {
		r.Paths = []string{ask.Path}
	}
	return r, nil
}

// asked answers how an ask stands, at once or when it is decided.
func (q *guestRequest) asked() (guestReply, error) {
	a, err := q.s.Asks.Get(q.Context(), q.call, q.id)
	if err != nil {
		return guestReply{}, err
	}
	wait, err := q.waitFor()
	if err != nil {
		return guestReply{}, err
	}
	if wait > 0 && a.State == vm.AskPending {
		ctx, stop := q.s.connected(q.request)
		defer stop()
		ctx, end := context.WithTimeout(ctx, wait)
		defer end()
		err := q.s.Asks.Wait(ctx, q.call, a) // the ask itself says more
		if vm.KindOf(err) == vm.Internal {
			return guestReply{}, err
		}
		if a, err = q.s.Asks.Get(q.Context(), q.call, q.id); err != nil {
			return guestReply{}, err
		}
	}
	return q.askReply(a), nil
}

// waitFor is how long the request waits for a decision.
func (q *guestRequest) waitFor() (time.Duration, error) {
	text := q.query().Get("wait")
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, vm.Errorf(vm.Invalid, "wait", "%q is not a time", vm.Clip(text, 20)).WithHint("such as 30s")
	}
	return min(d, longestWait), nil
}

func (q *guestRequest) askReply(a vm.Ask) guestReply {
	a.Host = "" // the server's id is not the guest's business
	q.w.Header().Set(headerAsk, a.ID)
	return guestReply{answer: string(a.State), body: a, text: askText(a)}
}

// turn marks a turn of the VM.
func (q *guestRequest) turn() (guestReply, error) {
	t, err := q.s.Engine.Turn(q.Context(), q.call, q.ref(), engine.TurnRequest{Note: q.in.Note})
	if err != nil {
		return guestReply{}, err
	}
	text := fmt.Sprintf("turn %d is marked; on the host, `warren undo %s %d` goes back to it\n", t.Number, nameOf(q.vm), t.Number)
	return guestReply{answer: answerDone, body: t, text: text}, nil
}

// snapshot captures a snapshot of the VM.
func (q *guestRequest) snapshot() (guestReply, error) {
	g, err := q.s.Engine.Snapshot(q.Context(), q.call, q.ref(), engine.SnapshotRequest{Name: q.in.Name})
	if err != nil {
		return guestReply{}, err
	}
	out := shownSnapshot(g.Generation)
	return guestReply{answer: answerDone, body: out, text: fmt.Sprintf("snapshot %s is captured\n", cmp.Or(out.Name, string(out.SnapshotID)))}, nil
}

// fork makes running copies of the VM, which end when it does at the latest.
func (q *guestRequest) fork() (guestReply, error) {
	r := engine.ForkRequest{Count: cmp.Or(q.in.Count, 1), Prefix: q.in.Name}
	if r.Count < 1 {
		return guestReply{}, vm.Errorf(vm.Invalid, "count", "%d is less than 1", r.Count)
	}
	if end := q.vm.ExpiresAt; !end.IsZero() {
		r.TTL = vm.Some(vm.Seconds(max(time.Until(end).Truncate(time.Second), time.Second)))
	}
	f, err := q.s.Engine.Fork(q.Context(), q.call, q.ref(), r)
	if err != nil {
		return guestReply{}, err
	}
	out, lines := guestForks{}, []string{}
	for _, c := range f.Children {
		out.Forks = append(out.Forks, guestFork{ID: c.ID, Name: c.Name})
		lines = append(lines, "forked: "+nameOf(c)+"\n")
	}
	return guestReply{answer: answerDone, body: out, text: strings.Join(lines, "")}, nil
}
