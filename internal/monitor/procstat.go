// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in /proc; it is 100 Hz on every Linux.
const clockTick = 10 * time.Millisecond

// cpuTime returns the CPU time a process has used; 0 when it is gone.
func cpuTime(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64) // a number, by the kernel
	sys, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+sys) * clockTick
}

// memory returns the resident bytes of a process, and the same with shared
// pages counted by share; 0 when they can't be read.
func memory(pid int) (rss, pss int64) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != "kB" {
			continue
		}
		kib, _ := strconv.ParseInt(fields[1], 10, 64) // a number, by the kernel
		switch fields[0] {
		case "Rss:":
			rss = kib << 10
		case "Pss:":
			pss = kib << 10
		}
	}
	return rss, pss
}
