// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/warren-vm/warren/vm"
)

func resetFields(r *vm.Reset) []field {
	return []field{
		{"time", &r.Time},
		{"entropy", &r.Entropy},
		{"hostname", &r.Hostname},
		{"machineId", &r.MachineID},
		{"bootId", &r.BootID},
		{"linkKey", &r.LinkKey},
		{"ca", &r.CA},
		{"ownCA", &r.OwnCA},
	}
}

// EncodeReset renders a reset for the wire.
func EncodeReset(r vm.Reset) []byte {
	f := fields(encodeFields(resetFields(&r)))
	for name, key := range r.HostKeys {
		f.put("hostKey."+name, key)
	}
	for _, s := range r.Secrets {
		f.put("secret."+s.Name, s.Env+"="+s.Placeholder)
	}
	return f
}

// DecodeReset reads what EncodeReset wrote.
func DecodeReset(b []byte) (vm.Reset, error) {
	var r vm.Reset
	list := resetFields(&r)
	err := each(b, func(name, value string) error {
		if secret, ok := strings.CutPrefix(name, "secret."); ok {
			env, placeholder, _ := strings.Cut(value, "=")
			r.Secrets = append(r.Secrets, vm.GuestSecret{Name: secret, Env: env, Placeholder: placeholder})
			return nil
		}
		file, ok := strings.CutPrefix(name, "hostKey.")
		if !ok {
			return take(list, name, value)
		}
		if r.HostKeys == nil {
			r.HostKeys = make(map[string]string)
		}
		r.HostKeys[file] = value
		return nil
	})
	return r, err
}

func helloFields(h *vm.AgentHello) []field {
	return []field{
		{"protocol", &h.Protocol},
		{"version", &h.Version},
		{"digest", &h.Digest},
		{"feature", &h.Features},
		{"booted", &h.Booted},
		{"bootId", &h.BootID},
		{"kernel", &h.Kernel},
		{"systemd", &h.Systemd},
	}
}

// EncodeWake renders a hello and, if it is not nil, a report of resets.
func EncodeWake(h vm.AgentHello, report vm.ResetReport) []byte {
	f := fields(encodeFields(helloFields(&h)))
	for name, outcome := range report {
		f.put("reset."+name, outcome)
	}
	return f
}

// DecodeWake reads what EncodeWake wrote.
func DecodeWake(b []byte) (vm.AgentHello, vm.ResetReport, error) {
	var h vm.AgentHello
	report := vm.ResetReport{}
	list := helloFields(&h)
	err := each(b, func(name, value string) error {
		reset, ok := strings.CutPrefix(name, "reset.")
		if !ok {
			return take(list, name, value)
		}
		report[reset] = value
		return nil
	})
	return h, report, err
}

func freezeFields(r *vm.FreezeReport) []field {
	return []field{{"groups", &r.Groups}, {"waited", &r.Waited}, {"unfrozen", &r.Unfrozen}}
}

// EncodeFreeze renders the report of a freeze for the wire.
func EncodeFreeze(r vm.FreezeReport) []byte { return encodeFields(freezeFields(&r)) }

// DecodeFreeze reads what EncodeFreeze wrote.
func DecodeFreeze(b []byte) (vm.FreezeReport, error) { return decoded(b, freezeFields) }

func execFields(s *vm.ExecSpec) []field {
	return []field{
		{"arg", &s.Argv},
		{"command", &s.Command},
		{"user", &s.User},
		{"cwd", &s.Cwd},
		{"env", &s.Env},
		{"timeoutMs", &s.Timeout},
		{"stdin", &s.Stdin},
		{"background", &s.Background},
	}
}

// EncodeExec renders a command for the wire.
func EncodeExec(s vm.ExecSpec) []byte { return encodeFields(execFields(&s)) }

// DecodeExec reads what EncodeExec wrote.
func DecodeExec(b []byte) (vm.ExecSpec, error) { return decoded(b, execFields) }

func processFields(p *vm.Process) []field {
	return []field{
		{"id", &p.ID},
		{"pid", &p.PID},
		{"arg", &p.Argv},
		{"user", &p.User},
		{"cwd", &p.Cwd},
		{"startedAt", &p.StartedAt},
		{"background", &p.Background},
	}
}

// EncodeProcess renders a process for the wire.
func EncodeProcess(p vm.Process) []byte { return encodeFields(processFields(&p)) }

// DecodeProcess reads what EncodeProcess wrote.
func DecodeProcess(b []byte) (vm.Process, error) { return decoded(b, processFields) }

func exitFields(s *vm.ExitStatus) []field {
	return []field{{"code", &s.Code}, {"signal", &s.Signal}, {"timedOut", &s.TimedOut}}
}

// EncodeExit renders how a command ended.
func EncodeExit(s vm.ExitStatus) []byte { return encodeFields(exitFields(&s)) }

// DecodeExit reads what EncodeExit wrote.
func DecodeExit(b []byte) (vm.ExitStatus, error) { return decoded(b, exitFields) }

func userFields(u *vm.LinuxUser) []field {
	return []field{{"name", &u.Name}, {"uid", &u.UID}, {"gid", &u.GID}, {"home", &u.Home}, {"shell", &u.Shell}}
}

// EncodeUser renders a Linux user for the wire.
func EncodeUser(u vm.LinuxUser) []byte { return encodeFields(userFields(&u)) }

// DecodeUser reads what EncodeUser wrote.
func DecodeUser(b []byte) (vm.LinuxUser, error) { return decoded(b, userFields) }

// EncodeError renders an error for the wire.
func EncodeError(err error) []byte {
	b, _ := json.Marshal(vm.ToWire(err)) // cannot fail: fields without JSON are left out
	return b
}

// DecodeError decodes what EncodeError wrote. Anything else gives an error of kind GuestFault.
func DecodeError(b []byte) error {
	var w vm.WireError
	if err := json.Unmarshal(b, &w); err != nil || w.Kind == "" {
		return &vm.Error{Kind: vm.GuestFault, Msg: "the guest's agent sent an invalid error", Err: errors.Join(err)}
	}
	return w.Error()
}
