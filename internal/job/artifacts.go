// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// maxArtifacts is how many records of written objects are looked at, the newest.
const maxArtifacts = 1000

// artifacts lists the objects that come from a VM, by its audit records, newest first: the
// versions that are still stored and that the caller may read. more counts the records
// that were not looked at.
func (j *Job) artifacts(ctx context.Context, c *vm.Call, records []vm.AuditRecord) (list []vm.Artifact, more int, err error) {
	list = []vm.Artifact{}
	seen := 0
	for _, r := range records {
		if r.Op != vm.OpObjectPut || r.Outcome != "ok" || j.cfg.Object == nil {
			continue
		}
		if seen++; seen > maxArtifacts {
			more++
			continue
		}
		ref := writtenAs(r)
		o, err := j.cfg.Object(ctx, c, ref)
		switch kind := vm.KindOf(err); {
		case kind == vm.NotFound || kind == vm.Denied: // it was removed, or a scan refused it
			continue
		case err != nil:
			return nil, 0, err
		}
		path, _ := r.Detail["path"].(string)
		list = append(list, vm.Artifact{ObjectRef: ref, Size: o.Size, SHA256: o.SHA256, Path: path, At: r.Time, Receipt: r.ID})
	}
	return list, more, nil
}

// writtenAs is the version that a record is about.
func writtenAs(r vm.AuditRecord) (ref vm.ObjectRef) {
	ref.Bucket, ref.Key, _ = strings.Cut(strings.TrimPrefix(r.Subject, "s3://"), "/")
	if key, ok := r.Detail["key"].(string); ok {
		ref.Key = key
	}
	ref.Version, _ = r.Detail["version"].(string)
	return ref
}

// copied is what a record says was copied out of a VM, or nil.
func copied(r vm.AuditRecord) *vm.Copy {
	text := func(name string) string {
		s, _ := r.Detail[name].(string)
		return s
	}
	if r.Outcome != "ok" {
		return nil
	}
	out := &vm.Copy{Time: r.Time, Path: r.Subject, To: text("to"), SHA256: digestOf(r), Receipt: r.ID}
	switch r.Op {
	case vm.OpRead:
	case vm.OpPublish:
		out.To += "@" + text("version")
	case vm.OpCommit:
		out.To = "repository " + text("repo") + " at commit " + text("commit")
	case vm.OpBundle:
		out.To = "a bundle"
	default:
		return nil
	}
	return out
}
