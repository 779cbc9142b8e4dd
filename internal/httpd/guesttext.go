// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Texts for the programs in a VM, and for the agents that read them.

// modeMeans says what a policy allows if none of its rules decides.
func modeMeans(p vm.NetworkPolicy) string {
	switch p.Mode {
	case vm.NetOpen:
		return "the public internet, and no private address"
	case vm.NetPackages:
		var hosts []string
		for _, h := range p.Hosts {
			hosts = append(hosts, h.Host)
		}
		return "the package registries of its image: " + cmp.Or(strings.Join(hosts, ", "), "none")
	default:
		return "nothing"
	}
}

// ruleWords says what a rule does. A guest learns no address of the host's side: a rule that
// refuses addresses does not say which.
func ruleWords(r vm.NetRule) string {
	words := []string{string(r.Action), r.To}
	if r.Action == vm.NetDeny && isAddress(r.To) {
		words[1] = "some addresses"
	}
	if r.Proto != "" && r.Proto != "tcp" {
		words[0] += " " + r.Proto
	}
	if len(r.Ports) > 0 {
		var ports []string
		for _, p := range r.Ports {
			text := strconv.Itoa(p.First)
			if p.Last > p.First {
				text += "-" + strconv.Itoa(p.Last)
			}
			ports = append(ports, text)
		}
		words = append(words, "port "+strings.Join(ports, ", "))
	}
	if r.HTTP() {
		words = append(words, strings.TrimSpace(cmp.Or(strings.Join(r.Methods, ", "), "any method")+" "+strings.Join(r.Paths, ", ")))
	}
	if l := r.Limit; l.Connections > 0 {
		words = append(words, fmt.Sprintf("at most %d connections at once", l.Connections))
	}
	if l := r.Limit; l.Bytes > 0 {
		words = append(words, fmt.Sprintf("at most %d bytes", l.Bytes))
	}
	if l := r.Limit; l.Rate > 0 {
		words = append(words, fmt.Sprintf("at most %d bytes a second", l.Rate))
	}
	if !r.Until.IsZero() {
		words = append(words, "until "+stamp(r.Until))
	}
	return strings.Join(words[:2], " ") + joined(words[2:])
}

func joined(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return ", " + strings.Join(words, ", ")
}

