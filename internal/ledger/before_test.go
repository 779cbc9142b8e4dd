// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/vmtest"
)

// TestRecordsOfBefore: the records that commit de478e5 wrote, before there was a
// ledger, are read with all that they hold, and can be changed and dropped. Its
// engine made testdata/de478e5.json on the simulated host: what its etcd held.
func TestRecordsOfBefore(t *testing.T) {
	data, err := os.ReadFile("testdata/de478e5.json")
	if err != nil {
		t.Fatal(err)
	}
	var stored map[string]json.RawMessage
	if err := json.Unmarshal(data, &stored); err != nil {
		t.Fatal(err)
	}
	b := vmtest.NewBackend()
	ids := map[string][]string{} // by kind
	for key, value := range stored {
		kind, id, _ := strings.Cut(strings.TrimPrefix(key, "/warren/v1/"), "/")
		ids[kind] = append(ids[kind], id)
		if _, err := b.Write(t.Context(), ledger.Op{Kind: kind, ID: id, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	p := &place{Backend: b}
	for _, s := range productKinds(t) {
		if slices.Contains([]string{"asks", "buckets", "memories", "object-grants", "policies", "repo-deliveries", "repo-triggers", "repositories", "s3-keys", "secrets", "shown-names"}, s.Kind()) { // there were none
			continue
		}
		t.Run(s.Kind(), func(t *testing.T) {
			v := p.open(t, s, "here")
			for _, u := range v.table.Unreadable() {
				t.Errorf("%s cannot be read: %v", u.ID, u.Err)
			}
			if len(ids[s.Kind()]) == 0 {
				t.Fatal("there is no record of this kind")
			}
			for _, id := range ids[s.Kind()] {
				rec, ok := v.table.Get(id)
				if !ok {
					t.Fatalf("%s is not found", id)
				}
				if key := v.Key(rec); key != id {
					t.Errorf("%s has the key %s", id, key)
				}
				v.keeps(stored["/warren/v1/"+s.Kind()+"/"+id], rec)
				v.must("change", v.set(id, "changed"))
				p.inStore(v, "after a change", id, "changed")
				v.must("drop", v.drop(id))
				p.inStore(v, "after a drop", id, "none")
			}
			delete(ids, s.Kind())
		})
	}
	for kind := range ids {
		t.Errorf("no table has the kind %s", kind)
	}
}

// keeps wants that a record has every field that was stored, with its value.
func (v *server) keeps(stored []byte, rec any) {
	v.Helper()
	var was, is map[string]any
	v.must("decode", json.Unmarshal(stored, &was))
	now, err := json.Marshal(rec)
	v.must("encode", err)
	v.must("decode", json.Unmarshal(now, &is))
	for field, value := range was {
		if !reflect.DeepEqual(value, is[field]) {
			v.Errorf("%s was %v and is %v", field, value, is[field])
		}
	}
}
