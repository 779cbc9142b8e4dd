// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"regexp"
	"time"
)

// MaxTerminals is how many terminals may run in one VM.
const MaxTerminals = 64

// The terminal that programs see when nobody says otherwise.
const (
	TerminalCols = 80
	TerminalRows = 24
)

var terminalID = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`)

// CheckTerminalID refuses what cannot be a terminal's id.
func CheckTerminalID(id string) error {
	if terminalID.MatchString(id) {
		return nil
	}
	return Errorf(Invalid, id, "not a session's id: 1 to 64 of letters, digits, dot, underscore and hyphen").
		WithCode("INVALID_SESSION_ID", "sessionId", id)
}

// TerminalSpec is a terminal to be opened.
type TerminalSpec struct {
	ID      string            `json:"sessionId,omitempty"` // "" = the guest gives one: pty-1, pty-2, ...
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
	Cols int    // 0 = takes no part in the size
	Rows int
	// Since is the offset of the first output byte wanted; negative = draw the
	// screen. So it is, too, when those bytes are no longer kept.
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
	Title     string     `json:"title,omitempty"` // that its program has set
	Start     int64      `json:"start"`           // offset of the oldest output byte kept
	End       int64      `json:"end"`             // offset after the newest

	// Suspended says that its VM sleeps, and its program with it.
	Suspended bool `json:"suspended,omitempty"`
	// Lost says that the guest's agent died, and the terminal with it: it was
	// hung up, and how its program ended is not known.
	Lost bool `json:"lost,omitempty"`
}

// Running reports whether its program has not ended.
func (t TerminalSession) Running() bool { return t.ExitCode == nil && !t.Lost }

// TerminalReplay says what the output bytes that follow it are.
type TerminalReplay struct {
	Redraw bool  // they draw the screen; else they are output
	Bytes  int   // so many
	Offset int64 // of the output byte that comes after them
}

// TerminalSend is input, and how long to wait for the result.
type TerminalSend struct {
	User  string
	Data  []byte
	Quiet time.Duration // return when nothing has come for so long; 0 = do not wait
	Limit time.Duration // return after so long at the latest
}

// TerminalContent is a terminal's screen, and some of its output.
type TerminalContent struct {
	Session TerminalSession
	Redraw  []byte // output that draws the screen
	Output  []byte // from Since to Session.End
	Since   int64
	Quiet   bool // there was no output for the requested time
}
