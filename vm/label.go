// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Limits of a VM's labels.
const (
	MaxLabels     = 64
	MaxLabelKey   = 128     // bytes of a key
	MaxLabelValue = 128     // bytes of a value
	MaxLabelBytes = 4 << 10 // of all keys and values of a VM: a fork writes them for each child
)

var (
	labelKey   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^[A-Za-z0-9._/:@+~-]*$`)
)

// ParseLabel reads KEY=VALUE; the value may be empty. Kind Invalid.
func ParseLabel(s string) (key, value string, err error) {
	key, value, ok := strings.Cut(s, "=")
	if !ok {
		return "", "", badLabel(s, "is not a label").WithHint("write KEY=VALUE, such as team=web")
	}
	return key, value, checkLabel(key, value)
}

func checkLabel(key, value string) error {
	switch {
	case len(key) > MaxLabelKey || !labelKey.MatchString(key):
		return badLabel(key, "not a label's key: 1 to %d letters, digits and . _ - /, a letter or digit first and last", MaxLabelKey).
			WithHint("choose a key such as team or example.com/owner")
	case len(value) > MaxLabelValue || !labelValue.MatchString(value):
		return badLabel(value, "not a value of label %s: at most %d of letters, digits and . _ - / : @ + ~", key, MaxLabelValue).
			WithHint("choose a value such as web, 1.2 or ann@example.com")
	}
	return nil
}

func badLabel(subject, format string, args ...any) *Error {
	return Errorf(Invalid, subject, format, args...).WithCode("INVALID_REQUEST")
}

// ChangeLabels returns a VM's labels after a change: a value sets a label, nil removes one,
// which may be missing. It does not modify have. Kinds Invalid and, for too many, Limit.
func ChangeLabels(have map[string]string, change map[string]*string) (map[string]string, error) {
	out := make(map[string]string, len(have)+len(change))
	maps.Copy(out, have)
	for _, key := range slices.Sorted(maps.Keys(change)) {
		value := change[key]
		if value == nil {
			delete(out, key)
			continue
		}
		if err := checkLabel(key, *value); err != nil {
			return nil, err
		}
		out[key] = *value
	}
	bytes := 0
	for k, v := range out {
		bytes += len(k) + len(v)
	}
	switch {
	case len(out) > MaxLabels:
		return nil, Errorf(Limit, "", "a VM has at most %d labels, and the change would make it %d", MaxLabels, len(out)).
			WithCode("LIMIT_EXCEEDED", "limit", MaxLabels, "current", len(out)).WithHint("remove some: `warren label NAME KEY-`")
	case bytes > MaxLabelBytes:
		return nil, Errorf(Limit, "", "the labels of a VM have at most %d bytes, and the change would make it %d", MaxLabelBytes, bytes).
			WithCode("LIMIT_EXCEEDED", "limit", MaxLabelBytes, "current", bytes).WithHint("remove some: `warren label NAME KEY-`")
	case len(out) == 0:
		return nil, nil
	}
	return out, nil
}

// SetLabels returns the change that sets labels and removes none.
func SetLabels(labels map[string]string) map[string]*string {
	change := make(map[string]*string, len(labels))
	for k, v := range labels {
		change[k] = &v
	}
	return change
}

// LabelSelector selects VMs by one label. ParseLabelSelector makes one.
type LabelSelector struct {
	key, value string
	any        bool // any value matches
	not        bool
}

// ParseLabelSelector parses a selector: KEY (the label exists), !KEY (it does not),
// KEY=VALUE, or KEY!=VALUE, which also matches VMs without the label. Kind Invalid.
func ParseLabelSelector(s string) (LabelSelector, error) {
	var l LabelSelector
	key, value, valued := strings.Cut(s, "=")
	if valued {
		key, l.not = strings.CutSuffix(key, "!")
		l.value = strings.TrimPrefix(value, "=") // == is =
	} else {
		key, l.not = strings.CutPrefix(s, "!")
		l.any = true
	}
	l.key = key
	if err := checkLabel(l.key, l.value); err != nil {
		return l, badLabel(s, "does not select by a label: %w", err).WithHint("write KEY, !KEY, KEY=VALUE or KEY!=VALUE")
	}
	return l, nil
}

// Matches reports whether a VM with these labels is selected.
func (l LabelSelector) Matches(labels map[string]string) bool {
	value, there := labels[l.key]
	return (there && (l.any || value == l.value)) != l.not
}
