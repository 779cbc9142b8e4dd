// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"

	"github.com/warren-vm/warren/vm"
)

func terminalSpecFields(s *vm.TerminalSpec) []field {
	return []field{
		{"id", &s.ID}, {"command", &s.Command}, {"user", &s.User}, {"cwd", &s.Cwd}, {"env", &s.Env}, {"cols", &s.Cols}, {"rows", &s.Rows},
	}
}

// EncodeTerminalSpec renders a terminal to be opened for the wire.
func EncodeTerminalSpec(s vm.TerminalSpec) []byte { return encodeFields(terminalSpecFields(&s)) }

// DecodeTerminalSpec reads what EncodeTerminalSpec wrote.
func DecodeTerminalSpec(b []byte) (vm.TerminalSpec, error) { return decoded(b, terminalSpecFields) }

func terminalFields(t *vm.TerminalSession) []field {
	return []field{
		{"id", &t.ID},
		{"user", &t.User},
		{"command", &t.Command},
		{"pid", &t.PID},
		{"cols", &t.Cols},
		{"rows", &t.Rows},
		{"createdAt", &t.CreatedAt},
		{"attached", &t.Attached},
		{"exitCode", &t.ExitCode},
		{"exitedAt", &t.ExitedAt},
		{"title", &t.Title},
		{"lost", &t.Lost},
		{"start", &t.Start},
		{"end", &t.End},
	}
}

// EncodeTerminal renders a terminal for the wire.
func EncodeTerminal(t vm.TerminalSession) []byte { return encodeFields(terminalFields(&t)) }

// DecodeTerminal reads what EncodeTerminal wrote.
func DecodeTerminal(b []byte) (vm.TerminalSession, error) { return decoded(b, terminalFields) }

// EncodeTerminals renders a list of terminals for the wire.
func EncodeTerminals(list []vm.TerminalSession) []byte {
	f := fields{}
	for _, t := range list {
		f.put("terminal", string(EncodeTerminal(t)))
	}
	return f
}

// maxTerminals limits a list of terminals: running, recently ended and lost ones.
const maxTerminals = 8 * vm.MaxTerminals

// DecodeTerminals reads what EncodeTerminals wrote.
func DecodeTerminals(b []byte) ([]vm.TerminalSession, error) {
	var list []vm.TerminalSession
	err := each(b, func(name, value string) error {
		if name != "terminal" {
			return nil
		}
		if len(list) == maxTerminals {
			return errMany
		}
		t, err := DecodeTerminal([]byte(value))
		list = append(list, t)
		return err
	})
	return list, err
}

func contentFields(c *vm.TerminalContent) []field {
	return []field{{"redraw", &c.Redraw}, {"output", &c.Output}, {"since", &c.Since}, {"quiet", &c.Quiet}}
}

// EncodeContent renders what a terminal shows for the wire.
func EncodeContent(c vm.TerminalContent) []byte {
	f := fields(encodeFields(contentFields(&c)))
	f.put("terminal", string(EncodeTerminal(c.Session)))
	return f
}

// DecodeContent reads what EncodeContent wrote.
func DecodeContent(b []byte) (vm.TerminalContent, error) {
	var c vm.TerminalContent
	list := contentFields(&c)
	err := each(b, func(name, value string) (err error) {
		if name != "terminal" {
			return take(list, name, value)
		}
		c.Session, err = DecodeTerminal([]byte(value))
		return err
	})
	return c, err
}

func replayFields(r *vm.TerminalReplay) []field {
	return []field{{"redraw", &r.Redraw}, {"bytes", &r.Bytes}, {"offset", &r.Offset}}
}

// EncodeReplay renders the head of a replay for the wire.
func EncodeReplay(r vm.TerminalReplay) []byte { return encodeFields(replayFields(&r)) }

// DecodeReplay reads what EncodeReplay wrote.
func DecodeReplay(b []byte) (vm.TerminalReplay, error) { return decoded(b, replayFields) }

// EncodeSize renders a viewer's size for the wire.
func EncodeSize(cols, rows int) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(min(max(cols, 0), 1<<16-1)))
	return binary.BigEndian.AppendUint16(b, uint16(min(max(rows, 0), 1<<16-1)))
}

// DecodeSize reads what EncodeSize wrote.
func DecodeSize(b []byte) (cols, rows int, err error) {
	if len(b) != 4 {
		return 0, 0, errFields
	}
	return int(binary.BigEndian.Uint16(b)), int(binary.BigEndian.Uint16(b[2:])), nil
}
