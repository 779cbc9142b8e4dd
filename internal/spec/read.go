// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// ShowProperties are what ParseShow reads.
const ShowProperties = "Id,ActiveState,SubState,LoadState,Description,UnitFileState"

// ParseShow reads the answer of `systemctl show` for one or more units.
func ParseShow(text string) []vm.UnitStatus {
	var list []vm.UnitStatus
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		var s vm.UnitStatus
		for line := range strings.SplitSeq(block, "\n") {
			key, value, _ := strings.Cut(line, "=")
			switch key {
			case "Id":
				s.Name = value
			case "ActiveState":
				s.ActiveState = value
			case "SubState":
				s.SubState = value
			case "LoadState":
				s.LoadState = value
			case "Description":
				s.Description = value
			case "UnitFileState":
				s.Enabled = value
			}
		}
		if s.Name != "" {
			list = append(list, s)
		}
	}
	return list
}

// ParseUnits reads the answer of `systemctl list-units --output=json`.
func ParseUnits(data []byte) ([]vm.UnitStatus, error) {
	var rows []struct {
		Unit, Load, Active, Sub, Description string
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, vm.Errorf(vm.GuestFault, "", "systemctl answered no list: %w", err)
	}
	list := make([]vm.UnitStatus, 0, len(rows))
	for _, r := range rows {
		if r.Load != "not-found" {
			list = append(list, vm.UnitStatus{Name: r.Unit, LoadState: r.Load, ActiveState: r.Active, SubState: r.Sub, Description: r.Description})
		}
	}
	return list, nil
}

// ParseJournal reads the lines of `journalctl --output=json`. It skips a malformed
// line, which the guest's clock or disk may have caused.
func ParseJournal(data []byte) []vm.UnitLog {
	list := []vm.UnitLog{}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		var e struct {
			Message  json.RawMessage `json:"MESSAGE"`
			Time     string          `json:"__REALTIME_TIMESTAMP"`
			Priority string          `json:"PRIORITY"`
			Unit     string          `json:"_SYSTEMD_UNIT"`
			Of       string          `json:"UNIT"` // of systemd's own messages about a unit
		}
		if json.Unmarshal(line, &e) != nil || e.Time == "" {
			continue
		}
		micros, err := strconv.ParseInt(e.Time, 10, 64)
		if err != nil {
			continue
		}
		l := vm.UnitLog{Message: journalText(e.Message), Timestamp: time.UnixMicro(micros).UTC(), Unit: e.Unit}
		if e.Of != "" {
			l.Unit = e.Of
		}
		if p, err := strconv.Atoi(e.Priority); err == nil {
			l.Priority = &p
		}
		list = append(list, l)
	}
	return list
}

// journalText decodes a message: a string, or, if it is not UTF-8, its bytes as
// numbers.
func journalText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var numbers []int
	if json.Unmarshal(raw, &numbers) != nil {
		return ""
	}
	b := make([]byte, 0, len(numbers))
	for _, n := range numbers {
		b = append(b, byte(n))
	}
	return strings.ToValidUTF8(string(b), "�")
}

var relative = regexp.MustCompile(`^(now|today|yesterday|[-+]?[0-9]+ ?(us|ms|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)( ago)?|[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}(:[0-9]{2})?)?)$`)

// Since converts a point in time to one that journalctl reads: RFC 3339, seconds or
// milliseconds since 1970, or journalctl's own forms.
func Since(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return "@" + strconv.FormatInt(t.Unix(), 10), nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		if n > 1e11 { // milliseconds
			n /= 1000
		}
		return "@" + strconv.FormatInt(n, 10), nil
	}
	if relative.MatchString(s) {
		return s, nil
	}
	return "", vm.Errorf(vm.Invalid, "since", "%q is no point in time", s).WithCode("INVALID_REQUEST").
		WithHint("give a time like 2026-01-31T12:00:00Z, or \"10 min ago\"")
}

// JournalCursor returns the cursor of a line of journalctl's output; "" when it has
// none.
func JournalCursor(line []byte) string {
	var e struct {
		Cursor string `json:"__CURSOR"`
	}
	if json.Unmarshal(line, &e) != nil {
		return ""
	}
	return e.Cursor
}
