// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// EncodeReset renders a reset for the wire.
func EncodeReset(r vm.Reset) []byte {
	var f fields
	f.num("time", r.Time.UnixNano())
	f.opt("entropy", string(r.Entropy))
	f.opt("hostname", r.Hostname)
	f.opt("machineId", r.MachineID)
	f.opt("bootId", r.BootID)
	f.opt("linkKey", string(r.LinkKey))
	for name, key := range r.HostKeys {
		f.put("hostKey."+name, key)
	}
	return f
}

// DecodeReset reads what EncodeReset wrote.
func DecodeReset(b []byte) (vm.Reset, error) {
	var r vm.Reset
	err := each(b, func(name, value string) error {
		switch name {
		case "time":
			var n int64
			if err := number(&n, value); err != nil {
				return err
			}
			r.Time = time.Unix(0, n)
		case "entropy":
			r.Entropy = []byte(value)
		case "hostname":
			r.Hostname = value
		case "machineId":
			r.MachineID = value
		case "bootId":
			r.BootID = value
		case "linkKey":
			r.LinkKey = []byte(value)
		default:
			if file, ok := strings.CutPrefix(name, "hostKey."); ok {
				if r.HostKeys == nil {
					r.HostKeys = make(map[string]string)
				}
				r.HostKeys[file] = value
			}
		}
		return nil
	})
	return r, err
}

// EncodeWake renders a hello and, if it is not nil, a report of resets.
func EncodeWake(h vm.AgentHello, report vm.ResetReport) []byte {
	var f fields
	f.num("protocol", int64(h.Protocol))
	f.opt("version", h.Version)
	f.opt("digest", h.Digest)
	for _, s := range h.Features {
		f.put("feature", s)
	}
	f.flag("booted", h.Booted)
	f.opt("bootId", h.BootID)
	f.opt("kernel", h.Kernel)
	f.flag("systemd", h.Systemd)
	for name, outcome := range report {
		f.put("reset."+name, outcome)
	}
	return f
}

// DecodeWake reads what EncodeWake wrote.
func DecodeWake(b []byte) (vm.AgentHello, vm.ResetReport, error) {
	var h vm.AgentHello
	report := vm.ResetReport{}
	err := each(b, func(name, value string) error {
		switch name {
		case "protocol":
			return number(&h.Protocol, value)
		case "version":
			h.Version = value
		case "digest":
			h.Digest = value
		case "feature":
			h.Features = append(h.Features, value)
		case "booted":
			h.Booted = true
		case "bootId":
			h.BootID = value
		case "kernel":
			h.Kernel = value
		case "systemd":
			h.Systemd = true
		default:
			if reset, ok := strings.CutPrefix(name, "reset."); ok {
				report[reset] = value
			}
		}
		return nil
	})
	return h, report, err
}

// EncodeFreeze renders the report of a freeze for the wire.
func EncodeFreeze(r vm.FreezeReport) []byte {
	var f fields
	f.num("groups", int64(r.Groups))
	f.num("waited", int64(r.Waited))
	for _, g := range r.Unfrozen {
		f.put("unfrozen", g)
	}
	return f
}

// DecodeFreeze reads what EncodeFreeze wrote.
func DecodeFreeze(b []byte) (vm.FreezeReport, error) {
	var r vm.FreezeReport
	err := each(b, func(name, value string) error {
		switch name {
		case "groups":
			return number(&r.Groups, value)
		case "waited":
			var n int64
			if err := number(&n, value); err != nil {
				return err
			}
			r.Waited = time.Duration(n)
		case "unfrozen":
			r.Unfrozen = append(r.Unfrozen, value)
		}
		return nil
	})
	return r, err
}

// EncodeExec renders a command for the wire.
func EncodeExec(s vm.ExecSpec) []byte {
	var f fields
	for _, a := range s.Argv {
		f.put("arg", a)
	}
	f.opt("command", s.Command)
	f.opt("user", s.User)
	f.opt("cwd", s.Cwd)
	for k, v := range s.Env {
		f.put("env", k+"="+v)
	}
	f.num("timeoutMs", s.TimeoutMs)
	f.flag("stdin", s.Stdin)
	f.flag("background", s.Background)
	return f
}

// DecodeExec reads what EncodeExec wrote.
func DecodeExec(b []byte) (vm.ExecSpec, error) {
	var s vm.ExecSpec
	err := each(b, func(name, value string) error {
		switch name {
		case "arg":
			s.Argv = append(s.Argv, value)
		case "command":
			s.Command = value
		case "user":
			s.User = value
		case "cwd":
			s.Cwd = value
		case "env":
			return variable(&s.Env, value)
		case "timeoutMs":
			return number(&s.TimeoutMs, value)
		case "stdin":
			s.Stdin = true
		case "background":
			s.Background = true
		}
		return nil
	})
	return s, err
}

// EncodeProcess renders a process for the wire.
func EncodeProcess(p vm.Process) []byte {
	var f fields
	f.put("id", p.ID)
	f.num("pid", int64(p.PID))
	for _, a := range p.Argv {
		f.put("arg", a)
	}
	f.opt("user", p.User)
	f.opt("cwd", p.Cwd)
	f.num("startedAt", p.StartedAt.UnixNano())
	f.flag("background", p.Background)
	return f
}

// DecodeProcess reads what EncodeProcess wrote.
func DecodeProcess(b []byte) (vm.Process, error) {
	var p vm.Process
	err := each(b, func(name, value string) error {
		switch name {
		case "id":
			p.ID = value
		case "pid":
			return number(&p.PID, value)
		case "arg":
			p.Argv = append(p.Argv, value)
		case "user":
			p.User = value
		case "cwd":
			p.Cwd = value
		case "startedAt":
			var n int64
			if err := number(&n, value); err != nil {
				return err
			}
			p.StartedAt = time.Unix(0, n).UTC()
		case "background":
			p.Background = true
		}
		return nil
	})
	return p, err
}

// EncodeExit renders how a command ended.
func EncodeExit(s vm.ExitStatus) []byte {
	var f fields
	f.num("code", int64(s.Code))
	f.opt("signal", s.Signal)
	f.flag("timedOut", s.TimedOut)
	return f
}

// DecodeExit reads what EncodeExit wrote.
func DecodeExit(b []byte) (vm.ExitStatus, error) {
	var s vm.ExitStatus
	err := each(b, func(name, value string) error {
		switch name {
		case "code":
			return number(&s.Code, value)
		case "signal":
			s.Signal = value
		case "timedOut":
			s.TimedOut = true
		}
		return nil
	})
	return s, err
}

// EncodeError renders an error for the wire.
func EncodeError(err error) []byte {
	b, _ := json.Marshal(vm.ToWire(err)) // cannot fail: fields without JSON are left out
	return b
}

// DecodeError reads what EncodeError wrote. Anything else gives an error of
// kind GuestFault.
func DecodeError(b []byte) error {
	var w vm.WireError
	if err := json.Unmarshal(b, &w); err != nil || w.Kind == "" {
		return &vm.Error{Kind: vm.GuestFault, Msg: "the guest's agent answered with something that is no error", Err: errors.Join(err)}
	}
	return w.Error()
}
