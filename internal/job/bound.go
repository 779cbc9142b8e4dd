// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// Bounds of the record of a job.
const (
	maxBytes = 48 << 10
	maxList  = 100  // of folders, volumes, snapshots, forks and copies each
	maxNames = 8    // times as many receipts, and snapshots that are kept
	maxText  = 256  // bytes of a path
	maxWhy   = 1000 // bytes of a reason
)

// bound shortens the lists of a job's record until the record is no larger than
// maxBytes, and notes in it how many entries of which list were left out.
func bound(job vm.Job) vm.Job {
	for n := maxList; ; n /= 2 {
		out := shorten(job, n)
		if data, err := json.Marshal(out); err != nil || len(data) <= maxBytes || n == 0 {
			return out
		}
	}
}

func shorten(job vm.Job, n int) vm.Job {
	left, omitted := &job.Remains, maps.Clone(job.Remains.Omitted)
	if omitted == nil {
		omitted = map[string]int{}
	}
	left.Folders = firstOf(left.Folders, n, omitted, "folders")
	for i := range left.Folders {
		left.Folders[i].Host, left.Folders[i].Path = vm.Clip(left.Folders[i].Host, maxText), vm.Clip(left.Folders[i].Path, maxText)
	}
	left.Volumes = firstOf(left.Volumes, n, omitted, "volumes")
	for i := range left.Volumes {
		left.Volumes[i].Path = vm.Clip(left.Volumes[i].Path, maxText)
		left.Volumes[i].UsedBy = firstOf(left.Volumes[i].UsedBy, n, omitted, "usedBy")
	}
	left.Snapshots = firstOf(left.Snapshots, n, omitted, "snapshots")
	left.Forks = firstOf(left.Forks, n, omitted, "forks")
	left.Copies = firstOf(left.Copies, n, omitted, "copies")
	for i := range left.Copies {
		left.Copies[i].Path, left.Copies[i].To = vm.Clip(left.Copies[i].Path, maxText), vm.Clip(left.Copies[i].To, maxText)
	}
	left.Artifacts = firstOf(left.Artifacts, n, omitted, "artifacts")
	for i := range left.Artifacts {
		left.Artifacts[i].Key, left.Artifacts[i].Path = vm.Clip(left.Artifacts[i].Key, maxText), vm.Clip(left.Artifacts[i].Path, maxText)
	}
	left.Credentials = firstOf(left.Credentials, n, omitted, "credentials")
	left.Receipts = firstOf(left.Receipts, n*maxNames, omitted, "receipts")
	job.KeptSnapshots = firstOf(job.KeptSnapshots, n*maxNames, omitted, "keptSnapshots")
	job.Shipped = firstOf(job.Shipped, n, omitted, "shipped")
	job.Steps = slices.Clone(job.Steps)
	for i := range job.Steps {
		job.Steps[i].Why = vm.Clip(job.Steps[i].Why, maxWhy)
	}
	if left.Omitted = omitted; len(omitted) == 0 {
		left.Omitted = nil
	}
	return job
}

// firstOf returns a copy of the first n of a list, and adds up under a name how
// many it leaves out.
func firstOf[T any](list []T, n int, omitted map[string]int, name string) []T {
	n = min(n, len(list))
	if more := len(list) - n; more > 0 {
		omitted[name] += more
	}
	return append(list[:0:0], list[:n]...)
}
