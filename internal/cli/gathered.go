// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// maxGathered limits the bytes kept of each stream of a command. The rest is
// dropped, and the result says so.
const maxGathered = 16 << 20

// gathered is the output of a command in a guest, which --json prints at the
// end with its status.
type gathered struct {
	stdout, stderr bounded
	timedOut       bool
	outputs        []broughtOutput // of a run
	inputs         []vm.Fetched
	published      []publishedOutput
	summary        *vm.ExecSummary // of an exec
}

// bounded keeps the first maxGathered bytes of what is written to it.
type bounded struct {
	bytes.Buffer
	cut bool
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := p[:min(len(p), maxGathered-b.Len())]
	b.cut = b.cut || len(keep) < len(p)
	_, _ = b.Buffer.Write(keep) // never fails
	return len(p), nil
}

// guestStreams are where the output of a command in a guest goes.
func (a *app) guestStreams() (stdout, stderr io.Writer) {
	if a.gather != nil {
		return &a.gather.stdout, &a.gather.stderr
	}
	return a.io.out, a.io.err
}

// ranCommand is how a command ended, as api.ExecResult has it.
type ranCommand struct {
	StatusCode int    `json:"statusCode"` // 124 = its time limit was reached
	TimedOut   bool   `json:"timedOut"`
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	// StdoutEncoding and StderrEncoding are "base64" where the output is not UTF-8.
	StdoutEncoding string `json:"stdoutEncoding,omitempty"`
	StderrEncoding string `json:"stderrEncoding,omitempty"`
	Truncated      bool   `json:"truncated"` // the command wrote more than is kept here
	// Outputs are the files that a run brought back for --output.
	Outputs []broughtOutput `json:"outputs,omitempty"`
	// Inputs are the objects that a run was given, and Published what it has published.
	Inputs    []vm.Fetched      `json:"inputs,omitempty"`
	Published []publishedOutput `json:"published,omitempty"`
	Summary   *vm.ExecSummary   `json:"summary,omitempty"` // for --summary
}

// printGathered prints a command's output and result. It returns err, the
// result.
func (a *app) printGathered(err error) error {
	g := a.gather
	if g == nil {
		return err
	}
	var status exitStatus
	if err != nil && !errors.As(err, &status) {
		return err // Warren failed, not the command
	}
	out := ranCommand{StatusCode: int(status), TimedOut: g.timedOut, Truncated: g.stdout.cut || g.stderr.cut, Outputs: g.outputs, Inputs: g.inputs, Published: g.published, Summary: g.summary}
	out.Stdout, out.StdoutEncoding = jsonText(g.stdout.Bytes())
	out.Stderr, out.StderrEncoding = jsonText(g.stderr.Bytes())
	return errors.Join(err, a.io.json(out))
}

// jsonText encodes output for JSON without loss.
func jsonText(b []byte) (text, encoding string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return base64.StdEncoding.EncodeToString(b), "base64"
}

// maxJSONLine limits a line of a log; a longer line is printed in parts.
const maxJSONLine = 64 << 10

// jsonLines prints each line that is written to it as a JSON object.
type jsonLines struct {
	io   *streams
	part []byte // of an incomplete line
}

func (j *jsonLines) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		take := rest[:min(len(rest), maxJSONLine-len(j.part))]
		end := bytes.IndexByte(take, '\n')
		if end >= 0 {
			take = take[:end+1]
		}
		j.part, rest = append(j.part, take...), rest[len(take):]
		if end >= 0 || len(j.part) == maxJSONLine {
			if err := j.Close(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// Close prints an incomplete last line.
func (j *jsonLines) Close() error {
	if len(j.part) == 0 {
		return nil
	}
	line := struct {
		Line     string `json:"line"`
		Encoding string `json:"encoding,omitempty"` // base64 where it is not UTF-8
	}{}
	line.Line, line.Encoding = jsonText(bytes.TrimSuffix(j.part, []byte("\n")))
	j.part = nil
	return j.io.line(line)
}
