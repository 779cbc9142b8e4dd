// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"

	"github.com/warren-vm/warren/vm"
)

// Local has the functions that need packages of the host and no server.
// cmd/warren fills it. The commands of a nil function fail with "this build
// cannot do that". data is the --data flag; "" = from the environment.
type Local struct {
	// Program is the name that this program was called by, with or without a
	// path; "" = warren.
	Program string
	// Serve runs the server until ctx ends; then it returns nil.
	Serve func(ctx context.Context, o ServeOptions, stdout, stderr io.Writer) error
	// ServeBehind starts a server in the background, on its defaults, which outlives this program, and waits
	// until answers reports true. It returns the file of the server's log.
	ServeBehind func(ctx context.Context, data string, answers func(context.Context) bool) (log string, err error)
	// AuditVerify checks the audit log in a directory without a server. key is a public key
	// or a fingerprint; "" = the one in the directory.
	AuditVerify func(dir, key string, outside []vm.Checkpoint) (vm.AuditReport, error)
	// AuditAnchors reads the checkpoints in a file.
	AuditAnchors func(data []byte) ([]vm.Checkpoint, error)
	// Doctor makes every check; ok is false if something required is missing.
	// It fails only if it could not check.
	Doctor func(ctx context.Context, data string) (checks []Check, ok bool, err error)
	// Config returns the data directory and the effective settings.
	Config func(ctx context.Context, data string) (dataDir string, settings []Setting, err error)

	// Recipes names the recipes that are shipped.
	Recipes func() []string
	// ImageBuild builds an image with its warm generation.
	ImageBuild func(ctx context.Context, o BuildOptions) (vm.Image, error)
	// ImageImport makes an image of a container image, with its warm generation.
	ImageImport func(ctx context.Context, o ImportOptions) (vm.Image, error)
	// ImageList lists the images of the data directory.
	ImageList func(ctx context.Context, data string) ([]vm.Image, error)
	// ImageInspect finds an image by name, id or snapshot id.
	ImageInspect func(ctx context.Context, data, ref string) (vm.Image, error)
	// ImageRemove removes an image; refused while VMs use it, without force.
	ImageRemove func(ctx context.Context, data, ref string, force bool) (vm.Image, error)
	// ImageUse measures the disk space of each image, its warm generations included.
	ImageUse func(ctx context.Context, data string) (map[vm.ImageID]vm.Bytes, error)
	// ImageExport writes an image into a signed file.
	ImageExport func(ctx context.Context, o ImageExport) (ExportedImage, error)
	// ImageImportFile adds the image of such a file, with its warm generation.
	ImageImportFile func(ctx context.Context, o ImageImportFile) (vm.Image, error)
	// Backups work on backups in files.
	Backups Backups
	// Trusts are the recipes that somebody trusts.
	Trusts Trusts
	// BundleInspect checks every byte of a bundle. trust are fingerprints of signers.
	BundleInspect func(ctx context.Context, path string, trust []string) (BundleInfo, error)
}

// ServeOptions are the flags of `warren serve`. A zero field was not given.
type ServeOptions struct {
	Data          string // data directory
	Listen        string // addresses, or "off"
	SSH           string
	Preview       string
	S3            string
	S3URL         string
	S3Endpoint    string
	S3Credentials string
	Clamd         string
	AskWebhook    string
	AuditKey      string
	AuditSigner   string
	AuditAnchor   []string
	AuditKeys     string
	AuditKeep     string
	AuditArgs     string
	NetDefault    string
	Pool          string
	StorageBudget string
	AccountDisk   string
	RequireKVM    bool
	EtcdEndpoints []string
	HostID        string
	PreviewDomain []string
}

// Check is one finding of the doctor.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warn, fail
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // the command, or the setting, that fixes it
}

// Setting is one effective value with where it came from.
type Setting struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`
	Origin string `json:"origin"` // flag, environment, file, default
}

// BuildOptions describe an image build.
type BuildOptions struct {
	Data      string // data directory; "" = as the environment says
	Recipe    string // a shipped recipe's name, or the path of a directory
	HostCAs   bool   // trust the CAs that the operator added to this host
	IfMissing bool   // keep an existing image of that name, and make only its missing parts
	NoWarm    bool   // make no warm generation
	Trust     string // digest of a recipe that is trusted; "" = none is named
	// AskTrust asks whether a recipe of the user is trusted, before anything of it is used;
	// an error = no.
	AskTrust func(Trust) error
	// Progress is called with the current step and its progress.
	Progress func(step string, done, total int)
	// Say is called with what a user should know of a build; may be nil.
	Say func(line string)
}

// ImportOptions describe an import of a container image.
type ImportOptions struct {
	Data   string // data directory; "" = as the environment says
	Source string // oci:NAME[:TAG|@DIGEST], layout:DIR, archive:FILE, or a name in a registry
	Name   string // of the image; "" = from the source
	// IfMissing keeps an image that was imported from the same words, and does not ask the registry again.
	IfMissing bool
	// User and Password are the login at the registry; "" = Docker's configuration of the user who runs this.
	User, Password string
	// Progress is called with the current step and its progress.
	Progress func(step string, done, total int)
}

// notHere is the error of a command whose function is nil.
func notHere(what string) error {
	return vm.Errorf(vm.Unsupported, what, "this build of warren cannot do that").WithHint("run it on the server's host")
}
