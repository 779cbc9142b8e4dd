// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree makes files and, for values that begin with "->", links below a new
// directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, body := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		switch target, link := strings.CutPrefix(body, "->"); {
		case link && filepath.IsAbs(target):
			err = os.Symlink(filepath.Join(root, target), p)
		case link:
			err = os.Symlink(target, p)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(p, 0o700)
		default:
			err = os.WriteFile(p, []byte(body), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func mountLine(dev, point, fsType, source, options string) string {
	return "36 35 " + dev + " / " + point + " rw,noatime master:1 - " + fsType + " " + source + " " + options + "\n"
}

// 003: the answer is right for what is stored on a fake of the kernel's view.
func TestEncrypted(t *testing.T) {
	data := t.TempDir() // what is asked for; every fake mount table has it
	crypt := t.TempDir()
	// One sysfs for all: sda (plain), sdb1 with LUKS on it, LVM over that, md
	// over one of each, a loop over a file on the encrypted volume.
	sysfs := tree(t, map[string]string{
		"devices/sda/size":                "1",
		"devices/sda/sda1/partition":      "1",
		"devices/sdb/sdb1/partition":      "1",
		"devices/dm-0/dm/uuid":            "CRYPT-LUKS2-0123-crypt\n",
		"devices/dm-0/slaves/sdb1":        "->/devices/sdb/sdb1",
		"devices/dm-1/dm/uuid":            "LVM-xyz",
		"devices/dm-1/slaves/dm-0":        "->/devices/dm-0",
		"devices/md0/slaves/dm-0":         "->/devices/dm-0",
		"devices/md0/slaves/sda1":         "->/devices/sda/sda1",
		"devices/md1/slaves/dm-0":         "->/devices/dm-0",
		"devices/md1/slaves/dm-1":         "->/devices/dm-1",
		"devices/md2/slaves/gone":         "->/devices/nothing",
		"devices/loop0/loop/backing_file": "/crypt/file.img\n",
		"devices/loop2/loop/backing_file": crypt + "/file.img\n",
		"dev/block/7:0":                   "->/devices/loop0",
		"dev/block/7:2":                   "->/devices/loop2",
		"devices/loop1/loop/backing_file": "/loop1/file.img\n",
		"devices/dmcrypt-p/dm/uuid":       "CRYPT-LUKS1-p",
		"devices/dmcrypt-p/p1/partition":  "1",
		"dev/block/8:0":                   "->/devices/sda",
		"dev/block/8:1":                   "->/devices/sda/sda1",
		"dev/block/254:0":                 "->/devices/dm-0",
		"dev/block/254:1":                 "->/devices/dm-1",
		"dev/block/9:0":                   "->/devices/md0",
		"dev/block/9:1":                   "->/devices/md1",
		"dev/block/9:2":                   "->/devices/md2",
		"dev/block/7:1":                   "->/devices/loop1",
		"dev/block/254:9":                 "->/devices/dmcrypt-p/p1",
		"class/block/dm-0":                "->/devices/dm-0",
		"class/block/dm-1":                "->/devices/dm-1",
		"class/block/sda1":                "->/devices/sda/sda1",
		"fs/btrfs/u1/devices/dm-0":        "->/devices/dm-0",
		"fs/btrfs/u1/devices/dm-1":        "->/devices/dm-1",
		"fs/btrfs/u2/devices/sda1":        "->/devices/sda/sda1",
		"fs/btrfs/u2/devices/dm-9":        "->/devices/dm-0",
	})
	root := mountLine("8:0", "/", "ext4", "/dev/sda", "rw")
	for _, c := range []struct {
		name, mounts string
		want         Verdict
	}{
		{"plain disk", root, Plain},
		{"plain partition", root + mountLine("8:1", data, "ext4", "/dev/sda1", "rw"), Plain},
		{"LUKS", root + mountLine("254:0", data, "ext4", "/dev/mapper/c", "rw"), Encrypted},
		{"partition of an encrypted disk", root + mountLine("254:9", data, "ext4", "/dev/mapper/p1", "rw"), Encrypted},
		{"LVM on LUKS", root + mountLine("254:1", data, "xfs", "/dev/mapper/l", "rw"), Encrypted},
		{"md with one plain leg", root + mountLine("9:0", data, "ext4", "/dev/md0", "rw"), Plain},
		{"md, every leg encrypted", root + mountLine("9:1", data, "ext4", "/dev/md1", "rw"), Encrypted},
		{"md with a leg that is gone", root + mountLine("9:2", data, "ext4", "/dev/md2", "rw"), Unknown},
		{"loop without end", root + mountLine("7:1", data, "ext4", "/dev/loop1", "rw"), Unknown},
		{"encrypted elsewhere only", root + mountLine("254:0", data+"x", "ext4", "/dev/mapper/c", "rw"), Plain},
		{"later mount hides", root + mountLine("254:0", data, "ext4", "/dev/mapper/c", "rw") + mountLine("8:1", data, "ext4", "/dev/sda1", "rw"), Plain},
		{"gocryptfs", root + mountLine("0:50", data, "fuse.gocryptfs", "/secret", "rw"), Encrypted},
		{"sshfs", root + mountLine("0:50", data, "fuse.sshfs", "host:", "rw"), Unknown},
		{"nfs", root + mountLine("0:51", data, "nfs4", "host:/x", "rw"), Unknown},
		{"tmpfs", root + mountLine("0:52", data, "tmpfs", "tmpfs", "rw"), Memory},
		{"btrfs, every device encrypted", root + mountLine("0:53", data, "btrfs", "/dev/dm-0", "rw"), Encrypted},
		{"btrfs, one device plain", root + mountLine("0:54", data, "btrfs", "/dev/dm-9", "rw"), Plain},
		{"btrfs, devices not to be seen", root + mountLine("0:54", data, "btrfs", "/dev/dm-77", "rw"), Unknown},
		{"zfs, encrypted", root + mountLine("0:55", data, "zfs", "tank/crypt", "rw"), Encrypted},
		{"zfs, plain", root + mountLine("0:55", data, "zfs", "tank/plain", "rw"), Plain},
		{"eCryptfs", root + mountLine("0:57", data, "ecryptfs", "/secret", "rw"), Encrypted},
		{"loop over a file that is not to be seen", root + mountLine("7:0", data, "ext4", "/dev/loop0", "rw"), Unknown},
		{"loop over an encrypted file", root + mountLine("254:1", crypt, "ext4", "/dev/mapper/l", "rw") + mountLine("7:2", data, "ext4", "/dev/loop2", "rw"), Encrypted},
		{"loop over a plain file", root + mountLine("7:2", data, "ext4", "/dev/loop2", "rw"), Plain},
		{"zfs", root + mountLine("0:55", data, "zfs", "tank/x", "rw"), Unknown},
		{"overlay", root + mountLine("0:56", data, "overlay", "overlay", "rw,lowerdir=/l,upperdir="+os.TempDir()+",workdir=/w"), Plain},
		{"overlay, upper not to be seen", root + mountLine("0:56", data, "overlay", "overlay", "rw,upperdir=/no/such"), Unknown},
		{"no device", root + mountLine("0:99", data, "ext4", "nowhere", "rw"), Unknown},
		{"nonsense", "x y z\n", Unknown},
	} {
		info := filepath.Join(t.TempDir(), "mountinfo")
		if err := os.WriteFile(info, []byte(c.mounts), 0o600); err != nil {
			t.Fatal(err)
		}
		zfs := func(dataset string) (string, error) {
			how, ok := map[string]string{"tank/crypt": "aes-256-gcm", "tank/plain": "off"}[dataset]
			if !ok {
				return "", os.ErrNotExist
			}
			return how, nil
		}
		got, why := Backing{Sysfs: sysfs, Mountinfo: info, ZFS: zfs}.Encrypted(data)
		if got != c.want || why == "" {
			t.Errorf("%s: %q (%s), want %q", c.name, got, why, c.want)
		}
	}
	if got, why := (Backing{Sysfs: sysfs, Mountinfo: "/nonexistent"}).Encrypted(data); got != Unknown {
		t.Errorf("no mountinfo: %q (%s)", got, why)
	}
	swaps := filepath.Join(t.TempDir(), "swaps")
	body := "Filename Type Size Used Priority\n/dev/dm-1 partition 1 0 -2\n/dev/sda1 partition 1 0 -3\n/dev/zram0 partition 1 0 5\n"
	if err := os.WriteFile(swaps, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := (Backing{Sysfs: sysfs}).Swap(swaps); len(got) != 1 || got[0] != "/dev/sda1" {
		t.Errorf("swap not encrypted: %q, want /dev/sda1", got)
	}
}

func TestMountOfEscapes(t *testing.T) {
	info := filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(info, []byte(mountLine("1:2", `/a\040b`, "ext4", "/dev/x", "rw")), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Backing{Mountinfo: info}.mountOf("/a b/c")
	if err != nil || m.point != "/a b" {
		t.Errorf("the mount is %+v (%v), want /a b", m, err)
	}
}
