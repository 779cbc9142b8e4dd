// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Go's runtime has a monitor thread that sleeps 20 µs at a time while the program
// works. Under emulation each of these sleeps costs a timer interrupt and two device
// writes, more than the work itself. So the agent's threads allow the kernel to wake
// them a few milliseconds late. The commands that they start have the default again.
const (
	agentSlack   = 4_000_000 // nanoseconds
	commandSlack = 50_000    // the kernel's default
)

const prSetTimerslack = 29

// relax gives every thread of this process the agent's slack. New threads inherit it.
func relax() {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range tasks { // a failed write leaves one thread with the default
		_ = os.WriteFile("/proc/"+t.Name()+"/timerslack_ns", []byte(strconv.Itoa(agentSlack)), 0)
	}
	setSlack(agentSlack)
	relaxed.Store(true)
}

// relaxed is set once relax has been called.
var relaxed atomic.Bool

// exact runs fn on a thread whose children have the default slack.
func exact(fn func()) {
	if !relaxed.Load() {
		fn()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	setSlack(commandSlack)
	defer setSlack(agentSlack)
	fn()
}

func setSlack(ns uintptr) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, ns, 0)
}

// schedParam is struct sched_param of the kernel.
type schedParam struct{ priority int32 }

const (
	schedOther = 0
	schedFIFO  = 1
)

// urgent makes the calling goroutine's thread run before every other program of the
// guest, until the same goroutine calls last. Otherwise programs that resume all at
// once would delay the answer that the host waits for.
func urgent() (last func()) {
	runtime.LockOSThread()
	setScheduler(schedFIFO, schedParam{1}) // if it fails, the answer is only late
	return func() {
		setScheduler(schedOther, schedParam{})
		runtime.UnlockOSThread()
	}
}

func setScheduler(policy uintptr, p schedParam) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_SETSCHEDULER, 0, policy, uintptr(unsafe.Pointer(&p)))
}
