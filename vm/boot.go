// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

// OnBoot is what happens, after a restart of the host, to a VM that ran when
// the host was shut down.
type OnBoot string

// The settings of OnBoot.
const (
	OnBootResume OnBoot = "resume" // it continues
	OnBootStay   OnBoot = "stay"   // it stays suspended until it is used
)

// ParseOnBoot checks s; "" is allowed. The error has kind Invalid.
func ParseOnBoot(s string) (OnBoot, error) {
	switch b := OnBoot(s); b {
	case "", OnBootResume, OnBootStay:
		return b, nil
	}
	return "", Errorf(Invalid, s, "is not a setting of on-boot").WithHint("use resume or stay")
}

// BootSetting returns the setting that applies: by default a persistent VM resumes.
func (v VM) BootSetting() OnBoot {
	switch {
	case v.OnBoot != "":
		return v.OnBoot
	case v.Persistence.Type == Persistent:
		return OnBootResume
	}
	return OnBootStay
}

// ResumesOnBoot reports whether the VM resumes after a restart of the host.
func (v VM) ResumesOnBoot() bool { return v.BootSetting() == OnBootResume }
