// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package layout knows every file name that Warren uses: in the data directory, in
// a VM's directory, in an image's directory and in the run directory of sockets. It
// also holds the few ways in which files may be written (atomically, durably) and
// locked. It does not know the contents of the files. Every other package that uses
// the disk gets its names here; a test compares docs/internals.md with the methods
// of this package.
package layout

import (
	"path/filepath"

	"github.com/warren-vm/warren/vm"
)

// FormatVersion is the version of the data directory's layout that this
// program reads and writes.
const FormatVersion = 1

// Dir is a data directory. Its methods are names only; they touch nothing.
type Dir string

func (d Dir) join(elem ...string) string {
	return filepath.Join(append([]string{string(d)}, elem...)...)
}

// Format holds FormatVersion in decimal.
func (d Dir) Format() string { return d.join("format") }

// Lock is held (flock) by the one `serve` of the data directory.
func (d Dir) Lock() string { return d.join("lock") }

// ServerConfig is the operator's configuration of `serve`; it may be absent.
func (d Dir) ServerConfig() string { return d.join("server.yaml") }

// Trust lists the recipes that somebody trusts, by digest, mode 0600. TrustLock is held
// while it changes.
func (d Dir) Trust() string { return d.join("trust.json") }

// TrustLock is held while Trust changes.
func (d Dir) TrustLock() string { return d.join("trust.lock") }

// AskWebhookSecret signs the calls of --ask-webhook, mode 0600.
func (d Dir) AskWebhookSecret() string { return d.join("ask-webhook.secret") }

// ServeLog is the log of a server that `warren up` started.
func (d Dir) ServeLog() string { return d.join("serve.log") }

// AdminKey holds the admin API key that the first start made, mode 0600.
func (d Dir) AdminKey() string { return d.join("admin.key") }

// SSHHostKey is the private half of the SSH gateway's host key, which the first
// start made, mode 0600.
func (d Dir) SSHHostKey() string { return d.join("ssh_host_ed25519_key") }

// Host is the id of this server among those that share an etcd, as JSON.
func (d Dir) Host() string { return d.join("host.json") }

// Etcd is the directory of the embedded etcd.
func (d Dir) Etcd() string { return d.join("etcd") }

// Audit is the directory of the audit chain's segments.
func (d Dir) Audit() string { return d.join("audit") }

// Events is the directory of the event log's segments.
func (d Dir) Events() string { return d.join("events") }

// Cache is a directory whose contents may be deleted at any time, such as the
// result of the accelerator probe.
func (d Dir) Cache() string { return d.join("cache") }

// Downloads is the directory of archives that recipes named, each by its
// digest. Builds remove what no build has used for long.
func (d Dir) Downloads() string { return d.join("cache", "downloads") }

// Layers is the directory of systems that have the packages of a shipped
// recipe, which builds start from.
func (d Dir) Layers() string { return d.join("cache", "layers") }

// Layer is one of them, a tar; the key is the digest of what it was made from.
func (d Dir) Layer(recipe, key string) string {
	return d.join("cache", "layers", recipe+"-"+key+".tar")
}

// Builder is the directory of the VM that builds the Dockerfiles of one directory: its disk, with
// BuildKit's cache, and a lock. The key is the digest of the directory's name and the VM's image.
func (d Dir) Builder(key string) string { return d.join("cache", "builder", key) }

// ContainerParts is the directory of layers and manifests of container images, each by the SHA-256
// of its bytes. Imports remove what none has used for long.
func (d Dir) ContainerParts() string { return d.join("cache", "oci") }

// TemplateFiles is the directory of archives that clients of E2B's API uploaded for the builds of
// templates. A start empties it.
func (d Dir) TemplateFiles() string { return d.join("cache", "templates") }

// TemplateFile is one of them, named by the digest of its account, its template and its key.
func (d Dir) TemplateFile(key string) string { return d.join("cache", "templates", key) }

// Bin is the directory of a helper binary that `warren` unpacked, named by the
// hex SHA-256 of the binary.
func (d Dir) Bin(digest string) string { return d.join("bin", digest) }

// BinRoot is the directory of all unpacked binaries.
func (d Dir) BinRoot() string { return d.join("bin") }

