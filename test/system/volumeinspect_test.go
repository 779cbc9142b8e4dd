// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
)

// keepSecret starts a program whose memory has a text that no file has.
const keepSecret = `printf 'quarterly figures' > /v/report.txt; sync
cat > /dev/shm/p.py <<'P'
import os, time
text = ''.join(['TYPED', 'INTO', 'A', 'PROGRAM'])
open('/tmp/pid', 'w').write(str(os.getpid()))
time.sleep(3600)
P
setsid python3 /dev/shm/p.py >/dev/null 2>&1 </dev/null &
while ! [ -s /tmp/pid ]; do sleep 0.1; done; rm /dev/shm/p.py
`

// findSecret says where the text is: in files of directories, and in that program's memory.
const findSecret = `import os, re, sys
text = b''.join([b'TYPED', b'INTO', b'A', b'PROGRAM'])
files = [p for top in sys.argv[1:] for p, _, names in os.walk(top) for n in names if os.path.isfile(p + '/' + n) and text in open(p + '/' + n, 'rb').read()]
memory = 0
try:
    pid = open('/tmp/pid').read()
    with open('/proc/%s/mem' % pid, 'rb') as m:
        for a, b in re.findall(r'^(\w+)-(\w+) rw', open('/proc/%s/maps' % pid).read(), re.M):
            m.seek(int(a, 16))
            memory += text in m.read(int(b, 16) - int(a, 16))
except FileNotFoundError:
    pass
print(len(files), 'files, memory' if memory else 'files')
`

// TestVolumeInspected: one mount shows everything that a volume holds, which is the files that
// were put there. A snapshot of the VM has more bytes, and holds a text that a program had in
// memory and that no file shows. Both are labelled as what may hold secrets.
//
// 003-26
func TestVolumeInspected(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "box")
	h.ok("volume", "create", "kept", "--size", "256")
	h.ok("volume", "unlock", "kept")
	h.ok("volume", "mount", "box", "--volume", "kept", "--guest", "/v", "--rw")
	if r := h.runIn("", []byte(keepSecret), "exec", "-i", "box", "--", "sh"); r.code != 0 {
		t.Fatalf("the program does not start: %s", r.stderr)
	}
	h.ok("volume", "unmount", "box", "/v")
	h.ok("snapshot", "create", "box", "--name", "all")
	h.sh("box", "kill $(cat /tmp/pid); rm /tmp/pid")
	found := func(name string, dirs ...string) string {
		t.Helper()
		r := h.runIn("", []byte(findSecret), append([]string{"exec", "-i", name, "--", "python3", "-"}, dirs...)...)
		if r.code != 0 {
			t.Fatalf("the search in %s: %s", name, r.stderr)
		}
		return strings.TrimSpace(r.stdout)
	}
	h.ok("up", "--name", "look")
	h.ok("volume", "mount", "look", "--volume", "kept", "--guest", "/v")
	if got := h.sh("look", "cd /v; find . -type f -exec tail -v {} +"); got != "==> ./report.txt <==\nquarterly figures" {
		t.Errorf("a mount of the volume shows %q, want the one file", got)
	}
	if got := found("look", "/v"); got != "0 files" {
		t.Errorf("in the volume, what a program had in memory is in %s", got)
	}
	h.ok("rollback", "box", "all")
	if got := found("box", "/root", "/home", "/tmp", "/dev/shm", "/var", "/etc", "/workspace"); got != "0 files, memory" {
		t.Errorf("after a start from the snapshot, what a program had in memory is in %s, want in its memory and no file", got)
	}
	var volume api.Volume
	var snapshots []api.Snapshot
	for what, to := range map[string]any{h.ok("volume", "inspect", "kept"): &volume, h.ok("snapshot", "ls", "--json"): &snapshots} {
		if err := json.Unmarshal([]byte(what), to); err != nil {
			t.Fatal(err)
		}
	}
	at := slices.IndexFunc(snapshots, func(s api.Snapshot) bool { return s.Name == "all" })
	if at < 0 {
		t.Fatal("the snapshot is not listed")
	}
	snapshot := snapshots[at]
	if volume.UsedBytes <= 0 || volume.UsedBytes >= snapshot.DataBytes {
		t.Errorf("the volume keeps %d bytes, the snapshot %d, want fewer in the volume", volume.UsedBytes, snapshot.DataBytes)
	}
	if !volume.Sensitive || !slices.Contains(snapshot.MayContain, "credentials") || !slices.Contains(snapshot.MayContain, "memory") || !slices.Contains(snapshot.VolumesSeen, volume.ID) {
		t.Errorf("the volume is sensitive: %v; the snapshot may contain %v, and parts of the volumes %v: want a label on both", volume.Sensitive, snapshot.MayContain, snapshot.VolumesSeen)
	}
}
