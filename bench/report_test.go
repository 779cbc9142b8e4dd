// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for want, in := range map[float64][]float64{0: nil, 3: {3}, 2: {3, 1, 2}, 2.5: {4, 1, 2, 3}} {
		s := series{Samples: in}
		if got := s.median(); got != want {
			t.Errorf("median of %v is %v, want %v", in, got, want)
		}
	}
}

func TestReport(t *testing.T) {
	r := newReport()
	a, b := r.series("fast", "ms", bound{Max: 10}), r.series("slow", "s", bound{Min: 100})
	if again := r.series("fast", "ms", bound{}); again != a {
		t.Error("a second series of one name")
	}
	a.took(5 * time.Millisecond)
	b.took(20 * time.Second)
	r.ratio("slow / fast", b, a, bound{Max: 2})
	r.note("a %s", "note")
	var out bytes.Buffer
	r.print(&out)
	for _, want := range []string{
		"fast         5.0     5.0   5.0   1  ms    <= 10   ok",
		"slow         20.0    20.0  20.0  1  s     >= 100  MISSED",
		"slow / fast       4.00   <= 2    MISSED", "note: a note",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	if a.median() != 5 || (bound{}).verdict(1) != "\t" {
		t.Error("a series without a bound is judged")
	}
}

func TestProcField(t *testing.T) {
	v, err := procField(os.Getpid(), "status", "VmRSS")
	if err != nil || v < 1 || v > 1000 {
		t.Errorf("%v MB, %v", v, err)
	}
	if _, err := procField(os.Getpid(), "status", "NoSuch"); err == nil {
		t.Error("a field that does not exist was found")
	}
}

func TestParallel(t *testing.T) {
	if rate, err := parallel(func() error { return nil }, 4, 80); err != nil || rate <= 0 {
		t.Errorf("80 runs by 4 workers have rate %v (%v), want more than 0", rate, err)
	}
	if _, err := parallel(func() error { return os.ErrInvalid }, 2, 4); err == nil {
		t.Error("an error is lost")
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-binary", "x", "-images", "/i", "-n", "3"}, &bytes.Buffer{})
	if err != nil || !strings.HasPrefix(o.binary, "/") || o.images != "/i" || o.n != 3 {
		t.Errorf("arguments are read as %+v (%v), want an absolute binary, the images /i and n 3", o, err)
	}
	if _, err := parse([]string{"-nonsense"}, &bytes.Buffer{}); err == nil {
		t.Error("an unknown flag is taken")
	}
}