// MonitorBinary is the unpacked warren-monitor of that digest.
func (d Dir) MonitorBinary(digest string) string { return d.join("bin", digest, "warren-monitor") }

// AgentBinary is the unpacked warren-agent of that digest.
func (d Dir) AgentBinary(digest string) string { return d.join("bin", digest, "warren-agent") }

// ReaderBinary is the unpacked warren-reader of that digest.
func (d Dir) ReaderBinary(digest string) string { return d.join("bin", digest, "warren-reader") }

// ReaderRoot is an empty directory over which each warren-reader mounts its own root.
func (d Dir) ReaderRoot() string { return d.join("cache", "reader") }

// Initramfs is the initial file system made of an agent and a kernel's
// modules. The kernel is a release and a digest of the modules.
func (d Dir) Initramfs(digest, kernel string) string {
	return d.join("bin", digest, "initramfs-"+kernel+".cpio")
}

// Images is the directory of all images.
func (d Dir) Images() string { return d.join("images") }

// ImageBuilding is the directory of a running or interrupted build, named by the
// digest of the resolved recipe.
func (d Dir) ImageBuilding(digest string) string { return d.join("images", ".building-"+digest) }

// ImageBuildLock is held (flock) by the one build of that recipe digest.
func (d Dir) ImageBuildLock(digest string) string {
	return d.join("images", ".building-"+digest+".lock")
}

// Image is the directory of one image. Only a finished image has this name.
func (d Dir) Image(id vm.ImageID) string { return d.join("images", string(id)) }

// ImageManifest is the vm.Image, as JSON.
func (d Dir) ImageManifest(id vm.ImageID) string { return ImageDir(d.Image(id)).Manifest() }

// ImageDisk is the image's root file system, a qcow2 without a backing file.
func (d Dir) ImageDisk(id vm.ImageID) string { return ImageDir(d.Image(id)).Disk() }

// Kernel is the image's kernel, an ELF vmlinux that boots by PVH.
func (d Dir) Kernel(id vm.ImageID) string { return ImageDir(d.Image(id)).Kernel() }

// WarmRoot is the directory of an image's warm generations.
func (d Dir) WarmRoot(id vm.ImageID) string { return ImageDir(d.Image(id)).WarmRoot() }

// Warm is the directory of one warm generation; key is the digest of all that it
// depends on.
func (d Dir) Warm(id vm.ImageID, key string) string { return ImageDir(d.Image(id)).Warm(key) }

// Generations is the directory of all generations but the images' warm ones.
func (d Dir) Generations() string { return d.join("generations") }

// Generation is the directory of one generation.
func (d Dir) Generation(id vm.GenerationID) string { return d.join("generations", string(id)) }

// Volumes is the directory of all managed volumes.
func (d Dir) Volumes() string { return d.join("volumes") }

// Volume is the directory of one managed volume.
func (d Dir) Volume(id vm.VolumeID) string { return d.join("volumes", string(id)) }

// Answers is the directory of the answers of background requests.
func (d Dir) Answers() string { return d.join("answers") }

// Answer is the body of one answer, 0600.
func (d Dir) Answer(id vm.RequestID) string { return d.join("answers", string(id)) }

// Repos is the directory of all git repositories.
func (d Dir) Repos() string { return d.join("repos") }

// Repo is the bare git repository with an id.
func (d Dir) Repo(id string) string { return d.join("repos", id) }

// RepoIncoming is the directory of objects that are being checked before they join a
// repository. A start empties it.
func (d Dir) RepoIncoming() string { return d.join("repos", ".incoming") }

// Objects is the directory of object storage.
func (d Dir) Objects() string { return d.join("objects") }

// ObjectIndex is the database of object versions, a bbolt file.
func (d Dir) ObjectIndex() string { return d.join("objects", "index.db") }

// ObjectIncoming is the directory of bodies that are being written, or that were written
// and have not been moved to their account's directory yet.
func (d Dir) ObjectIncoming() string { return d.join("objects", ".incoming") }

// ObjectBodies is the directory of the bodies of an account's objects. Small bodies are
// in the index.
func (d Dir) ObjectBodies(account vm.AccountID) string { return d.join("objects", string(account)) }

// ObjectBody is the file of one body.
func (d Dir) ObjectBody(account vm.AccountID, id string) string {
	return d.join("objects", string(account), id[:min(2, len(id))], id)
}

