//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// entry is one number that a guest was asked to write into its ledger.
type entry struct {
	n    int
	sure bool // the host heard that it is on disk
}

// inside is what a guest may hold.
type inside struct {
	ledger []entry
	tag    string // in its memory; "" = not known to be there
	term   string // a terminal that is open while its memory lives; "" = none
	ending bool   // a stop had no answer: the guest may be about to power off, also in copies
}

func (w inside) clone() inside {
	w.ledger = slices.Clone(w.ledger)
	return w
}

// forgotten is what is left when its memory is gone.
func (w inside) forgotten() inside {
	w.tag, w.term, w.ending = "", "", false
	return w
}

// seen is what a guest was found to hold.
type seen struct {
	ledger []int
	tag    string
}

// matches says why a guest is not what it should be; "" = it is. What was
// acknowledged must be there, nothing may be there that was never asked for, in
// this order.
func (w inside) matches(s seen) string {
	at := 0
	for _, e := range w.ledger {
		switch {
		case at < len(s.ledger) && s.ledger[at] == e.n:
			at++
		case e.sure:
			return fmt.Sprintf("the acknowledged line %d is not in its ledger", e.n)
		}
	}
	if at < len(s.ledger) {
		return fmt.Sprintf("the line %d of its ledger is none that was asked for there", s.ledger[at])
	}
	if w.tag != "" && w.tag != s.tag {
		return fmt.Sprintf("its memory holds %q, it should hold %q", s.tag, w.tag)
	}
	return ""
}

// settled is what is known once a guest was seen: a line that is not there now
// will not come.
func (w inside) settled(s seen) inside {
	w = w.clone()
	w.ledger = slices.DeleteFunc(w.ledger, func(e entry) bool { return !slices.Contains(s.ledger, e.n) })
	w.tag = s.tag
	return w
}

// parseSeen reads what the guest printed: its tag, then its ledger.
func parseSeen(text string) (s seen, err error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	tag, marked := strings.CutPrefix(lines[0], "tag=")
	if !marked {
		return s, fmt.Errorf("it printed %q", text)
	}
	s.tag = tag
	for _, line := range lines[1:] {
		n, err := strconv.Atoi(line)
		if err != nil {
			return s, fmt.Errorf("its ledger has the line %q", line)
		}
		s.ledger = append(s.ledger, n)
	}
	return s, nil
}

// workspace is a VM as the driver knows it.
type workspace struct {
	name string
	id   vm.ID
	may  []inside // one of these is true
	gone bool     // its delete was asked for and not answered: it may be gone
	busy bool     // a command of the driver is at work on it

	state vm.State // at the last look
}

// each changes all that may be true.
func (w *workspace) each(f func(*inside)) {
	for i := range w.may {
		f(&w.may[i])
	}
}

// loseMemory notes that memory may be gone.
func (w *workspace) loseMemory() { w.each(func(in *inside) { *in = in.forgotten() }) }

func (w *workspace) clones() []inside {
	var out []inside
	for _, in := range w.may {
		out = append(out, in.clone())
	}
	return out
}

// judge compares what was seen with what may be, and keeps what is true.
func (w *workspace) judge(s seen) error {
	var why []string
	for _, in := range w.may {
		said := in.matches(s)
		if said == "" {
			w.may = []inside{in.settled(s)}
			return nil
		}
		why = append(why, said)
	}
	return fmt.Errorf("%s: %s", w.name, strings.Join(why, "; or "))
}

// TestKeepModel: the driver's judgement itself can fail.
func TestKeepModel(t *testing.T) {
	t.Parallel()
	w := inside{ledger: []entry{{1, true}, {2, false}, {3, true}}, tag: "a"}
	for _, c := range []struct {
		seen seen
		ok   bool
	}{
		{seen{[]int{1, 2, 3}, "a"}, true},
		{seen{[]int{1, 3}, "a"}, true},       // 2 was never acknowledged
		{seen{[]int{1, 2}, "a"}, false},      // 3 was
		{seen{[]int{1, 3, 2}, "a"}, false},   // another order
		{seen{[]int{1, 2, 3, 4}, ""}, false}, // from nowhere
		{seen{[]int{1, 2, 3}, "b"}, false},   // another memory
	} {
		if got := w.matches(c.seen); (got == "") != c.ok {
			t.Errorf("%+v is judged %q, want it to match: %v", c.seen, got, c.ok)
		}
	}
	if _, err := parseSeen("tag=x\n1\nrubbish\n"); err == nil {
		t.Error("a torn line was taken")
	}
	two := workspace{name: "two", may: []inside{{ledger: []entry{{1, true}}}, {}}}
	if err := two.judge(seen{}); err != nil || len(two.may) != 1 || len(two.may[0].ledger) != 0 {
		t.Errorf("an empty ledger leaves %+v possible (%v), want the empty one alone", two.may, err)
	}
	if two.judge(seen{ledger: []int{1}}) == nil {
		t.Error("a rolled back ledger came back")
	}
}
