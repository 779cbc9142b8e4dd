// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestObjectsJob: a job reads its inputs from object storage, publishes its report and is
// gone. The report stays: an S3 client reads it, and anybody with a signed link downloads
// it. Nothing else of the job is in a bucket.
//
// 001-28, 001-41, 001-45, 001-53, 002-04
func TestObjectsJob(t *testing.T) {
	h := withS3(t)
	h.ok("bucket", "create", "data")
	h.ok("bucket", "create", "reports")
	input := random(t, 1<<20)
	h.ok("artifact", "put", h.file("in.bin", input), "s3://data/in.bin")

	const job = `echo begun; echo warned >&2; mkdir out && sha256sum in.bin | cut -c-64 >out/report.txt && echo private >scratch && exit 3`
	r := h.run("run", "--cwd", "/work", "--input", "s3://data/in.bin", "--publish", "out=s3://reports/june", "--publish", "out/report.txt=s3://reports/june", "--", "sh", "-c", job)
	r.wants(t, 3, "published s3://reports/june/report.txt")
	if !strings.Contains(r.stdout, "begun\n") || !strings.Contains(r.stderr, "warned\n") {
		t.Errorf("the job's streams are %q and %q, want what it wrote to each", r.stdout, r.stderr)
	}
	if left := h.list(); len(left) > 0 {
		t.Errorf("after the job the VMs are %v, want none", left)
	}
	if keys := h.keys("reports"); !slices.Equal(keys, []string{"june/out.tar.zst", "june/report.txt"}) {
		t.Errorf("the job leaves the objects %q, want only what it was told to publish", keys)
	}
	report, about := h.object("reports", "june/report.txt", "")
	if got := strings.TrimSpace(string(report)); got != shaOf(input) {
		t.Errorf("the report says %q, want the digest of the input", got)
	}
	if m := about.Metadata; m["warren-sha256"] != shaOf(report) || m["warren-path"] != "/work/out/report.txt" || !strings.HasPrefix(m["warren-generation"], "sl-") || !strings.Contains(m["warren-command"], "sha256sum in.bin") {
		t.Errorf("the metadata is %v, want digest, path, generation and command", m)
	}
	tree, more := h.object("reports", "june/out.tar.zst", "")
	if f := untarred(t, tree)["out/report.txt"]; f == nil || f.Uname != string(report) {
		t.Errorf("the archive of the directory has %v, want the report", f)
	}
	if a, b := about.Metadata["warren-generation"], more.Metadata["warren-generation"]; a != b {
		t.Errorf("the two results are from the states %s and %s, want one", a, b)
	}
	link := strings.TrimSpace(h.ok("artifact", "sign", "s3://reports/june/report.txt", "-q"))
	resp, err := http.Get(link)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, resp.Body); !bytes.Equal(got, report) {
		t.Errorf("the link downloads %q, want the report", got)
	}
	audit := h.ok("audit", "ls", "--json")
	for _, want := range []string{`"publish"`, `"object-fetch"`, about.Metadata["warren-sha256"], shaOf(input)} {
		if !strings.Contains(audit, want) {
			t.Errorf("the audit records lack %s", want)
		}
	}

	made := decoded[struct {
		StatusCode int            `json:"statusCode"`
		Published  []vm.Published `json:"published"`
		Inputs     []vm.Fetched   `json:"inputs"`
	}](t, h.ok("run", "--json", "--input", "s3://data/in.bin:/in", "--publish", "/out", "--", "cp", "/in", "/out"))
	if len(made.Published) != 1 || len(made.Inputs) != 1 || made.Inputs[0].SHA256 != shaOf(input) {
		t.Fatalf("a job without a bucket answers %+v", made)
	}
	if o := made.Published[0].Object; o.SHA256 != shaOf(input) || !strings.HasPrefix(o.Bucket, "runs-") {
		t.Errorf("its result is %+v, want the input in the account's bucket for runs", o)
	} else if got, _ := h.object(o.Bucket, o.Key, o.Version); !bytes.Equal(got, input) {
		t.Error("the copy of the input has other bytes")
	}
	h.run("run", "--publish", "/none=s3://reports", "--", "true").wants(t, 125, "has left no such file")
	h.run("run", "--publish", "/out=s3://none", "--", "true").wants(t, 125, "no such bucket")
	h.run("run", "--input", "s3://data/none", "--", "true").wants(t, 125, "no such")
	if left := h.list(); len(left) > 0 {
		t.Errorf("after failed jobs the VMs are %v, want none", left)
	}
}

// TestObjectsShip: the logs of a VM, what it ran, its record and its audit records are
// stored when its job is done, and stay after the VM is removed.
//
// 001-21
func TestObjectsShip(t *testing.T) {
	h := withS3(t)
	h.ok("bucket", "create", "archive")
	h.ok("up", "--name", "box")
	id := strings.TrimSpace(h.ok("exec", "-d", "box", "--", "sh", "-c", "echo step one; echo trace of it >&2"))
	h.eventually("the command has written its log", func() bool { return strings.Contains(h.run("logs", "box", id).stdout, "trace of it") })
	h.sh("box", "echo on the console >/dev/console")
	job := decoded[vm.Job](t, h.run("done", "box", "--ship", "s3://archive/jobs", "--rm", "--logs-reviewed", "--rotated", "--label", "T-7", "--json").stdout)
	if len(h.list()) > 0 || !job.Complete {
		t.Errorf("done leaves %v, complete %v: %+v", h.list(), job.Complete, job.Steps)
	}
	if !slices.ContainsFunc(job.Steps, func(s vm.JobStep) bool { return s.Step == vm.StepShipped && s.State == vm.StepDone }) {
		t.Errorf("the steps are %+v, want that logs and record are stored", job.Steps)
	}
	texts := map[string]string{}
	for _, s := range job.Shipped {
		data, _ := h.object(s.Bucket, s.Key, s.Version)
		if shaOf(data) != s.SHA256 || int64(len(data)) != s.Size || !strings.HasPrefix(s.Key, "jobs/box-"+string(job.VM)+"/") {
			t.Errorf("%+v has %d bytes with the digest %s", s, len(data), shaOf(data))
		}
		texts[s.What] = string(data)
	}
	for what, want := range map[string]string{"logs/console.log": "on the console", "logs/" + id + ".log": "trace of it", "record.json": `"label": "T-7"`, "receipts.jsonl": `"op":"exec"`} {
		if !strings.Contains(texts[what], want) {
			t.Errorf("%s lacks %q:\n%s", what, want, texts[what])
		}
	}
}
