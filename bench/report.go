// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// series is one measurement with every sample.
type series struct {
	Name    string    `json:"name"`
	Unit    string    `json:"unit"` // ms, MB/s, 1/s, MB
	Samples []float64 `json:"samples"`
}

func (s *series) add(v float64) { s.Samples = append(s.Samples, v) }

// took adds a duration, in the series' unit. No series takes none: a warm-up.
func (s *series) took(d time.Duration) {
	if s == nil {
		return
	}
	if s.Unit == "s" {
		s.add(d.Seconds())
		return
	}
	s.add(float64(d) / float64(time.Millisecond))
}

func (s *series) median() float64 {
	if len(s.Samples) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(s.Samples))
	if m := len(v) / 2; len(v)%2 == 1 {
		return v[m]
	} else {
		return (v[m-1] + v[m]) / 2
	}
}

// bound is the goal of a median.
type bound struct {
	Max float64 `json:"max,omitempty"` // of the median; 0 = none
	Min float64 `json:"min,omitempty"`
}

// ratio compares two medians.
type ratio struct {
	What  string  `json:"what"`
	Of    string  `json:"of"`
	By    string  `json:"by"`
	Value float64 `json:"value"`
	bound
}

type report struct {
	Host   map[string]any   `json:"host"`
	Series []*series        `json:"series"`
	Bounds map[string]bound `json:"bounds"`
	Ratios []*ratio         `json:"ratios"`
	Notes  []string         `json:"notes,omitempty"`
	// Sections are in the order in which they ran.
	Sections []ran `json:"sections"`
}

func newReport() *report { return &report{Bounds: make(map[string]bound)} }

// series returns a series and creates it if needed.
func (r *report) series(name, unit string, want bound) *series {
	if s := r.find(name); s != nil {
		return s
	}
	s := &series{Name: name, Unit: unit}
	r.Series = append(r.Series, s)
	if want != (bound{}) {
		r.Bounds[name] = want
	}
	return s
}

// find returns a series by its name, or nil.
func (r *report) find(name string) *series {
	for _, s := range r.Series {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// ratio notes that the medians of two series are to be compared.
func (r *report) ratio(what string, of, by *series, want bound) {
	r.Ratios = append(r.Ratios, &ratio{What: what, Of: of.Name, By: by.Name, bound: want})
	if m := by.median(); m > 0 {
		r.Ratios[len(r.Ratios)-1].Value = of.median() / m
	}
}

func (r *report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// verdict renders a bound and whether v keeps it.
func (b bound) verdict(v float64) string {
	word := func(ok bool) string {
		if ok {
			return "ok"
		}
		return "MISSED"
	}
	switch {
	case b.Max > 0:
		return fmt.Sprintf("<= %.4g\t%s", b.Max, word(v > 0 && v <= b.Max))
	case b.Min > 0:
		return fmt.Sprintf(">= %.4g\t%s", b.Min, word(v >= b.Min))
	default:
		return "\t"
	}
}

func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "host: %v CPUs, load %v\n\n", r.Host["cpus"], r.Host["loadavg"])
	t := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tMEDIAN\tMIN\tMAX\tN\tUNIT\tWANTED\t")
	for _, s := range r.Series {
		if len(s.Samples) == 0 {
			continue
		}
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%d\t%s\t%s\n", s.Name, s.median(), slices.Min(s.Samples), slices.Max(s.Samples),
			len(s.Samples), s.Unit, r.Bounds[s.Name].verdict(s.median()))
	}
	_ = t.Flush() // to standard output
	if len(r.Ratios) > 0 {
		fmt.Fprintln(t, "\nRATIO OF MEDIANS\tVALUE\tWANTED\t")
		for _, x := range r.Ratios {
			fmt.Fprintf(t, "%s\t%.2f\t%s\n", x.What, x.Value, x.verdict(x.Value))
		}
		_ = t.Flush()
	}
	if len(r.Sections) > 0 {
		all := 0.0
		fmt.Fprintln(t, "\nSECTION\tSECONDS\tLOAD BEFORE\tAFTER\tSTEAL %\t")
		for _, s := range r.Sections {
			word := ""
			if s.Error != "" {
				word = "FAILED"
			}
			fmt.Fprintf(t, "%s\t%.0f\t%.1f\t%.1f\t%.1f\t%s\n", s.Name, s.Seconds, s.LoadBefore, s.LoadAfter, s.Steal, word)
			all += s.Seconds
		}
		fmt.Fprintf(t, "all\t%.0f\n", all)
		_ = t.Flush()
	}
	for _, n := range r.Notes {
		fmt.Fprintln(out, "note:", n)
	}
	for _, s := range r.Sections {
		if s.Error != "" {
			fmt.Fprintf(out, "failed: %s: %s\n", s.Name, s.Error)
		}
	}
}