func isAddress(to string) bool {
	_, err := netip.ParsePrefix(to)
	if err != nil {
		_, err = netip.ParseAddr(to)
	}
	return err == nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// page collects lines of text.
type page struct{ strings.Builder }

func (t *page) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

func policyText(name string, p guestPolicy) string {
	var t page
	t.line("The network of the VM %s is %s: it reaches %s, unless a rule says otherwise.", name, p.Mode, p.Means)
	if len(p.Rules) > 0 {
		t.line("\nRules; the first that matches decides:")
	}
	for _, r := range p.Rules {
		t.line("  %s", r)
	}
	if len(p.Secrets) > 0 {
		t.line("\nSecrets; the network puts the value in, the VM holds a placeholder:")
	}
	for _, u := range p.Secrets {
		t.line("  %s, in the header %s of requests to %s:%d", u.Name, u.Header, u.Host, u.Port)
	}
	if len(p.Refused) > 0 {
		t.line("\nRefused lately:")
	}
	for _, r := range p.Refused {
		to := r.Host
		if r.Port > 0 {
			to += ":" + strconv.Itoa(r.Port)
		}
		if r.Method != "" {
			to = r.Method + " " + to + r.Path
		}
		reason := r.Reason
		if r.Allowed {
			reason = "now allowed: " + reason
		}
		t.line("  %s  %s: %s", r.Time.UTC().Format(time.TimeOnly), shownTo(to), shownTo(reason))
	}
	t.line("\nWhat the policy says of a host: warren-agent why HOST")
	t.line("To reach more, %s", p.Next)
	return t.String()
}

// shownTo makes what a guest named printable on one line.
func shownTo(s string) string { return vm.GuestPath(vm.Clip(s, 300)).String() }

func whyText(ask vm.NetQuestion, a vm.NetAnswer) string {
	what := ask.Host
	if ask.Port > 0 {
		what += ":" + strconv.Itoa(ask.Port)
	}
	if ask.Method != "" || ask.Path != "" {
		what = strings.TrimSpace(cmp.Or(ask.Method, "any method") + " " + what + ask.Path)
	}
	var t page
	verdict := "refused"
	if a.Allowed {
		verdict = "allowed"
	}
	t.line("%s: %s: %s", shownTo(what), verdict, shownTo(a.Reason))
	if a.Rule != nil {
		t.line("rule: %s", ruleWords(*a.Rule))
	}
	if a.Allowed && a.How != "" {
		t.line("carried: %s", a.How)
	}
	if a.Next != "" {
		t.line("next: %s", a.Next)
	}
	return t.String()
}

func askText(a vm.Ask) string {
	var t page
	t.line("%s: %s", a.ID, a.State)
	for _, w := range a.Widens {
		t.line("it would newly allow: %s", shownTo(w))
	}
	switch a.State {
	case vm.AskPending:
		t.line("a person or a program decides until %s, else it counts as no", stamp(a.Deadline))
		t.line("wait for it: warren-agent ask --id %s --wait 5m", a.ID)
	case vm.AskApproved:
		t.line("it is in force")
	default:
	}
	if a.Note != "" {
		t.line("note: %s", shownTo(a.Note))
	}
	return t.String()
}

func statusText(s guestStatus) string {
	var t page
	row := func(label, value string) {
		if value != "" {
			t.line("%-11s%s", label, value)
		}
	}
	row("vm", cmp.Or(s.Name, string(s.ID)))
	row("id", string(s.ID))
	row("fork of", s.Parent)
	row("image", s.Image)
	row("size", fmt.Sprintf("%d vCPU, %d MiB of memory, %d MiB of disk", s.VCPU, s.MemoryMiB, s.DiskMiB))
	row("workdir", s.Workdir)
	if s.ExpiresAt != nil {
		row("removed at", stamp(*s.ExpiresAt))
	}
	row("network", string(s.Network)+"; see http://"+vm.PolicyHost)
	for _, m := range s.Mounts {
		row("mount", mountWords(m))
	}
	for _, url := range s.Repository {
		row("repository", url)
	}
	verbs := make([]string, len(s.Verbs))
	for i, v := range s.Verbs {
		verbs[i] = string(v)
	}
	row("profile", s.Profile+"; its programs may use "+strings.Join(verbs, ", "))
	return t.String()
}

func mountWords(m guestMount) string {
	how := "read only"
	switch {
	case m.Lost:
		how = "lost: every access fails"
	case m.Write:
		how = "to read and write"
	}
	return shownTo(m.Path) + "  " + shownTo(m.What) + ", " + how
}

// filesystemText is FILESYSTEM.md: which places a VM has, which of them last, and which
// copy of the data counts.
func filesystemText(v vm.VM, parent string, mounts []guestMount, repos []string, now time.Time) string {
	var t page
	t.line("# Where files are in this VM, and which of them last\n")
	from := ""
	if parent != "" {
		from = ", a fork of " + parent
	}
	t.line("The VM %s (%s)%s, as of %s. `warren-agent filesystem` prints this page as it is now.\n", nameOf(v), v.ID, from, stamp(now))
	t.line("| place | what it is | suspend and wake | stop and start | fork | removal of the VM |")
	t.line("|---|---|---|---|---|---|")
	if v.Workdir != "" {
		t.line("| %s | working directory, on the disk unless listed below | stays | stays | copied | lost |", shownTo(v.Workdir))
	}
	t.line("| / | the VM's own disk | stays | stays | copied | lost |")
	t.line("| /tmp | temporary files | stays | lost | copied | lost |")
	t.line("| /run, /dev/shm | memory | stays | lost | copied | lost |")
	for _, m := range mounts {
		t.line("| %s | %s, %s | stays | stays | not copied | stays |", shownTo(m.Path), shownTo(m.What), mountHow(m))
	}
	t.line("\nProcesses and memory stay when the VM is suspended, and a fork gets a copy of them. A stop loses them.")
	t.line("An undo or rollback puts the disk and the memory back to an earlier moment, not the mounts.\n")
	t.line("## What no snapshot, turn or fork captures\n")
	t.line("- Connections to the outside: they are closed in a fork, and after a wake or an undo.")
	t.line("- What happened outside: requests that were sent, commits that were pushed, objects that were written.")
	t.line("- What is in a volume, a directory of the host, or objects: they exist once, whatever happens to this VM.\n")
	t.line("## Which copy counts\n")
	for _, m := range mounts {
		t.line("- %s: %s itself. This VM only uses it.", shownTo(m.Path), shownTo(m.What))
	}
	for _, url := range repos {
		t.line("- A clone of %s: the branch there, once it is pushed. Until then changes and commits exist only on this disk.", url)
	}
	if len(repos) == 0 {
		t.line("- A git clone: the branch in its repository, once it is pushed. Until then changes and commits exist only on this disk.")
	}
	t.line("- A preview of a port: what the process answers, which may have read its files before they last changed.")
	t.line("- A review (`warren diff` on the host): a frozen copy of this disk. The disk here may have changed since; a commit made from the review has the reviewed files.")
	t.line("- Everything else: this disk.\n")
	t.line("On the host, `warren truth %s` checks this file by file.", nameOf(v))
	return t.String()
}

func mountHow(m guestMount) string {
	_, how, _ := strings.Cut(mountWords(guestMount{Write: m.Write, Lost: m.Lost}), ", ")
	return how
}