// Unrecorded is where VMs, generations, volumes and repositories without a record are moved. It
// has directories named like those here, so that relative names between the files
// stay valid.
func (d Dir) Unrecorded() string { return d.join("unrecorded") }

// HostKey is the host's key, which wraps the keys of what is encrypted, mode
// 0600.
func (d Dir) HostKey() string { return d.join("host.key") }

// BundleKey signs bundles and backups. It is wrapped by the host's key, mode 0600.
func (d Dir) BundleKey() string { return d.join("bundle.key") }

// Restoring is where a restore of a backup puts the files together, in a directory that is
// no data directory yet.
func (d Dir) Restoring() string { return d.join("restoring") }

// PreviewCA is the certificate of the CA that signs previews' names.
func (d Dir) PreviewCA() string { return d.join("preview-ca.pem") }

// PreviewCAKey is its key, mode 0600.
func (d Dir) PreviewCAKey() string { return d.join("preview-ca.key") }

// InsideCA is the certificate of the CA that signs the names that VMs reach inside
// their own network.
func (d Dir) InsideCA() string { return d.join("inside-ca.pem") }

// InsideCAKey is its key, mode 0600.
func (d Dir) InsideCAKey() string { return d.join("inside-ca.key") }

// PreviewKey signs links to previews and makes tokens of sandboxes, mode 0600.
func (d Dir) PreviewKey() string { return d.join("preview.key") }

// Certificates is the directory of the ACME client: its account, and keys and
// certificates of mapped domains.
func (d Dir) Certificates() string { return d.join("certificates") }

// VMs is the directory of all VMs.
func (d Dir) VMs() string { return d.join("vms") }

// VM is the directory of one VM.
func (d Dir) VM(id vm.ID) string { return d.join("vms", string(id)) }

// Overlay is the VM's disk, a qcow2 over its generation's disk.
func (d Dir) Overlay(id vm.ID) string { return VMDir(d.VM(id)).Overlay() }

// InterceptCA is the certificate of the VM's own CA, which signs for hosts whose requests its
// network reads.
func (v VMDir) InterceptCA() string { return filepath.Join(string(v), "ca.pem") }

// InterceptCAKey is its key, mode 0600.
func (v VMDir) InterceptCAKey() string { return filepath.Join(string(v), "ca.key") }

// Logs is the directory of a VM's logs on the host.
func (d Dir) Logs(id vm.ID) string { return VMDir(d.VM(id)).Logs() }

// ConsoleLog is what the guest wrote to its serial console, bounded; the older
// half is the same name with ".1".
func (d Dir) ConsoleLog(id vm.ID) string { return VMDir(d.VM(id)).ConsoleLog() }

// ImageDir is one image's directory, finished or being built.
type ImageDir string

// Manifest is the vm.Image, as JSON.
func (i ImageDir) Manifest() string { return filepath.Join(string(i), "manifest.json") }

// Disk is the root file system, a qcow2 without a backing file.
func (i ImageDir) Disk() string { return filepath.Join(string(i), "disk.qcow2") }

// Kernel is the ELF vmlinux.
func (i ImageDir) Kernel() string { return filepath.Join(string(i), "vmlinux") }

// Modules is the directory of modules for the initial file system.
func (i ImageDir) Modules() string { return filepath.Join(string(i), "modules") }

// ModuleOrder lists the names of the modules in the order of loading.
func (i ImageDir) ModuleOrder() string { return filepath.Join(string(i), "modules", "order") }

// Recipe is the resolved recipe.
func (i ImageDir) Recipe() string { return filepath.Join(string(i), "recipe.yaml") }

// Log is the output of the build's programs.
func (i ImageDir) Log() string { return filepath.Join(string(i), "build.log") }

// WarmRoot is the directory of the warm generations.
func (i ImageDir) WarmRoot() string { return filepath.Join(string(i), "warm") }

// Warm is the directory of one warm generation.
func (i ImageDir) Warm(key string) string { return filepath.Join(string(i), "warm", key) }

// GenerationDir is the directory of one generation, warm or not.
type GenerationDir string

// Manifest is the vm.Generation, as JSON.
func (g GenerationDir) Manifest() string { return filepath.Join(string(g), "manifest.json") }

