// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// disks is the part of the simulated QEMU that has disks of volumes. Its
// machine refuses to give a disk up once, and to close one twice.
type disks struct {
	mu      sync.Mutex
	secrets map[string]string
	nodes   map[string]any
	devices []string
	again   int

	snapshots []string
}

// argument is one of the command line: a secret is read from where it says.
func (d *disks) argument(arg string) {
	var a struct {
		Driver, ID, File string
		Type             string `json:"qom-type"`
	}
	if json.Unmarshal([]byte(arg), &a) != nil {
		return // not of those
	}
	switch {
	case a.Type == "secret":
		key, err := os.ReadFile(a.File)
		if err != nil || string(key) != "right" {
			fmt.Fprintf(os.Stderr, "qemu-system-x86_64: the secret %s is %q, %v\n", a.ID, key, err)
			os.Exit(1)
		}
		d.secrets, d.nodes = map[string]string{a.ID: string(key)}, map[string]any{}
	case a.Driver == "virtio-blk-pci":
		d.devices = append(d.devices, a.ID)
	}
}

// qmp answers a command about disks: a result, or, with an empty one, why not.
func (d *disks) qmp(command string, args map[string]any) (result, refusal string, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.secrets == nil {
		d.secrets, d.nodes = map[string]string{}, map[string]any{}
	}
	id, _ := args["id"].(string)
	node, _ := args["node-name"].(string)
	switch {
	case command == "object-add" && args["qom-type"] == "secret":
		d.secrets[id], _ = args["data"].(string)
	case command == "object-del" && strings.HasPrefix(id, "key-"):
		if d.secrets[id] == "" {
			return "", "object not found", true
		}
		delete(d.secrets, id)
	case command == "blockdev-add":
		key := args["encrypt"].(map[string]any)["key-secret"].(string)
		if d.secrets[key] != "right" {
			return "", "Invalid password, cannot unlock any keyslot", true
		}
		d.nodes[node] = args
	case command == "device_add" && args["driver"] == "virtio-blk-pci":
		d.devices = append(d.devices, id)
	case command == "device_del":
		if !slices.Contains(d.devices, id) {
			return "", "DeviceNotFound", true
		}
		d.devices = slices.DeleteFunc(d.devices, func(o string) bool { return o == id })
	case command == "blockdev-del":
		if d.again++; d.again%3 != 0 {
			return "", "Node " + node + " is in use", true
		}
		delete(d.nodes, node)
	case command == "blockdev-snapshot-internal-sync":
		at, _ := args["device"].(string)
		if d.nodes[at] == nil {
			return "", "Cannot find device", true
		}
		d.snapshots = append(d.snapshots, args["name"].(string))
	case command == "blockdev-snapshot-delete-internal-sync":
		if !slices.Contains(d.snapshots, args["name"].(string)) {
			return "", "Snapshot with id 'null' and name 'x' does not exist on device 'y'", true
		}
	case command == "qom-list":
		var list []map[string]string
		for _, name := range append([]string{"serial0", "port1"}, d.devices...) {
			list = append(list, map[string]string{"name": name})
		}
		return encoded(list), "", true
	default:
		return "", "", false
	}
	return "{}", "", true
}

// encrypted is the disk of a volume, made once: qemu-img measures how fast the host
// derives keys, which takes seconds of CPU time, and on a busy host minutes.
var encrypted = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "wd")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "disk")
	for {
		out, err := exec.Command("qemu-img", "create", "-q", "--object", "secret,id=k,data=right", "-f", "qcow2", "-o", "encrypt.format=luks,encrypt.key-secret=k,encrypt.iter-time=10", path, "16M").CombinedOutput()
		if err == nil {
			return os.ReadFile(path)
		}
		if !strings.Contains(string(out), "CPU usage") { // QEMU could not measure the host: see volume.tries
			return nil, fmt.Errorf("%w: %s", err, out)
		}
	}
})

