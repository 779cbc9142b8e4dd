// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"time"

	"github.com/warren-vm/warren/vm"
)

// File is one entry of additionalFiles.
type File struct {
	Content    string `json:"content"`
	Encoding   string `json:"encoding,omitempty"` // utf-8 (default), base64
	Executable bool   `json:"executable,omitempty"`
}

// User is one entry of users.
type User struct {
	Name   string   `json:"name"`
	UID    *int     `json:"uid,omitempty"`
	Gecos  string   `json:"gecos,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Home   string   `json:"home,omitempty"`
	Shell  string   `json:"shell,omitempty"`
	System bool     `json:"system,omitempty"`
}

// Group is one entry of groups.
type Group struct {
	Name   string `json:"name"`
	GID    *int   `json:"gid,omitempty"`
	System bool   `json:"system,omitempty"`
}

// Layer is one layer of a spec, or the legacy template, in which SDKs put
// sizes. At most one of Snapshot, SnapshotID and BaseImage is set.
type Layer struct {
	Sizes
	Name          *string         `json:"name,omitempty"` // SDKs repeat the VM's name here
	Snapshot      *Layer          `json:"snapshot,omitempty"`
	SnapshotID    string          `json:"snapshotId,omitempty"`
	BaseImage     *BaseImage      `json:"baseImage,omitempty"`
	Workdir       string          `json:"workdir,omitempty"`
	AptDeps       []string        `json:"aptDeps,omitempty"`
	Systemd       *Systemd        `json:"systemd,omitempty"`
	Git           *Git            `json:"git,omitempty"`
	GitRepos      []Repo          `json:"gitRepos,omitempty"` // older form of git.repos
	Discriminator json.RawMessage `json:"discriminator,omitempty"`
	SkipCache     bool            `json:"skipCache,omitempty"`
	NICs          json.RawMessage `json:"nics,omitempty"`

	DockerCredentials json.RawMessage `json:"dockerCredentials,omitempty"`

	Ports        json.RawMessage         `json:"ports,omitempty"`
	UDPPorts     json.RawMessage         `json:"udpHolePunchPorts,omitempty"`
	LayerWait    *bool                   `json:"waitForReadySignal,omitempty"`
	LayerReady   *vm.Seconds             `json:"readySignalTimeoutSeconds,omitempty"`
	LayerUsers   []User                  `json:"users,omitempty"`
	LayerGroups  []Group                 `json:"groups,omitempty"`
	LayerFiles   map[string]File         `json:"additionalFiles,omitempty"`
	LayerPersist *vm.Persistence         `json:"persistence,omitempty"`
	LayerIdle    vm.Optional[vm.Seconds] `json:"idleTimeoutSeconds,omitzero"`
}

// BaseImage describes a VM's image by a Dockerfile.
type BaseImage struct {
	DockerfileContent string `json:"dockerfileContent"`
}

// Systemd are the units of a layer.
type Systemd struct {
	Services        []vm.Unit `json:"services,omitempty"`
	PatchedServices []vm.Unit `json:"patchedServices,omitempty"`
}

// Git describes the repositories that a layer clones, and how commits are signed.
type Git struct {
	Config struct {
		User *GitUser `json:"user,omitempty"`
	} `json:"config"`
	Repos []Repo `json:"repos,omitempty"`
}

// GitUser is the author of signed commits.
type GitUser struct {
	Name       string `json:"name,omitempty"`
	Email      string `json:"email,omitempty"`
	SigningKey string `json:"signingkey,omitempty"`
}

// Repo is one repository to clone.
type Repo struct {
	Repo string `json:"repo"`
	Path string `json:"path"`
	Rev  string `json:"rev,omitempty"`
}

// BuildSnapshot is the body of POST /v1/vms/snapshots.
type BuildSnapshot struct {
	Layer
	Name        string          `json:"name,omitempty"`
	Spec        *Layer          `json:"spec,omitempty"`
	Template    *Layer          `json:"template,omitempty"`
	Persistence *vm.Persistence `json:"persistence,omitempty"`
	Image       string          `json:"image,omitempty"`   // ours
	Network     vm.NetworkSpec  `json:"network,omitempty"` // ours: during the build
}

// BuiltSnapshot answers POST /v1/vms/snapshots.
type BuiltSnapshot struct {
	SnapshotID vm.SnapshotID `json:"snapshotId"`
}

// Build answers GET builds/{id} and GET {vm}/build.
type Build struct {
	BuildID       vm.BuildID    `json:"buildId"`
	AccountID     vm.AccountID  `json:"accountId"`
	RequestID     vm.RequestID  `json:"requestId,omitempty"`
	State         vm.BuildState `json:"state"`
	TemplateHash  string        `json:"templateHash,omitempty"`
	FailureReason string        `json:"failureReason,omitempty"`
	PlannedPhases []string      `json:"plannedPhases"`
	StartedAt     time.Time     `json:"startedAt"`
	FinishedAt    time.Time     `json:"finishedAt,omitzero"`
	UpdatedAt     time.Time     `json:"updatedAt"`
	VMID          vm.ID         `json:"vmId,omitempty"`       // ours
	SnapshotID    vm.SnapshotID `json:"snapshotId,omitempty"` // ours
}

// BuildPhase is one phase of a build.
type BuildPhase struct {
	PhaseID    string          `json:"phaseId"`
	BuildID    vm.BuildID      `json:"buildId"`
	Name       string          `json:"name"`
	SnapshotID vm.GenerationID `json:"snapshotId,omitempty"` // of a layer: its generation
	Cached     bool            `json:"cached,omitempty"`     // ours: nothing had to be done
	StartedAt  time.Time       `json:"startedAt"`
}

// BuildPhases answers GET builds/{id}/phases, in the order of time.
type BuildPhases struct {
	Phases []BuildPhase `json:"phases"`
}
