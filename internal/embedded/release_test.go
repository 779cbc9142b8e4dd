// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const maps = `00400000-01a00000 r-xp 00000000 fe:00 77 /usr/bin/warren
Rss: 2000 kB
Anonymous: 0 kB
01a00000-03000000 r--p 01600000 fe:00 77 /usr/bin/warren
Rss: 9000 kB
Anonymous:             0 kB
03000000-03100000 r--p 02c00000 fe:00 77 /usr/bin/warren
Anonymous: 4 kB
03100000-03200000 rw-p 02d00000 fe:00 77 /usr/bin/warren
Anonymous: 0 kB
7f0000000000-7f0000001000 r--p 00000000 fe:00 78 /usr/lib/other
Anonymous: 0 kB
7f0000001000-7f0000002000 r--p 00000000 00:00 0
Anonymous: 0 kB
`

// Only what is the same as the program's file is unmapped.
func TestConstants(t *testing.T) {
	list := constants([]byte(maps), "/usr/bin/warren")
	if len(list) != 1 || list[0] != (mapping{0x01a00000, 0x03000000}) {
		t.Errorf("%x would be unmapped, want only 1a00000 to 3000000", list)
	}
}

// resident is how many KiB of files are mapped in this process.
func resident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatal("the kernel does not say how much is resident")
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// filler is a constant of about 1 MiB.
const filler = mebi + mebi + mebi + mebi + mebi + mebi + mebi + mebi + mebi + mebi + mebi + mebi + mebi + mebi + mebi + mebi

const (
	mebi = kilo + kilo + kilo + kilo + kilo + kilo + kilo + kilo + kilo + kilo + kilo + kilo + kilo + kilo + kilo + kilo
	kilo = line + line + line + line + line + line + line + line + line + line + line + line + line + line + line + line
	line = "a constant of the program that is read once at its start, like the programs that it has within itself: nothing else of this process uses it, so that its pages may go as soon as they were read, and come again from the file when they are missed"
)

// A constant that was read is no memory of the process any more, and is still there.
func TestRelease(t *testing.T) {
	count := func() int { return strings.Count(filler, "\n") + len(filler) }
	size := count()
	before := resident(t)
	release()
	if after := resident(t); before-after < len(filler)>>11 {
		t.Errorf("%d KiB of files are resident, before it were %d", after, before)
	}
	if again := count(); again != size {
		t.Errorf("the constant has %d bytes afterwards, want %d", again, size)
	}
}