// Disk is the frozen disk layer, a qcow2 with a relative backing name.
func (g GenerationDir) Disk() string { return filepath.Join(string(g), "disk.qcow2") }

// RAM is the guest's memory, a sparse file that is mapped privately and never
// written.
func (g GenerationDir) RAM() string { return filepath.Join(string(g), "ram") }

// Module is the memory of a module that was plugged into the machine, a sparse
// file like RAM.
func (g GenerationDir) Module(id string) string { return filepath.Join(string(g), "ram-"+id) }

// Device is the device state as xen-save-devices-state wrote it.
func (g GenerationDir) Device() string { return filepath.Join(string(g), "device") }

// Captured marks a capture as complete: vm.Captured, as JSON.
func (g GenerationDir) Captured() string { return filepath.Join(string(g), "captured.json") }

// Ran is what ran in the guest at the capture: a vm.GuestState, as JSON. Few
// generations have it.
func (g GenerationDir) Ran() string { return filepath.Join(string(g), "ran.json") }

// SealedRAM is the memory, compressed and encrypted, of a generation that is
// cold.
func (g GenerationDir) SealedRAM() string { return filepath.Join(string(g), "ram.sealed") }

// SealedModule is the memory of a module of a cold generation.
func (g GenerationDir) SealedModule(id string) string {
	return filepath.Join(string(g), "ram-"+id+".sealed")
}

// SealedDevice is the device state of a cold generation.
func (g GenerationDir) SealedDevice() string { return filepath.Join(string(g), "device.sealed") }

// VolumeDir is one managed volume's directory.
type VolumeDir string

// Disk is the volume's contents, a qcow2 encrypted with LUKS.
func (v VolumeDir) Disk() string { return filepath.Join(string(v), "disk.qcow2") }

// Slots is the volume's key, wrapped once for each way to unlock it, as JSON.
func (v VolumeDir) Slots() string { return filepath.Join(string(v), "slots.json") }

// Header is a copy of the parts of Disk without which its contents are lost.
func (v VolumeDir) Header() string { return filepath.Join(string(v), "header.backup") }

// VMDir is one VM's directory, as in vm.MachineSpec.Dir.
type VMDir string

// Machine is the vm.MachineSpec, as JSON, mode 0600.
func (v VMDir) Machine() string { return filepath.Join(string(v), "machine.json") }

// Overlay is the VM's disk.
func (v VMDir) Overlay() string { return filepath.Join(string(v), "overlay.qcow2") }

// NextOverlay is the disk to which a VM writes after the capture of that
// generation, until it gets the name of Overlay.
func (v VMDir) NextOverlay(id vm.GenerationID) string {
	return filepath.Join(string(v), "overlay-"+string(id)+".qcow2")
}

// ColdRAM is the memory file of a cold boot.
func (v VMDir) ColdRAM() string { return filepath.Join(string(v), "ram") }

// SpareRAM is a copy of the memory file that the VM runs on, made for the next
// capture.
func (v VMDir) SpareRAM() string { return filepath.Join(string(v), "ram.spare") }

// Lent is the directory of second names of files that the VM's QEMU may open
// after its start.
func (v VMDir) Lent() string { return filepath.Join(string(v), "lent") }

// Connections is a list of vm.ConnectionBatch, as JSON: connections of the guest that the
// server has not recorded, because it was away until the machine's end.
func (v VMDir) Connections() string { return filepath.Join(string(v), "connections.json") }

// ColdModule is the memory file of a module that was plugged in, lent.
func (v VMDir) ColdModule(id string) string { return filepath.Join(v.Lent(), "ram-"+id) }

// Logs is the directory of the logs on the host.
func (v VMDir) Logs() string { return filepath.Join(string(v), "logs") }

// ConsoleLog is the serial console's log.
func (v VMDir) ConsoleLog() string { return filepath.Join(string(v), "logs", "console.log") }

// QEMULog is QEMU's standard output and error, bounded.
func (v VMDir) QEMULog() string { return filepath.Join(string(v), "logs", "qemu.log") }

// MonitorLog is the monitor's log, bounded.
func (v VMDir) MonitorLog() string { return filepath.Join(string(v), "logs", "monitor.log") }
