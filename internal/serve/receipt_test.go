// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/evidence"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/receipt"
	"github.com/warren-vm/warren/vm"
)

// TestReceipt: the receipt of a VM has its records and no others; it is checked without
// the server, by Warren and by a program that was written from the docs; both find a
// flipped bit. 003-34, 003-44
func TestReceipt(t *testing.T) {
	log, err := audit.Open(t.Context(), t.TempDir(), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	j := journal.New(journal.Config{Audit: auditor{log: log}})
	box := vm.VM{ID: vm.NewID(), Account: "acc-1", Name: "böx", Network: vm.NetworkPolicy{Mode: vm.NetOpen}}
	j.Know(journal.Facts{
		VM:    func(id vm.ID) (vm.VM, bool) { return box, id == box.ID },
		Right: func(vm.Actor, vm.ID) string { return "" },
	})
	e := evidence.New(evidence.Config{
		Journal: j, VM: func(vm.ID) (vm.VM, bool) { return vm.VM{}, false }, Now: time.Now, Version: "test",
		Locked: func(vm.VolumeID) (string, bool, bool) { return "data", true, true },
	})
	call := func() *vm.Call {
		return &vm.Call{Actor: vm.Actor{Account: "acc-1", Key: "key-1"}, Request: vm.NewRequestID()}
	}
	do := func(id vm.ID, op vm.Op, subject string, detail, result map[string]any) {
		t.Helper()
		end, err := j.Record(t.Context(), call(), vm.AuditEntry{Op: op, VM: id, Subject: subject, Detail: detail})
		if err != nil {
			t.Fatal(err)
		}
		end(nil, result)
	}
	do(box.ID, vm.OpNetwork, "", map[string]any{"policy": box.Network, "policyDigest": box.Network.Digest()}, nil)
	do(vm.NewID(), vm.OpExec, "another VM's", nil, nil)
	do(box.ID, vm.OpMount, "data", map[string]any{"volume": "vol-1"}, nil)
	do(box.ID, vm.OpExec, "echo \"ü\"\t\x01 >/x </y &", nil, map[string]any{"exitCode": 0})
	do(box.ID, vm.OpRead, "/out", map[string]any{"to": "laptop:/out"}, map[string]any{"sha256": "abcd"})
	batch := vm.ConnectionBatch{First: 1, List: []vm.Connection{{Time: time.Now(), Proto: "tcp", Dest: "192.0.2.1:443", Allowed: true, Secrets: []string{"TOKEN"}}, {Proto: "dns", Dest: "evil.example"}}}
	if err := e.Connections(t.Context(), &vm.Call{Actor: vm.Actor{Account: "acc-1", VM: box.ID}}, box, batch); err != nil {
		t.Fatal(err)
	}
	r, err := e.Receipt(t.Context(), call(), box.ID)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Summary
	if len(s.Out) != 1 || s.Out[0].To != "laptop:/out" || s.Out[0].SHA256 != "abcd" || s.Connected != 1 || s.Refused != 1 ||
		len(s.Secrets) != 1 || s.Secrets[0] != "TOKEN" || s.Locked["data"] != "locked" || s.Policies[box.Network.Digest()] == nil {
		t.Errorf("the summary is %+v, want one copy, one connection, one refusal, one secret, a locked volume and the policy", s)
	}
	if want := 4*2 + 2; len(r.Lines) != want {
		t.Errorf("the receipt has %d lines, want %d", len(r.Lines), want)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := receipt.Verify(data, r.Key); err != nil || !c.Trusted {
		t.Errorf("the receipt verifies as %+v (%v), want trusted", c, err)
	}
	other := "00" + r.Key[2:]
	if _, err := receipt.Verify(data, other); vm.AsError(err).Code != "RECEIPT_KEY" || vm.AsError(err).Hint == "" {
		t.Errorf("with another key, the receipt verifies with %v, want RECEIPT_KEY and a hint", err)
	}
	for i := 0; i < len(data); i += 7 { // each seventh byte, because a check takes milliseconds
		data[i] ^= 1
		if _, err := receipt.Verify(data, r.Key); err == nil {
			t.Errorf("the bit %d was flipped, and the receipt verifies", i)
		}
		data[i] ^= 1
	}
	second(t, data, r.Key)
	if _, err := e.Receipt(t.Context(), &vm.Call{Actor: vm.Actor{Account: "acc-2"}}, box.ID); vm.KindOf(err) != vm.NotFound {
		t.Errorf("another account asks for the receipt and gets %v, want not found", err)
	}
	if _, err := e.Receipt(t.Context(), call(), vm.NewID()); vm.KindOf(err) != vm.NotFound {
		t.Errorf("the receipt of a VM without records gives %v, want not found", err)
	}
	// What others do to the VM is its account's to know, and left out with a word when
	// nobody knows any more whose it was.
	admin := &vm.Call{Actor: vm.Actor{Account: "acc-0", Admin: true, Key: "key-0"}}
	end, err := j.Record(t.Context(), admin, vm.AuditEntry{Op: vm.OpExec, VM: box.ID, Subject: "by an admin"})
	if err != nil {
		t.Fatal(err)
	}
	end(nil, nil)
	whole, err := e.Receipt(t.Context(), call(), box.ID)
	if err != nil || len(whole.Lines) != len(r.Lines)+2 || whole.Summary.Partial {
		t.Errorf("the owner's receipt has %d lines, partial %v (%v), want %d with those of the admin", len(whole.Lines), whole.Summary.Partial, err, len(r.Lines)+2)
	}
	removed := box.ID
	box.ID = vm.NewID()
	part, err := e.Receipt(t.Context(), call(), removed)
	if err != nil || len(part.Lines) != len(r.Lines) || !part.Summary.Partial {
		t.Errorf("the receipt of the removed VM has %d lines, partial %v (%v), want %d and that it is partial", len(part.Lines), part.Summary.Partial, err, len(r.Lines))
	}
	if data, err = json.Marshal(part); err != nil {
		t.Fatal(err)
	}
	if c, err := receipt.Verify(data, part.Key); err != nil || !c.Summary.Partial {
		t.Errorf("the partial receipt verifies as %+v (%v), want partial", c, err)
	}
	second(t, data, part.Key)
	if all, err := e.Receipt(t.Context(), admin, removed); err != nil || all.Summary.Partial || len(all.Lines) != len(r.Lines)+2 {
		t.Errorf("the admin's receipt has %d lines, partial %v (%v), want all", len(all.Lines), all.Summary.Partial, err)
	}
}

// second checks a receipt with the program that was written from docs/receipts.md.
func second(t *testing.T, data []byte, key string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("there is no python3: the second verifier does not run")
		return
	}
	name := filepath.Join(t.TempDir(), "receipt.json")
	run := func(data []byte) ([]byte, error) {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.CommandContext(t.Context(), python, "../../test/receipt/verify.py", name, key).CombinedOutput()
	}
	if out, err := run(data); err != nil {
		t.Errorf("the second verifier says %s (%v), want that it is sound", out, err)
	}
	for i := 30; i < len(data); i += len(data) / 8 {
		changed := append([]byte(nil), data...)
		changed[i] ^= 1
		if out, err := run(changed); err == nil {
			t.Errorf("the bit %d was flipped, and the second verifier says %s", i, out)
		}
	}
}