// volumeDisk makes the disk of a volume: its header is looked at before QEMU
// opens it. Call it before the time of a test is measured: the first call takes long.
func volumeDisk(t *testing.T, path string) {
	t.Helper()
	disk, err := encrypted()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, disk, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestVolumes: volumes are plugged in and out, as many as there are ports, the
// keys stay nowhere, and the next monitor knows them.
func TestVolumes(t *testing.T) {
	dir := t.TempDir()
	volume := func(n int) vm.PluggedVolume {
		id := vm.VolumeID(fmt.Sprintf("vol-%016d", n))
		return vm.PluggedVolume{ID: id, File: filepath.Join(dir, string(id)), ReadOnly: n%2 == 0}
	}
	for n := range 6 {
		volumeDisk(t, volume(n).File)
	}
	ctx := deadline(t)
	spec := resizable(t, "well")
	l, c := launch(ctx, t, spec)
	if err := c.PlugVolume(ctx, volume(1), vm.VolumeKey("wrong")); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("with a wrong key: %v", err)
	}
	for n := range 4 {
		if err := c.PlugVolume(ctx, volume(n), vm.VolumeKey("right")); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.PlugVolume(ctx, volume(4), vm.VolumeKey("right")); vm.AsError(err).Code != "VOLUME_LIMIT_EXCEEDED" {
		t.Errorf("one too many: %v", err)
	}
	if err := c.PlugVolume(ctx, volume(3), vm.VolumeKey("right")); vm.KindOf(err) != vm.Exists {
		t.Errorf("twice the same: %v", err)
	}
	if err := c.UnplugVolume(ctx, volume(1).ID); err != nil {
		t.Fatal(err)
	}
	if err := c.UnplugVolume(ctx, volume(1).ID); err != nil {
		t.Errorf("one that is not there: %v", err)
	}
	want := map[vm.VolumeID]int{volume(0).ID: 1, volume(2).ID: 3, volume(3).ID: 4}
	check := func(when string, list []vm.PluggedVolume) {
		t.Helper()
		if len(list) != len(want) {
			t.Errorf("%s: the volumes are %+v, want %d", when, list, len(want))
		}
		for _, v := range list {
			if want[v.ID] != v.Port {
				t.Errorf("%s: %s is on port %d", when, v.ID, v.Port)
			}
		}
	}
	check("kept", kept(t, spec).Plugged.Volumes)
	if err := c.SnapshotVolume(ctx, volume(3).ID, "vs-a"); err != nil {
		t.Errorf("a snapshot: %v", err)
	}
	if err := c.SnapshotVolume(ctx, volume(1).ID, "vs-a"); err == nil {
		t.Error("a snapshot of a disk that is not there")
	}
	for _, name := range []string{"vs-a", "vs-none"} {
		if err := c.DropVolumeSnapshot(ctx, volume(3).ID, name); err != nil {
			t.Errorf("dropping %s: %v", name, err)
		}
	}
	if err := c.PlugVolume(ctx, volume(5), vm.VolumeKey("right")); err != nil {
		t.Fatal(err)
	}
	want[volume(5).ID] = 2
	id, err := loadIdentity(spec.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c, st, err := l.Attach(ctx, spec.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	check("taken over", st.Plugged.Volumes)
	noKeyIn(t, spec.Dir)
	noKeyIn(t, spec.RunDir)
}

func noKeyIn(t *testing.T, dir string) {
	t.Helper()
	names, _ := filepath.Glob(dir + "/*")
	logs, _ := filepath.Glob(dir + "/*/*")
	for _, name := range append(names, logs...) {
		if st, err := os.Lstat(name); err != nil || !st.Mode().IsRegular() {
			continue // to read a pipe is to wait for its writer
		}
		if data, err := os.ReadFile(name); err == nil && (strings.Contains(string(data), "right") || strings.Contains(string(data), "cmlnaHQ")) {
			t.Errorf("%s holds a key", name)
		}
	}
}

// TestVolumeKeys: a machine that starts with volumes gets their keys through
// its monitor, and without them it is not started.
func TestVolumeKeys(t *testing.T) {
	id := vm.NewVolumeID()
	file := filepath.Join(t.TempDir(), string(id))
	volumeDisk(t, file)
	ctx := deadline(t)
	spec := resizable(t, "well")
	spec.Plugged.Volumes = []vm.PluggedVolume{{ID: id, File: file, Port: 1}}
	if _, _, err := launcher(t).Launch(ctx, spec); vm.KindOf(err) != vm.WrongState {
		t.Errorf("without its key: %v", err)
	}
	spec.VolumeKeys = map[vm.VolumeID]vm.VolumeKey{id: vm.VolumeKey("right")}
	_, c := launch(ctx, t, spec)
	st, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Plugged.Volumes) != 1 {
		t.Errorf("started with %+v", st.Plugged.Volumes)
	}
	noKeyIn(t, spec.Dir)
	noKeyIn(t, spec.RunDir)
}
