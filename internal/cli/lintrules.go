// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// lintState checks the server's VMs, snapshots and mounts.
func lintState(snapshots []api.Snapshot, vms []api.VM, volumes []api.Volume) (out []finding) {
	there, started := map[vm.ID]api.VM{}, map[vm.SnapshotID]bool{}
	for _, v := range vms {
		there[v.ID] = v
		started[v.SnapshotID] = true
	}
	names := map[vm.VolumeID]string{}
	for _, v := range volumes {
		names[v.ID] = v.Name
	}
	for _, s := range snapshots {
		if s.Why == vm.WhySnapshot && !s.Failed && !s.Deleted && !s.Lost {
			source, has := there[s.SourceVMID]
			out = append(out, lintSnapshot(s, source, has, started[s.SnapshotID], names)...)
		}
	}
	for _, v := range volumes {
		for _, m := range v.Mounts {
			if m.RW && m.Share {
				out = append(out, finding{
					ruleShare, or(m.VMName, string(m.VM)) + ":" + m.Path,
					"it writes to the volume " + v.Name + " while others read it; they may see half-written files",
					"a volume of its own: `warren volume create NAME`; or copy the result over: `warren cp`",
				})
			}
		}
	}
	return out
}

// lintSnapshot checks a snapshot that a user made.
func lintSnapshot(s api.Snapshot, source api.VM, has, started bool, volumes map[vm.VolumeID]string) (out []finding) {
	subject := or(s.Name, string(s.SnapshotID))
	remove := "; then `warren snapshot rm " + subject + "`"
	switch {
	case has && source.Profile == "untrusted":
		out = append(out, finding{
			ruleJob, subject, "it keeps everything that untrusted code in " + or(source.Name, string(source.ID)) + " left, but its result is a file",
			"copy the result out: `warren cp --max-bytes N " + or(source.Name, string(source.ID)) + ":PATH .`" + remove,
		})
	case !has && !started:
		out = append(out, finding{
			ruleUnused, subject, "its VM is deleted, and nothing was started from it",
			"keep the files that you need (`warren up " + subject + " --name x`, `warren cp x:PATH .`) or in a volume" + remove,
		})
	}
	if len(s.VolumesSeen) > 0 {
		var of []string
		for _, id := range s.VolumesSeen {
			of = append(of, or(volumes[id], string(id)))
		}
		out = append(out, finding{
			ruleSecrets, subject, "its memory may contain files of " + strings.Join(of, ", "),
			"a snapshot of the volume (`warren volume snapshot create " + of[0] + "`) or of the disk alone (`warren snapshot create NAME --disk-only`)",
		})
	}
	return out
}

// lintFile looks at a spec or a script.
func lintFile(name string, text []byte) []finding {
	if t := bytes.TrimSpace(text); len(t) > 0 && t[0] == '{' {
		var s api.BuildSnapshot
		if json.Unmarshal(t, &s) == nil {
			return lintSpec(name, s)
		}
	}
	return lintScript(name, string(text))
}

// lintSpec looks at the layers of a spec, which may be the body of a request.
func lintSpec(name string, s api.BuildSnapshot) (out []finding) {
	outer := s.Spec
	if outer == nil {
		outer = s.Template
	}
	if outer == nil {
		outer = &s.Layer
	}
	for l, depth := outer.Snapshot, 1; l != nil; l, depth = l.Snapshot, depth+1 { // the outermost is applied to each new VM
		runs := l.Systemd != nil || l.Git != nil || l.BaseImage != nil || len(l.AptDeps)+len(l.GitRepos)+len(l.LayerUsers)+len(l.LayerGroups) > 0
		if !runs && len(l.LayerFiles) > 0 {
			out = append(out, finding{
				ruleSpecFile, name + ": layer " + itoa(depth), "it is kept as a snapshot of memory and disk, but contains only files",
				"put the files into the layer above it, copy them in (`warren cp`), or keep them in a volume",
			})
		}
	}
	return out
}

// lintCall is one command line of a script.
type lintCall struct {
	line int
	args []string
}

func (c lintCall) is(words ...string) bool {
	return len(c.args) >= len(words) && slices.Equal(c.args[:len(words)], words)
}

