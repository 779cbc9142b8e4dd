// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// TestKinds walks the table of failures both ways.
func TestKinds(t *testing.T) {
	seen := map[vm.Kind]bool{}
	for _, row := range Kinds {
		if seen[row.Kind] || row.Means == "" || row.Exit == 0 {
			t.Errorf("%s: doubled or not complete: %+v", row.Kind, row)
		}
		seen[row.Kind] = true
		if Codes[row.Code] == 0 || Codes[row.Code] != row.Status {
			t.Errorf("%s: the status %d is not that of %s (%d)", row.Kind, row.Status, row.Code, Codes[row.Code])
		}
		err := fmt.Errorf("outside: %w", vm.Errorf(row.Kind, "box", "why"))
		if Status(err) != row.Status || ExitCode(err) != row.Exit || CodeOf(err) != row.Code {
			t.Errorf("%s has status %d, exit code %d and code %s, want %d, %d and %s", row.Kind, Status(err), ExitCode(err), CodeOf(err), row.Status, row.Exit, row.Code)
		}
	}
	for _, k := range []vm.Kind{
		vm.Invalid, vm.Unauthenticated, vm.Denied, vm.NotFound, vm.Exists, vm.WrongState, vm.Busy, vm.Limit, vm.NoSpace,
		vm.Unsupported, vm.Unavailable, vm.Timeout, vm.GuestFault, vm.Corrupt, vm.Internal, vm.Cancelled,
	} {
		if !seen[k] {
			t.Errorf("%s has no row", k)
		}
	}
	if ExitCode(nil) != 0 || ExitCode(errors.New("bug")) != 1 {
		t.Error("exit statuses of nil and of a bug")
	}
}

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		err    error
		code   string
		status int
	}{
		{vm.Errorf(vm.WrongState, "x", "y").WithCode("VM_NOT_RUNNING"), "VM_NOT_RUNNING", 400},
		{vm.Errorf(vm.Timeout, "x", "y").WithCode("EXEC_TIMED_OUT"), "EXEC_TIMED_OUT", 408},
		// A code that no SDK knows goes out as that of its kind.
		{vm.Errorf(vm.NotFound, "x", "y").WithCode("PROCESS_NOT_FOUND"), "NOT_FOUND", 404},
		{vm.Errorf("no-such-kind", "x", "y"), "INTERNAL_ERROR", 500},
		{errors.New("bug"), "INTERNAL_ERROR", 500},
	} {
		if CodeOf(c.err) != c.code || Status(c.err) != c.status {
			t.Errorf("the error %v has code %s and status %d, want %s and %d", c.err, CodeOf(c.err), Status(c.err), c.code, c.status)
		}
	}
}

// TestErrorBodyGolden holds the exact form of an error on the wire.
func TestErrorBodyGolden(t *testing.T) {
	in := vm.Errorf(vm.NotFound, "box", "no such VM").WithCode("VM_NOT_FOUND", "vmId", "box", "message", "never this").WithHint("`warren ls` lists them")
	in.Op = vm.OpExec
	got, err := json.Marshal(EncodeError(in, "ri-1"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"code":"VM_NOT_FOUND","error":"VM_NOT_FOUND","hint":"` + "`warren ls`" + ` lists them","kind":"not-found",` +
		`"message":"exec: box: no such VM","op":"exec","requestId":"ri-1","subject":"box","vmId":"box"}`
	if string(got) != want {
		t.Errorf("the encoded error is %s\nwant %s", got, want)
	}
	plain, err := json.Marshal(EncodeError(errors.New("broken"), "ri-2"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(plain), `"code":"INTERNAL_ERROR"`) || !strings.Contains(string(plain), "ri-2") {
		t.Errorf("a bug: %s", plain)
	}
}

// TestErrorRoundTrip: both sides hold the same error.
func TestErrorRoundTrip(t *testing.T) {
	for _, row := range Kinds {
		in := vm.Errorf(row.Kind, "box", "why").WithHint("do this").WithCode("VM_NOT_FOUND", "vmId", "box", "n", 7.0)
		data, err := json.Marshal(EncodeError(in, "ri-1"))
		if err != nil {
			t.Fatal(err)
		}
		var body ErrorBody
		if err := json.Unmarshal(data, &body); err != nil {
			t.Fatal(err)
		}
		out := DecodeError(body)
		if !errors.Is(out, row.Kind) || out.Code != in.Code || out.Hint != in.Hint || !reflect.DeepEqual(out.Fields, in.Fields) {
			t.Errorf("%s became %+v", row.Kind, out)
		}
	}
	var foreign ErrorBody
	if err := json.Unmarshal([]byte(`{"message":"x"}`), &foreign); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(DecodeError(foreign), vm.Internal) {
		t.Error("a body without a kind is not internal")
	}
}

// TestSeconds: absent, null and a number are three things.
func TestSeconds(t *testing.T) {
	for text, want := range map[string]vm.Optional[vm.Seconds]{
		`{}`: {}, `{"idleTimeoutSeconds":null}`: vm.Null[vm.Seconds](), `{"idleTimeoutSeconds":0}`: {Set: true}, `{"idleTimeoutSeconds":77}`: vm.Some(vm.Seconds(77 * time.Second)),
	} {
		var in StartVM
		if err := json.Unmarshal([]byte(text), &in); err != nil || in.IdleTimeout != want {
			t.Errorf("%s is read as %+v (%v), want %+v", text, in.IdleTimeout, err, want)
		}
		back, err := json.Marshal(in)
		if err != nil || string(back) != text {
			t.Errorf("%s went back as %s, %v", text, back, err)
		}
	}
	if err := json.Unmarshal([]byte(`{"idleTimeoutSeconds":"5"}`), &StartVM{}); err == nil {
		t.Error("a string was taken for seconds")
	}
}
