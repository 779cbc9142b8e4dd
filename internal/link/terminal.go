// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/warren-vm/warren/vm"
)

// EncodeTerminalSpec renders a terminal to be opened for the wire.
func EncodeTerminalSpec(s vm.TerminalSpec) []byte {
	var f fields
	f.opt("id", s.ID)
	f.opt("command", s.Command)
	f.opt("user", s.User)
	f.opt("cwd", s.Cwd)
	for k, v := range s.Env {
		f.put("env", k+"="+v)
	}
	f.num("cols", int64(s.Cols))
	f.num("rows", int64(s.Rows))
	return f
}

// DecodeTerminalSpec reads what EncodeTerminalSpec wrote.
func DecodeTerminalSpec(b []byte) (vm.TerminalSpec, error) {
	var s vm.TerminalSpec
	err := each(b, func(name, value string) error {
		switch name {
		case "id":
			s.ID = value
		case "command":
			s.Command = value
		case "user":
			s.User = value
		case "cwd":
			s.Cwd = value
		case "env":
			return variable(&s.Env, value)
		case "cols":
			return number(&s.Cols, value)
		case "rows":
			return number(&s.Rows, value)
		}
		return nil
	})
	return s, err
}

// EncodeTerminal renders a terminal for the wire.
func EncodeTerminal(t vm.TerminalSession) []byte {
	var f fields
	f.put("id", t.ID)
	f.opt("user", t.User)
	f.opt("command", t.Command)
	f.num("pid", int64(t.PID))
	f.num("cols", int64(t.Cols))
	f.num("rows", int64(t.Rows))
	f.num("createdAt", t.CreatedAt.UnixNano())
	f.num("attached", int64(t.Attached))
	if t.ExitCode != nil {
		f.put("exitCode", strconv.Itoa(*t.ExitCode))
	}
	if t.ExitedAt != nil {
		f.num("exitedAt", t.ExitedAt.UnixNano())
	}
	f.opt("title", t.Title)
	f.flag("lost", t.Lost)
	f.num("start", t.Start)
	f.num("end", t.End)
	return f
}

// DecodeTerminal reads what EncodeTerminal wrote.
func DecodeTerminal(b []byte) (vm.TerminalSession, error) {
	var t vm.TerminalSession
	when := func(to *time.Time, value string) error {
		var n int64
		err := number(&n, value)
		*to = time.Unix(0, n).UTC()
		return err
	}
	err := each(b, func(name, value string) error {
		switch name {
		case "id":
			t.ID = value
		case "user":
			t.User = value
		case "command":
			t.Command = value
		case "pid":
			return number(&t.PID, value)
		case "cols":
			return number(&t.Cols, value)
		case "rows":
			return number(&t.Rows, value)
		case "createdAt":
			return when(&t.CreatedAt, value)
		case "attached":
			return number(&t.Attached, value)
		case "exitCode":
			t.ExitCode = new(int)
			return number(t.ExitCode, value)
		case "exitedAt":
			t.ExitedAt = new(time.Time)
			return when(t.ExitedAt, value)
		case "title":
			t.Title = value
		case "lost":
			t.Lost = true
		case "start":
			return number(&t.Start, value)
		case "end":
			return number(&t.End, value)
		}
		return nil
	})
	return t, err
}

// EncodeTerminals renders a list of terminals for the wire.
func EncodeTerminals(list []vm.TerminalSession) []byte {
	f := fields{}
	for _, t := range list {
		f.put("terminal", string(EncodeTerminal(t)))
	}
	return f
}

// maxTerminals bounds a list of terminals: those that run, that ended lately, and
// that were lost.
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

// EncodeContent renders what a terminal shows for the wire.
func EncodeContent(c vm.TerminalContent) []byte {
	var f fields
	f.put("terminal", string(EncodeTerminal(c.Session)))
	f.opt("redraw", string(c.Redraw))
	f.opt("output", string(c.Output))
	f.num("since", c.Since)
	f.flag("quiet", c.Quiet)
	return f
}

// DecodeContent reads what EncodeContent wrote.
func DecodeContent(b []byte) (vm.TerminalContent, error) {
	var c vm.TerminalContent
	err := each(b, func(name, value string) (err error) {
		switch name {
		case "terminal":
			c.Session, err = DecodeTerminal([]byte(value))
		case "redraw":
			c.Redraw = []byte(value)
		case "output":
			c.Output = []byte(value)
		case "since":
			err = number(&c.Since, value)
		case "quiet":
			c.Quiet = true
		}
		return err
	})
	return c, err
}

// EncodeReplay renders the head of a replay for the wire.
func EncodeReplay(r vm.TerminalReplay) []byte {
	var f fields
	f.flag("redraw", r.Redraw)
	f.num("bytes", int64(r.Bytes))
	f.num("offset", r.Offset)
	return f
}

// DecodeReplay reads what EncodeReplay wrote.
func DecodeReplay(b []byte) (vm.TerminalReplay, error) {
	var r vm.TerminalReplay
	err := each(b, func(name, value string) error {
		switch name {
		case "redraw":
			r.Redraw = true
		case "bytes":
			return number(&r.Bytes, value)
		case "offset":
			return number(&r.Offset, value)
		}
		return nil
	})
	return r, err
}

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