// values are what a flag is given.
func (c lintCall) values(flag string) (out []string) {
	for i, a := range c.args {
		if v, ok := strings.CutPrefix(a, flag+"="); ok {
			out = append(out, v)
		} else if a == flag && i+1 < len(c.args) {
			out = append(out, c.args[i+1])
		}
	}
	return out
}

// lintScript checks the command lines of a script. It reads words like a
// shell, but does not know the values of variables.
func lintScript(name, text string) (out []finding) {
	calls := lintCalls(text)
	for _, c := range calls {
		subject := name + ":" + itoa(c.line)
		switch {
		case c.is("snapshot", "create"):
			if !slices.Contains(c.args, "--disk-only") && !lintStarts(calls, c) {
				out = append(out, finding{
					ruleUnused, subject, "a snapshot with memory is made, and nothing here starts from it",
					"copy the result out: `warren cp --max-bytes N VM:PATH .`; for files that last, a volume",
				})
			}
		case c.is("volume", "mount"):
			rw := slices.Contains(c.args, "--rw")
			if rw && len(c.values("--host")) > 0 {
				out = append(out, lintFolder(subject, c.values("--host")[0]))
			}
			if rw && slices.Contains(c.args, "--share") {
				out = append(out, finding{
					ruleShare, subject, "a VM writes to a volume while others read it; they may see half-written files",
					"a volume of its own: `warren volume create NAME`",
				})
			}
		}
		for _, dir := range c.values("--add-dir") {
			if strings.HasSuffix(dir, ":rw") && !slices.Contains(c.values("--profile"), "dev") {
				out = append(out, lintFolder(subject, dir))
			}
		}
	}
	return out
}

// lintFolders checks the folders of VMs that do not have profile dev.
func lintFolders(v api.VM, mounts []api.Mount) (out []finding) {
	for _, m := range mounts {
		if m.Host != "" && m.RW {
			out = append(out, lintFolder(or(v.Name, string(v.ID))+":"+m.Path, m.Host))
		}
	}
	return out
}

func lintFolder(subject, folder string) finding {
	return finding{
		ruleHost, subject, "the guest writes to a folder of the host: " + folder,
		"a managed volume (`warren volume create NAME`, `warren volume mount VM --volume NAME --guest PATH --rw`); results by `warren cp`",
	}
}

// lintStarts reports whether a script starts something from the snapshot that c
// makes.
func lintStarts(calls []lintCall, c lintCall) bool {
	names := append(c.values("--name"), "")
	vmName := ""
	if len(c.args) > 2 {
		vmName = c.args[2]
	}
	return slices.ContainsFunc(calls, func(d lintCall) bool {
		if d.is("rollback", vmName) {
			return true
		}
		return (d.is("up") || d.is("run")) && slices.ContainsFunc(d.args[1:], func(a string) bool { return a != "" && slices.Contains(names, a) })
	})
}

// lintCalls finds the calls of warren in a script.
func lintCalls(text string) (out []lintCall) {
	joined, at := "", 0
	for i, line := range strings.Split(text, "\n") {
		if joined == "" {
			at = i + 1
		}
		joined += strings.TrimSuffix(line, "\\")
		if strings.HasSuffix(line, "\\") {
			joined += " "
			continue
		}
		out = append(out, lintLine(at, joined)...)
		joined = ""
	}
	return out
}

func lintLine(at int, line string) (out []lintCall) {
	var now *lintCall
	guest := false // the words are a command for the guest
	for _, word := range strings.Fields(line) {
		if strings.HasPrefix(word, "#") {
			break
		}
		bare := strings.Trim(word, `"'`+"`()$;")
		switch base := path.Base(bare); {
		case now == nil && !guest && (base == "warren" || base == "mvmctl"):
			out = append(out, lintCall{line: at})
			now = &out[len(out)-1]
		case word == "|" || word == "||" || word == "&&" || word == ";" || word == "--":
			now, guest = nil, word == "--"
		case now != nil:
			now.args = append(now.args, bare)
			if strings.HasSuffix(word, ";") {
				now = nil
			}
		}
	}
	return out
}
