// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qmp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// maxMessage bounds one line from QEMU; query-qmp-schema, the longest answer,
// has some 200 KiB.
const maxMessage = 4 << 20

type request struct {
	Execute   string `json:"execute"`
	Arguments any    `json:"arguments,omitempty"`
	ID        string `json:"id"`
}

// message is any line that QEMU sends: the greeting, an answer, or an event.
type message struct {
	Greeting *struct {
		Version struct {
			QEMU struct {
				Major int `json:"major"`
				Minor int `json:"minor"`
				Micro int `json:"micro"`
			} `json:"qemu"`
		} `json:"version"`
	} `json:"QMP"`
	ID     string          `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	Event     string          `json:"event"`
	Data      json.RawMessage `json:"data"`
	Timestamp struct {
		Seconds      int64 `json:"seconds"`
		Microseconds int64 `json:"microseconds"`
	} `json:"timestamp"`
}

// decode reads one line. An empty line is skipped. A line that is neither a
// greeting nor an answer nor an event is an error.
func decode(r *bufio.Reader) (message, error) {
	for {
		line, err := readLine(r)
		if err != nil {
			return message{}, err
		}
		if len(line) == 0 {
			continue
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return message{}, fmt.Errorf("malformed message: %w", err)
		}
		if m.Greeting == nil && m.Event == "" && m.Error == nil && m.Return == nil {
			return message{}, errors.New("malformed message: neither answer nor event")
		}
		return m, nil
	}
}

// readLine returns one line without its end, at most maxMessage bytes.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxMessage {
			return nil, errors.New("message too long")
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return nil, err // a line without its end is lost with the connection
		}
		for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
			line = line[:len(line)-1]
		}
		return line, nil
	}
}

// result turns an answer into what Execute returns.
func (m message) result(command string, out any) error {
	if m.Error != nil {
		return &Error{Command: command, Class: m.Error.Class, Desc: m.Error.Desc}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(m.Return, out); err != nil {
		return fmt.Errorf("qmp %s: unexpected answer: %w", command, err)
	}
	return nil
}

func (m message) event() Event {
	return Event{
		Name: m.Event,
		Data: m.Data,
		Time: time.Unix(m.Timestamp.Seconds, m.Timestamp.Microseconds*1000),
	}
}
