// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestTransitions compares all pairs of state and verb with a second table, written by hand.
func TestTransitions(t *testing.T) {
	want := map[Op]string{ // per state, in the order of States: after, "." = refused, "x" = gone
		OpStart:    ". . running . running running .",
		OpStop:     ". . stopped . stopped . .",
		OpKill:     ". stopped stopped . stopped stopped .",
		OpSuspend:  ". . suspended . suspended . .",
		OpFork:     ". . running . suspended . .",
		OpSnapshot: ". . running . suspended stopped .",
		OpNetwork:  ". . running . suspended stopped .",
		OpPaths:    ". . running . suspended stopped .",
		OpOnBoot:   ". . running . suspended stopped .",
		OpRollback: ". . running . running running .",
		OpResize:   ". . running . . stopped .",
		OpKeep:     ". . running . suspended stopped .",
		OpCapture:  ". . running . suspended stopped .",
		OpTurn:     ". . running . suspended stopped .",
		OpDiff:     ". . running . suspended stopped .",
		OpBundle:   ". . running . suspended stopped .",
		OpRecover:  "running suspended running running suspended stopped .",
		OpMount:    ". . running . . . .",
		OpUnmount:  ". . running . . . .",
		OpVMRename: ". . running . suspended stopped lost",
		OpLabel:    ". . running . suspended stopped lost",
		OpAmend:    ". . running . suspended stopped lost",
		OpDelete:   "x x x x x x x",
	}
	for _, op := range guestOps {
		want[op] = ". . running . . . ."
	}
	for _, op := range StateOps() {
		cells := strings.Fields(want[op])
		if len(cells) != len(States) {
			t.Fatalf("no row for %s", op)
		}
		for i, s := range States {
			n, err := s.Allow(op)
			switch cells[i] {
			case ".":
				if !errors.Is(err, WrongState) {
					t.Errorf("%s of a %s VM: %v, %v", op, s, n, err)
				}
				if e := AsError(err); e.Op != op || !strings.Contains(e.Error(), string(s)) {
					t.Errorf("%s of a %s VM: message %q", op, s, e)
				}
			case "x":
				if err != nil || n.After != "" {
					t.Errorf("%s of a %s VM: %v, %v", op, s, n, err)
				}
			default:
				if err != nil || string(n.After) != cells[i] {
					t.Errorf("%s of a %s VM: %v, %v", op, s, n, err)
				}
			}
		}
	}
}

func TestIDs(t *testing.T) {
	seen := map[ID]bool{}
	for range 1000 {
		id := NewID()
		if _, err := ParseID(string(id)); err != nil || seen[id] {
			t.Fatalf("%s: %v, seen %v", id, err, seen[id])
		}
		seen[id] = true
	}
	for _, bad := range []string{"", "abc", strings.Repeat("a", 21), "ABCDEFGHIJKLMNOPQRST", "abcdefghij012345678/", "abcdefghij0123456789\n"} {
		if _, err := ParseID(bad); !errors.Is(err, Invalid) {
			t.Errorf("%q gave %v", bad, err)
		}
	}
	if u := NewUUID(); len(u) != 36 || u[14] != '4' || !strings.ContainsRune("89ab", rune(u[19])) {
		t.Errorf("UUID %s", u)
	}
}

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "box", "build-7", "a" + strings.Repeat("0", 40)} {
		if err := CheckName(good); err != nil {
			t.Errorf("the name %q is refused: %v", good, err)
		}
	}
	for _, bad := range []string{"", "7up", "-a", "Box", "a_b", "a.b", "a/b", "../a", "a\x1b[31m", "a" + strings.Repeat("0", 41)} {
		if err := CheckName(bad); !errors.Is(err, Invalid) {
			t.Errorf("%q gave %v", bad, err)
		}
	}
}

func TestErrorKinds(t *testing.T) {
	cause := fmt.Errorf("reading: %w", io.ErrUnexpectedEOF)
	err := fmt.Errorf("outer: %w", Errorf(Corrupt, "ram", "cut short: %w", cause).WithHint("rebuild it").WithCode("X", "size", 7))
	if !errors.Is(err, Corrupt) || errors.Is(err, Busy) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("kind or cause is lost")
	}
	e := AsError(err)
	if e.Error() != "ram: cut short: reading: unexpected EOF" || e.Hint != "rebuild it" || e.Fields["size"] != 7 {
		t.Errorf("the error is %q with hint %q and fields %v, want its cause, hint and size", e, e.Hint, e.Fields)
	}
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{nil, ""}, {io.EOF, Internal}, {context.Canceled, Cancelled}, {context.DeadlineExceeded, Timeout}, {Busy, Busy}, {err, Corrupt},
	} {
		if got := KindOf(c.err); got != c.want {
			t.Errorf("KindOf(%v) = %s, want %s", c.err, got, c.want)
		}
	}
}

func TestParseNetworkMode(t *testing.T) {
	for _, m := range []NetworkMode{NetClosed, NetPackages, NetOpen} {
		if got, err := ParseNetworkMode(string(m)); err != nil || got != m {
			t.Errorf("the mode %s is read as %v (%v)", m, got, err)
		}
	}
	if _, err := ParseNetworkMode("all"); !errors.Is(err, Invalid) {
		t.Errorf("all gave %v", err)
	}
}

// A machine record of a newer Warren is refused.
func TestMachineFormat(t *testing.T) {
	for format, want := range map[int]Kind{0: "", MachineFormat: "", MachineFormat + 1: Unsupported} {
		err := MachineSpec{Format: format, ID: "x"}.CheckFormat()
		if want == "" && err != nil || want != "" && (KindOf(err) != want || AsError(err).Hint == "") {
			t.Errorf("format %d: %v", format, err)
		}
	}
}
