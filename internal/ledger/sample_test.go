// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// sample makes and marks records of a kind that it knows nothing of.
type sample struct {
	ledger.AnyTable
	mark []int // index of a text field that is in the JSON, and neither key nor host
}

func newSample(t ledger.AnyTable) (sample, error) {
	s := sample{AnyTable: t}
	rec := s.rec(0)
	key, host := t.Key(rec), t.Host(rec)
	for _, f := range reflect.VisibleFields(reflect.TypeOf(rec).Elem()) {
		v := reflect.ValueOf(rec).Elem().FieldByIndex(f.Index)
		if v.Kind() != reflect.String || !f.IsExported() || f.Tag.Get("json") == "-" || v.Addr().Interface() == any(host) {
			continue
		}
		was := v.String()
		before, _ := json.Marshal(rec)
		v.SetString("marked")
		after, _ := json.Marshal(rec)
		if t.Key(rec) == key && string(before) != string(after) {
			s.mark = f.Index
			return s, nil
		}
		v.SetString(was)
	}
	return s, fmt.Errorf("%s has no text field that a test could change", t.Kind())
}

// rec is the n-th record.
func (s sample) rec(n int) any {
	rec := s.Blank()
	fill(reflect.ValueOf(rec).Elem(), n)
	return rec
}

func (s sample) setMark(rec any, text string) {
	reflect.ValueOf(rec).Elem().FieldByIndex(s.mark).SetString(text)
}

func (s sample) markOf(rec any) string {
	return reflect.ValueOf(rec).Elem().FieldByIndex(s.mark).String()
}

// marked is the mark of the record that the table shows; "none" = it shows none.
func (s sample) marked(t ledger.AnyTable, id string) string {
	rec, ok := t.Get(id)
	if !ok {
		return "none"
	}
	return s.markOf(rec)
}

// fill gives every field a value that depends on n.
func fill(v reflect.Value, n int) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(int64(n), 0).UTC()))
		return
	case vm.Seconds, vm.Millis: // JSON has whole ones
		v.SetInt(int64(time.Duration(n%100) * time.Second))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(fmt.Sprint(n))))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", n))
	case reflect.Bool:
		v.SetBool(n%2 == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(n % 100))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n % 100))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), n)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface:
		v.Set(reflect.ValueOf(strings.Repeat("i", 1+n%3)))
	}
}

// sameJSON reports whether two records are stored alike.
func sameJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
