// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package mcpd

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warren-vm/warren/vm"
)

type publishIn struct {
	Machine string `json:"machine" jsonschema:"name or id of the machine"`
	Path    string `json:"path" jsonschema:"file or directory in the machine; a directory is packed as tar.zst"`
	Bucket  string `json:"bucket" jsonschema:"a bucket of the server's object storage"`
	Key     string `json:"key,omitempty" jsonschema:"name of the object; if it is empty or ends with a slash, the file's name is added"`
	Note    string `json:"note,omitempty" jsonschema:"what made it"`
	New     bool   `json:"new,omitempty" jsonschema:"refuse if the object exists; default: a new version is added"`
}

type publishOut struct {
	Bucket  string `json:"bucket"`
	Key     string `json:"key"`
	Version string `json:"version"`
	SHA256  string `json:"sha256,omitempty"`
	Bytes   int64  `json:"bytes"`
	Files   int    `json:"files"`
}

type commitIn struct {
	Machine  string `json:"machine" jsonschema:"name or id of the machine"`
	Repo     string `json:"repo" jsonschema:"a repository of the server, by name or id"`
	Message  string `json:"message,omitempty" jsonschema:"needed unless dry_run"`
	Path     string `json:"path,omitempty" jsonschema:"directory in the machine; default the working directory, or the only git repository in it"`
	Branch   string `json:"branch,omitempty" jsonschema:"default agent/MACHINE/BASE-BRANCH"`
	Author   string `json:"author,omitempty" jsonschema:"'Name <address>'; default the caller"`
	DryRun   bool   `json:"dry_run,omitempty" jsonschema:"only say what would be committed"`
	Manifest string `json:"manifest,omitempty" jsonschema:"of the answer to a dry run: commit exactly what that showed"`
}

type commitOut struct {
	Commit   string   `json:"commit,omitempty" jsonschema:"absent after a dry run"`
	Branch   string   `json:"branch"`
	Repo     string   `json:"repo"`
	Base     string   `json:"base,omitempty"`
	Manifest string   `json:"manifest"`
	Stat     stat     `json:"stat"`
	Files    []string `json:"files" jsonschema:"what changes, the first ones"`
	More     int      `json:"more,omitempty"`
	LeftOut  []string `json:"left_out,omitempty"`
	Flags    []string `json:"flags,omitempty" jsonschema:"what a reviewer should know"`
	Secrets  []string `json:"secrets,omitempty" jsonschema:"files in which something looks like a secret: they are not committed before they are cleaned"`
}

type previewIn struct {
	Machine string `json:"machine" jsonschema:"name or id of the machine"`
	Port    int    `json:"port" jsonschema:"the TCP port on which a program in the machine serves HTTP"`
	Public  bool   `json:"public,omitempty" jsonschema:"anybody with the address may see it; default: only with a link"`
	Lasts   int    `json:"lasts_seconds,omitempty" jsonschema:"how long the link works; default 3600"`
	Close   bool   `json:"close,omitempty" jsonschema:"close the preview of the port"`
}

type previewOut struct {
	URL       string `json:"url,omitempty" jsonschema:"for a browser; treat it as a secret unless it is public"`
	ExpiresAt string `json:"expires_at,omitempty"`
	Closed    bool   `json:"closed,omitempty"`
}

func (s *Server) addShipping() {
	add(s, &mcp.Tool{
		Name: "publish", Annotations: adds("Store a file as an object"),
		Description: "Store a file or directory of a machine as a new version of an object, read from a frozen state of its disk.",
	}, publish)
	add(s, &mcp.Tool{
		Name: "commit", Annotations: adds("Commit work to a repository"),
		Description: "Commit a directory of a machine to a branch of a repository of the server, read from its disk. Make a dry run first, and commit with its manifest.",
	}, commit)
	add(s, &mcp.Tool{
		Name: "preview", Annotations: adds("Show a web server of a machine"),
		Description: "Make a link with which a browser sees an HTTP server of a machine, or close it.",
	}, preview)
}

func publish(ctx context.Context, k *call, in publishIn) (out publishOut, err error) {
	defer k.doing(ctx, "storing "+in.Path)()
	p, err := k.c.Publish(ctx, in.Machine, vm.PublishRequest{Path: vm.GuestPath(in.Path), Bucket: in.Bucket, Key: in.Key, Command: in.Note, New: in.New})
	o := p.Object
	return publishOut{Bucket: o.Bucket, Key: o.Key, Version: o.Version, SHA256: o.SHA256, Bytes: o.Size, Files: p.Files}, err
}

func commit(ctx context.Context, k *call, in commitIn) (out commitOut, err error) {
	if in.Message == "" && !in.DryRun {
		return out, vm.Errorf(vm.Invalid, "message", "a commit needs a message").WithHint("or set dry_run to see what would be committed")
	}
	defer k.doing(ctx, "reading the disk of "+in.Machine)()
	r := vm.CommitRequest{
		Path: vm.GuestPath(in.Path), Repo: in.Repo, Branch: in.Branch, Message: in.Message, Author: in.Author, DryRun: in.DryRun, Manifest: in.Manifest,
	}
	p, err := k.c.Commit(ctx, in.Machine, r)
	if err != nil {
		return out, err
	}
	out = commitOut{Commit: p.Commit, Branch: p.Branch, Repo: p.RepoName, Base: p.Base, Manifest: p.Manifest, Stat: statOf(p.Stat), Files: []string{}, More: p.More, Flags: p.Flags}
	n := min(len(p.Files), changesMost)
	out.More += len(p.Files) - n
	for _, f := range p.Files[:n] {
		out.Files = append(out.Files, fmt.Sprintf("%s %s (+%d -%d)", f.Verb, f.Path, f.Additions, f.Deletions))
	}
	for _, l := range p.LeftOut {
		out.LeftOut = append(out.LeftOut, l.String())
	}
	for _, f := range p.Secrets[:min(len(p.Secrets), changesMost)] {
		out.Secrets = append(out.Secrets, fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Kind))
	}
	return out, nil
}

func preview(ctx context.Context, k *call, in previewIn) (out previewOut, err error) {
	if in.Port < 1 || in.Port > 65535 {
		return out, vm.Errorf(vm.Invalid, "port", "%d is not a TCP port", in.Port)
	}
	port := uint16(in.Port)
	if in.Close {
		_, err = k.c.ClosePreview(ctx, in.Machine, port)
		return previewOut{Closed: err == nil}, err
	}
	p, err := k.c.SetPreview(ctx, in.Machine, port, in.Public)
	if err != nil || in.Public {
		return previewOut{URL: p.URL}, err
	}
	if in.Lasts <= 0 {
		in.Lasts = 3600
	}
	l, err := k.c.LinkPreview(ctx, in.Machine, port, time.Duration(in.Lasts)*time.Second)
	if err != nil {
		return out, err
	}
	return previewOut{URL: l.URL, ExpiresAt: l.ExpiresAt.Format(time.RFC3339)}, nil
}
