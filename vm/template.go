// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"maps"
	"slices"
	"time"
)

// SandboxDefaults are what the commands of a sandbox have unless a call says otherwise. They
// come from the template that it was made of, and are never changed in place.
type SandboxDefaults struct {
	Env     map[string]string `json:"env,omitempty"`
	User    string            `json:"user,omitempty"`    // Linux user; "" = user
	Workdir string            `json:"workdir,omitempty"` // "" = the home of the Linux user
}

// Clone returns a copy that shares nothing with d.
func (d *SandboxDefaults) Clone() *SandboxDefaults {
	if d == nil {
		return nil
	}
	c := *d
	c.Env = maps.Clone(d.Env)
	return &c
}

// Template is what a snapshot has because it was built as a template of E2B's API, or was
// taken of a sandbox that was made of one. It is never changed in place.
type Template struct {
	Name     string          `json:"name,omitempty"`  // "" = the snapshot of a sandbox
	Build    string          `json:"build,omitempty"` // id of its build, a UUID
	Tags     []TemplateTag   `json:"tags,omitempty"`
	Defaults SandboxDefaults `json:"defaults"`
}

// TemplateTag is a tag of one build of a template. If two builds have a tag, it means the
// newer build.
type TemplateTag struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"` // when the build got it
}

// Clone returns a copy that shares nothing with t.
func (t *Template) Clone() *Template {
	if t == nil {
		return nil
	}
	c := *t
	c.Tags = slices.Clone(t.Tags)
	c.Defaults = *t.Defaults.Clone()
	return &c
}

// Has reports whether the build has a tag.
func (t *Template) Has(tag string) bool {
	return slices.ContainsFunc(t.Tags, func(x TemplateTag) bool { return x.Name == tag })
}
