// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Image is an immutable bootable disk with its kernel, made from a recipe.
// Its manifest is the file images/ID/manifest.json.
type Image struct {
	Format     int        `json:"format"` // version of the manifest; 1
	ID         ImageID    `json:"id"`
	Name       string     `json:"name"`     // recipe name; the newest image of a name is used
	Recipe     string     `json:"recipe"`   // digest of the resolved recipe
	Snapshot   SnapshotID `json:"snapshot"` // its id for API callers
	CreatedAt  time.Time  `json:"createdAt"`
	BuildTook  float64    `json:"buildSeconds"`
	DiskMiB    int        `json:"diskMib"` // virtual size of disk.qcow2: the minimum for a VM's disk
	DiskBytes  int64      `json:"diskBytes"`
	Kernel     string     `json:"kernel"` // release, e.g. 6.1.0-56-cloud-amd64
	Cmdline    string     `json:"cmdline"`
	Workdir    string     `json:"workdir,omitempty"`
	MemoryMiB  int        `json:"memoryMib,omitempty"` // of a VM whose size is not given; 0 = the server's default
	Packages   int        `json:"packages"`            // number of Debian packages in it
	Registries []Registry `json:"registries"`
	HostCAs    []string   `json:"hostCas,omitempty"` // file names of the operator's CAs that it trusts
	Files      []File     `json:"files"`
	// Container says which container image it was made of; nil = none.
	Container *ContainerImage `json:"container,omitempty"`
}

// ContainerImage is the container image that an image was made of.
type ContainerImage struct {
	Source  string `json:"source"`            // as it was named
	Digest  string `json:"digest"`            // of its manifest, sha256:…
	User    string `json:"user,omitempty"`    // runs commands unless another is named; "" = root
	Systemd bool   `json:"systemd"`           // boots systemd; else the agent is the init
	Service string `json:"service,omitempty"` // of its entrypoint; "" = it has none
}

// ContainerFile is where a guest finds the ContainerConfig of its image, as JSON.
const ContainerFile = "/etc/warren/container.json"

// ContainerService is the name of the service that runs a container image's entrypoint.
const ContainerService = "app"

// ContainerConfig is what a container image says of its program.
type ContainerConfig struct {
	Env        []string `json:"env,omitempty"` // NAME=VALUE, for every command
	Argv       []string `json:"argv,omitempty"`
	User       string   `json:"user,omitempty"`
	Workdir    string   `json:"workdir,omitempty"`
	StopSignal string   `json:"stopSignal,omitempty"`
}

// Digest names an image by what it consists of, on whichever server it is: "sha256:" and 64
// hex digits. It covers the digest of its recipe and sources, and name, size and SHA-256 of
// each of its files: disk, kernel and modules. Its id, its name and its times are not part.
func (i Image) Digest() string {
	files := slices.Clone(i.Files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	for n := range files {
		files[n].CRC32C = nil
	}
	data, err := json.Marshal(struct {
		Recipe, Kernel, Cmdline, Workdir string
		DiskMiB                          int
		Registries                       []Registry
		HostCAs                          []string
		Files                            []File
	}{i.Recipe, i.Kernel, i.Cmdline, i.Workdir, i.DiskMiB, i.Registries, i.HostCAs, files})
	if err != nil {
		panic(err) // texts and numbers only
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// File is one file of an image or generation, relative to its directory.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"` // hex; large files get it in the background
	// CRC32C holds one Castagnoli sum per MiB, holes counted as zeros.
	CRC32C []uint32 `json:"crc32c,omitempty"`
}

// Manifest describes a state from which a machine can start: a frozen disk
// layer and, unless it was captured from a stopped machine, memory and device
// state of the same instant. The manifest is stored next to its files.
type Manifest struct {
	Format    int          `json:"format"` // version of the manifest; 1
	ID        GenerationID `json:"id"`
	Parent    GenerationID `json:"parent,omitempty"`
	Image     ImageID      `json:"image"`
	Key       string       `json:"key"` // of a warm generation: digest of its inputs
	CreatedAt time.Time    `json:"createdAt"`
	Size      Size         `json:"size"`
	Accel     Accel        `json:"accel"`
	CPU       string       `json:"cpu"`
	Machine   string       `json:"machine"` // machine type, versioned
	QEMU      string       `json:"qemu"`    // version that wrote it, e.g. "7.2.22"
	Cmdline   string       `json:"cmdline"`
	Devices   []string     `json:"devices"` // device lines of the command line, in order
	Agent     AgentHello   `json:"agent"`
	GuestKey  []byte       `json:"guestKey"` // the link key that its agent holds
	// TrueKey says that GuestKey was read from the link itself. Otherwise an older
	// Warren wrote the manifest, and the key may be outdated; OtherKeys are then the
	// other keys that its agent may hold.
	TrueKey   bool     `json:"trueKey,omitempty"`
	OtherKeys [][]byte `json:"otherKeys,omitempty"`
	Disk      File     `json:"disk"`   // frozen qcow2 layer
	RAM       File     `json:"ram"`    // sparse memory file
	Device    File     `json:"device"` // device state
	DataBytes int64    `json:"dataBytes"`
	// Plugged is what the machine had in addition to what it booted with; a machine
	// that starts from here gets the same. Modules are the memory files of its modules.
	Plugged Plugged `json:"plugged,omitzero"`
	Modules []File  `json:"modules,omitempty"`
	// VM is the VM whose memory it is, which its programs know as their
	// machine; "" for a warm generation.
	VM ID `json:"vm,omitempty"`
	// DiskOn is the generation whose disk is the base of the disk layer; "" = the image.
	DiskOn GenerationID `json:"diskOn,omitempty"`
}

// QuietNIC ends the device line of a network card that does not announce itself after a
// load. The announcement has no receiver, and the guest's kernel spends 15 ms of
// emulation on it. (Turning announcements off by migrate-set-parameters makes QEMU 7.2
// crash when the guest resets the card.)
const QuietNIC = ",guest_announce=off"

// QuietNIC reports whether the captured machine has such a card. A machine with
// another card cannot continue from it.
func (g Manifest) QuietNIC() bool {
	return slices.ContainsFunc(g.Devices, func(d string) bool {
		return strings.HasPrefix(d, "virtio-net-pci,") && strings.HasSuffix(d, QuietNIC)
	})
}
