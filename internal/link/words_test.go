// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

func TestWords(t *testing.T) {
	now := time.Unix(1700000000, 123456789).UTC()
	reset := vm.Reset{
		Time: now, Entropy: []byte{0, 1, 255}, Hostname: "box", MachineID: "m", BootID: "b",
		LinkKey: keyA, HostKeys: map[string]string{"ssh_host_ed25519_key": "k\n", "x.pub": ""},
	}
	if got, err := DecodeReset(EncodeReset(reset)); err != nil || !reflect.DeepEqual(got, reset) {
		t.Errorf("reset: %+v, %v", got, err)
	}
	hello := vm.AgentHello{
		Protocol: 1, Version: "v", Digest: "d", Features: []string{"a", "b"},
		Booted: true, BootID: "i", Kernel: "6", Systemd: true,
	}
	report := vm.ResetReport{"clock": "ok", "rng": "no"}
	if h, r, err := DecodeWake(EncodeWake(hello, report)); err != nil || !reflect.DeepEqual(h, hello) || !reflect.DeepEqual(r, report) {
		t.Errorf("wake: %+v, %+v, %v", h, r, err)
	}
	for _, r := range []vm.FreezeReport{{}, {Groups: 7, Waited: 12 * time.Millisecond, Unfrozen: []string{"user.slice", ""}}} {
		if got, err := DecodeFreeze(EncodeFreeze(r)); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("freeze: %+v, %v", got, err)
		}
	}
	spec := vm.ExecSpec{
		Argv: []string{"a", "", "c d"}, Command: "x", User: "u", Cwd: "/", Env: map[string]string{"A": "=b=", "C": ""},
		Timeout: vm.Millis(1 << 40 * time.Millisecond), Stdin: true, Background: true,
	}
	if got, err := DecodeExec(EncodeExec(spec)); err != nil || !reflect.DeepEqual(got, spec) {
		t.Errorf("exec: %+v, %v", got, err)
	}
	p := vm.Process{ID: "p1", PID: 7, Argv: []string{"x"}, User: "root", Cwd: "/", StartedAt: now, Background: true}
	if got, err := DecodeProcess(EncodeProcess(p)); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("process: %+v, %v", got, err)
	}
	for _, s := range []vm.ExitStatus{{}, {Code: 255}, {Code: 137, Signal: "KILL", TimedOut: true}} {
		if got, err := DecodeExit(EncodeExit(s)); err != nil || got != s {
			t.Errorf("exit: %+v, %v", got, err)
		}
	}
	e := DecodeError(EncodeError(vm.Errorf(vm.NotFound, "/x", "no such file").WithCode("FILE_NOT_FOUND", "path", "/x")))
	var ve *vm.Error
	if !errors.As(e, &ve) || ve.Kind != vm.NotFound || ve.Code != "FILE_NOT_FOUND" || ve.Fields["path"] != "/x" {
		t.Errorf("error: %#v", e)
	}
	if e := DecodeError([]byte("<html>")); !errors.Is(e, vm.GuestFault) {
		t.Errorf("no error at all gave %v", e)
	}
}

func FuzzFields(f *testing.F) {
	f.Add(EncodeExec(vm.ExecSpec{Argv: []string{"true"}, Timeout: vm.Millis(5 * time.Millisecond), Env: map[string]string{"A": "b"}}))
	f.Add(EncodeExit(vm.ExitStatus{Code: 1}))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		if s, err := DecodeExec(in); err == nil {
			if again, err := DecodeExec(EncodeExec(s)); err != nil || !reflect.DeepEqual(again, s) {
				t.Fatalf("%+v became %+v, %v", s, again, err)
			}
		}
		_, _ = DecodeReset(in)
		_, _, _ = DecodeWake(in)
		_, _ = DecodeProcess(in)
		_, _ = DecodeFreeze(in)
		_, _ = DecodeExit(in)
	})
}
