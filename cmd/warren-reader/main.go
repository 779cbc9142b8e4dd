// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command warren-reader reads frozen disks of guests, and judges uploads. `warren serve`
// starts it confined, with the layers of the disks as open descriptors; people do not.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/internal/scan"
)

const (
	firstFile = 3 // the descriptors of the layers begin here
	maxFiles  = 256
	// heap is what the collector tries to stay below. The limit of the process is
	// higher, and ends it.
	heap = 40 << 20
	// scanHeap is the same for uploads: an archive in an archive is unpacked to memory.
	scanHeap = 160 << 20
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "warren-reader: started by `warren serve`, not by hand")
		os.Exit(2)
	}
	if os.Args[1] == "scan" {
		debug.SetMemoryLimit(scanHeap)
		if err := scan.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "warren-reader:", err)
			os.Exit(1)
		}
		return
	}
	n, err := strconv.Atoi(os.Args[1])
	if err != nil || n < 0 || n > maxFiles {
		os.Exit(2)
	}
	debug.SetMemoryLimit(heap)
	var files []io.ReaderAt
	for i := range n {
		files = append(files, os.NewFile(uintptr(firstFile+i), "layer"+strconv.Itoa(i)))
	}
	if err := review.Serve(context.Background(), os.Stdin, os.Stdout, files); err != nil {
		fmt.Fprintln(os.Stderr, "warren-reader:", err)
		os.Exit(1)
	}
}
