// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"regexp"
	"time"
)

// MaxTerminals is how many terminals may run in one VM.
const MaxTerminals = 64

// The default terminal type and size.
const (
	TerminalCols = 80
	TerminalRows = 24
)

var terminalID = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`)

// CheckTerminalID refuses an invalid terminal id.
func CheckTerminalID(id string) error {
	if terminalID.MatchString(id) {
		return nil
	}
	return Errorf(Invalid, id, "not a session's id: 1 to 64 letters, digits, dot, underscore and hyphen").
		WithCode("INVALID_SESSION_ID", "sessionId", id)
}

// TerminalSpec is a terminal to be opened.
type TerminalSpec struct {
	ID      string            `json:"sessionId,omitempty"` // "" = the guest chooses: pty-1, pty-2, ...
	Command string            `json:"exec,omitempty"`      // "" = the user's login shell
	User    string            `json:"user,omitempty"`      // Linux user; "" = root
	Cwd     string            `json:"cwd,omitempty"`       // "" = the user's home
	Env     map[string]string `json:"env,omitempty"`
	Cols    int               `json:"cols"`
	Rows    int               `json:"rows"`
}

// TerminalView describes a viewer's attachment to a terminal.
type TerminalView struct {
	User string // that it was opened as; "" = root
	Cols int    // 0 = does not affect the size
	Rows int
	// Since is the offset of the first wanted output byte; negative = redraw
	// the screen. The screen is also redrawn if those bytes are no longer kept.
	Since int64
}

// TerminalSession is one terminal of a guest. It outlives its viewers.
type TerminalSession struct {
	ID        string     `json:"sessionId"`
	User      string     `json:"user"` // Linux user; "root" and not ""
	Command   string     `json:"exec,omitempty"`
	PID       int        `json:"pid"`
	Cols      int        `json:"cols"`
	Rows      int        `json:"rows"`
	CreatedAt time.Time  `json:"createdAt"`
	Attached  int        `json:"attachedCount"`
	ExitCode  *int       `json:"exitCode,omitempty"` // nil while it runs
	ExitedAt  *time.Time `json:"exitedAt,omitempty"`
	Title     string     `json:"title,omitempty"` // set by its program
	Start     int64      `json:"start"`           // offset of the oldest kept output byte
	End       int64      `json:"end"`             // offset after the newest

	// Suspended says that its VM is suspended, with its program.
	Suspended bool `json:"suspended,omitempty"`
	// Lost says that the guest's agent died, which hung up the terminal; its
	// exit status is unknown.
	Lost bool `json:"lost,omitempty"`
}

// Running reports whether its program has not ended.
func (t TerminalSession) Running() bool { return t.ExitCode == nil && !t.Lost }

// TerminalReplay describes the output bytes that follow it.
type TerminalReplay struct {
	Redraw bool  // they redraw the screen; else they repeat output
	Bytes  int   // how many
	Offset int64 // of the output byte that comes after them
}

// TerminalSend is input, and how long to wait for the result.
type TerminalSend struct {
	User  string
	Data  []byte
	Quiet time.Duration // return after no output for this time; 0 = do not wait
	Limit time.Duration // return after this time at the latest
}

// TerminalContent is a terminal's screen and some of its output.
type TerminalContent struct {
	Session TerminalSession
	Redraw  []byte // output that redraws the screen
	Output  []byte // from Since to Session.End
	Since   int64
	Quiet   bool // there was no output for the requested time
}
