// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"encoding/json"
	"os"
	"testing"
)

const (
	resultsFile = "results.json"
	pageFile    = "../../docs/safety.md"
)

// stored returns the results of the last run that was committed.
func stored(t *testing.T) []Result {
	t.Helper()
	data, err := os.ReadFile(resultsFile)
	if err != nil {
		t.Fatal(err)
	}
	var list []Result
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestPage: docs/safety.md says what the last run has seen, of all 52 cases.
func TestPage(t *testing.T) {
	list := stored(t)
	if len(list) != 52 {
		t.Errorf("the results have %d cases, want 52", len(list))
	}
	for i, r := range list {
		if r.N != i+1 || r.Why == "" || worse(r.Verdict, NotCovered) || worse(Prevented, r.Verdict) {
			t.Errorf("result %d is incomplete: %+v", i+1, r)
		}
	}
	page, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != Page(list) {
		t.Errorf("%s does not fit the results; run `make test-safety UPDATE=-update`", pageFile)
	}
}

// TestWorse: a verdict is worse than those before it in the list.
func TestWorse(t *testing.T) {
	if worse(Prevented, Prevented) || !worse(NotCovered, Reversible) || worse(Reversible, Revealed) {
		t.Error("the order of verdicts is wrong")
	}
}
