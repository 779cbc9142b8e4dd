// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// maxFaults bounds the faults that Check returns.
const maxFaults = 100

// Check reads the index of a data directory that no server uses, and compares the bytes of
// every version with it. It returns how many versions there are, and what is wrong. A
// directory without objects has none.
func Check(ctx context.Context, dir layout.Dir) (versions int, faults []string, err error) {
	if _, err := os.Stat(dir.ObjectIndex()); errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	c := checking{files: map[string]string{}}
	if err := c.find(dir); err != nil {
		return 0, nil, err
	}
	db, err := bolt.Open(dir.ObjectIndex(), 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, []string{"the index of objects cannot be opened: " + err.Error()}, nil
	}
	err = db.View(func(b *bolt.Tx) error {
		t := &tx{Tx: b}
		if t.Bucket(inVersions) == nil || t.Bucket(inSegments) == nil || t.Bucket(inBodies) == nil {
			c.fault("index", errors.New("it lacks a tree"))
			return nil
		}
		return t.Bucket(inVersions).ForEach(func(_, value []byte) error {
			c.versions++
			var s stored
			err := decode(value, &s)
			if err == nil {
				err = c.version(t, s)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				c.fault("version "+s.Version, err)
			}
			return nil
		})
	})
	return c.versions, c.faults, errors.Join(err, db.Close())
}

// checking is one check.
type checking struct {
	files    map[string]string // paths by the body's id
	versions int
	faults   []string
}

func (c *checking) fault(what string, err error) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, what+": "+err.Error())
	}
}

// find lists the files with bytes.
func (c *checking) find(dir layout.Dir) error {
	return filepath.WalkDir(dir.Objects(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return layout.Error(path, err)
		}
		if d.Type().IsRegular() {
			c.files[d.Name()] = path
		}
		return nil
	})
}

// version compares the bytes of one version with its size and, if it is known, its digest.
func (c *checking) version(t *tx, s stored) error {
	if s.Body == "" {
		return nil // a delete marker, or an empty object
	}
	list := []segment{{Body: s.Body, Inline: s.Inline, Size: s.Size}}
	if s.Parts > 0 {
		if ok, err := t.getJSON(inSegments, []byte(s.Body), &list); err != nil || !ok {
			return errors.Join(errors.New("its list of parts is gone"), err)
		}
	}
	sum := sha256.New()
	for _, one := range list {
		n, err := c.segment(t, one, sum)
		if err != nil {
			return err
		}
		if n != one.Size {
			return fmt.Errorf("it has %d bytes, its record says %d", n, one.Size)
		}
	}
	if have := hex.EncodeToString(sum.Sum(nil)); s.SHA256 != "" && have != s.SHA256 {
		return errors.New("its bytes have another digest than its record")
	}
	return nil
}

// segment writes the bytes of a segment to w and returns how many there are.
func (c *checking) segment(t *tx, s segment, w io.Writer) (int64, error) {
	if s.Inline {
		data := t.get(inBodies, []byte(s.Body))
		if data == nil {
			return 0, errors.New("its bytes are gone")
		}
		return io.Copy(w, bytes.NewReader(data))
	}
	path, ok := c.files[s.Body]
	if !ok {
		return 0, errors.New("the file with its bytes is gone")
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := io.Copy(w, f)
	if err != nil {
		err = vm.Errorf(vm.Internal, s.Body, "it cannot be read: %w", err)
	}
	return n, err
}
