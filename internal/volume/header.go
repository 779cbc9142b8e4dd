// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/vm"
)

// A disk has two parts without which all of it is lost: the first cluster of
// the qcow2 file, and the LUKS header with the key material, which the first
// cluster points to. Header keeps both:
//
//	magic [8] · offset of the LUKS header [8] · its length [8] · SHA-256 of the rest [32] · first cluster · LUKS header
const (
	backupMagic = "WRNVHB1\n"
	clusterSize = qcow.ClusterSize
	fixedSize   = 8 + 8 + 8 + sha256.Size
)

const luksMagic = "LUKS\xba\xbe"

var errHeader = errors.New("not the header of an encrypted disk")

// header is the two parts.
type header struct {
	cluster []byte
	offset  int64
	luks    []byte
}

// luksAt finds the LUKS header in a first cluster.
func luksAt(cluster []byte) (offset, length int64, err error) {
	h, err := qcow.Parse(cluster, qcow.Volume)
	if err != nil {
		return 0, 0, errHeader
	}
	return h.LUKSOffset, h.LUKSLength, nil
}

// readHeader reads both parts of a disk. errHeader when they are damaged.
func readHeader(f io.ReaderAt) (h header, err error) {
	h.cluster = make([]byte, clusterSize)
	if _, err := f.ReadAt(h.cluster, 0); err != nil {
		return h, errHeader
	}
	offset, length, err := luksAt(h.cluster)
	if err != nil {
		return h, err
	}
	h.offset, h.luks = offset, make([]byte, length)
	if _, err := f.ReadAt(h.luks, offset); err != nil {
		return h, errHeader
	}
	if !bytes.HasPrefix(h.luks, []byte(luksMagic)) {
		return h, errHeader
	}
	return h, nil
}

// uuid is the UUID in a LUKS header.
func uuid(h header) []byte { return h.luks[168:208] }

func (h header) encode() []byte {
	body := append(append([]byte{}, h.cluster...), h.luks...)
	sum := sha256.Sum256(body)
	out := append([]byte(backupMagic), binary.BigEndian.AppendUint64(nil, uint64(h.offset))...)
	out = binary.BigEndian.AppendUint64(out, uint64(len(h.luks)))
	return append(append(out, sum[:]...), body...)
}

// loadBackup reads the copy. errHeader when it is damaged or missing.
func loadBackup(d layout.VolumeDir) (h header, err error) {
	b, err := os.ReadFile(d.Header())
	if errors.Is(err, fs.ErrNotExist) {
		return h, errHeader
	}
	if err != nil {
		return h, layout.Error(d.Header(), err)
	}
	if len(b) < fixedSize+clusterSize || string(b[:8]) != backupMagic {
		return h, errHeader
	}
	body := b[fixedSize:]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], b[24:fixedSize]) {
		return h, errHeader
	}
	h = header{cluster: body[:clusterSize], offset: int64(binary.BigEndian.Uint64(b[8:])), luks: body[clusterSize:]}
	offset, length, err := luksAt(h.cluster)
	if err != nil || offset != h.offset || length != int64(len(h.luks)) {
		return h, errHeader
	}
	return h, nil
}

// backUp copies the header of a disk that was found good, if it has changed.
func backUp(d layout.VolumeDir) error {
	f, err := os.Open(d.Disk())
	if err != nil {
		return layout.Error(d.Disk(), err)
	}
	defer f.Close()
	now, err := readHeader(f)
	if err != nil {
		return damaged(vm.VolumeID(filepath.Base(string(d))), err.Error())
	}
	if old, err := loadBackup(d); err == nil && bytes.Equal(old.cluster, now.cluster) && bytes.Equal(old.luks, now.luks) {
		return nil
	}
	return layout.WriteFile(d.Header(), now.encode(), 0o600)
}

// recoverHeader restores a damaged header from its copy. It changes nothing if the
// header is intact or if there is no good copy: the check that follows then reports
// the damage.
func recoverHeader(d layout.VolumeDir) (recovered bool, err error) {
	good, err := loadBackup(d)
	if errors.Is(err, errHeader) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f, err := os.OpenFile(d.Disk(), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false, layout.Error(d.Disk(), err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Size() < good.offset+int64(len(good.luks)) {
		return false, layout.Error(d.Disk(), err) // truncated: nothing is left to put a header on
	}
	now, err := readHeader(f)
	switch {
	case err == nil && (bytes.Equal(now.luks, good.luks) || !bytes.Equal(uuid(now), uuid(good))):
		return false, nil // intact, or the disk of another volume
	case err == nil || len(now.luks) > 0: // the first cluster is intact
		_, err = f.WriteAt(good.luks, good.offset)
	default:
		if _, err = f.WriteAt(good.cluster, 0); err == nil {
			_, err = f.WriteAt(good.luks, good.offset)
		}
	}
	if err == nil {
		err = f.Sync()
	}
	return err == nil, layout.Error(d.Disk(), err)
}
