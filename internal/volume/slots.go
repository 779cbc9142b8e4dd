// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/seal"
	"github.com/warren-vm/warren/vm"
)

const (
	slotsFormat = 1
	maxSlots    = 8
	maxWrapped  = 16 << 10 // maximum bytes of an unwrapped key
)

// The cost of argon2id for each try of a passphrase. The first recommendation of
// RFC 9106 takes 2 GiB; this is its second.
const (
	argonTime   = 3
	argonMemory = 64 << 10 // KiB
	argonLanes  = 4
	saltBytes   = 16
)

// slots is the file Slots.
type slots struct {
	Format int       `json:"format"`
	Slots  []wrapped `json:"slots"`
}

// wrapped is the volume's key as one slot stores it.
type wrapped struct {
	vm.VolumeSlot
	Key []byte `json:"key"`
	// Only of a passphrase.
	Salt   []byte `json:"salt,omitempty"`
	Time   uint32 `json:"time,omitempty"`
	Memory uint32 `json:"memory,omitempty"` // KiB
	Lanes  uint8  `json:"lanes,omitempty"`
}

func loadSlots(d layout.VolumeDir) (s slots, err error) {
	if err := layout.ReadJSON(d.Slots(), &s); err != nil {
		return s, err
	}
	if s.Format != slotsFormat {
		return s, vm.Errorf(vm.Unsupported, d.Slots(), "its format %d is not this version's", s.Format)
	}
	return s, nil
}

func saveSlots(d layout.VolumeDir, s slots) error { return layout.WriteJSON(d.Slots(), s, 0o600) }

// Slots describes the ways to unlock a volume.
func (s Store) Slots(id vm.VolumeID) ([]vm.VolumeSlot, error) {
	all, err := loadSlots(s.dir(id))
	if err != nil {
		return nil, err
	}
	out := make([]vm.VolumeSlot, 0, len(all.Slots))
	for _, w := range all.Slots {
		out = append(out, w.VolumeSlot)
	}
	return out, nil
}

// AddSlot adds a way to unlock a volume.
func (s Store) AddSlot(id vm.VolumeID, key vm.VolumeKey, spec vm.VolumeSlotSpec) (vm.VolumeSlot, error) {
	all, err := loadSlots(s.dir(id))
	if err != nil {
		return vm.VolumeSlot{}, err
	}
	if len(all.Slots) >= maxSlots {
		return vm.VolumeSlot{}, vm.Errorf(vm.Limit, string(id), "it has %d slots already", maxSlots).
			WithHint("remove one first: `warren volume key rm`")
	}
	w, err := s.wrap(id, key, spec)
	if err != nil {
		return vm.VolumeSlot{}, err
	}
	all.Slots = append(all.Slots, w)
	return w.VolumeSlot, saveSlots(s.dir(id), all)
}

// RemoveSlot removes a way to unlock a volume, but never the last one.
func (s Store) RemoveSlot(id vm.VolumeID, slot string) error {
	all, err := loadSlots(s.dir(id))
	if err != nil {
		return err
	}
	for i, w := range all.Slots {
		if w.ID != slot {
			continue
		}
		if len(all.Slots) == 1 {
			return vm.Errorf(vm.WrongState, slot, "it is the only slot: without it nothing opens the volume").
				WithHint("add another first, or remove the volume: `warren volume rm`")
		}
		all.Slots = append(all.Slots[:i], all.Slots[i+1:]...)
		return saveSlots(s.dir(id), all)
	}
	return vm.Errorf(vm.NotFound, slot, "the volume has no such slot").WithCode("VOLUME_SLOT_NOT_FOUND").
		WithHint("`warren volume inspect` lists them")
}

// Rotate gives an unused volume another key. The old key, and copies of the old
// slots, then open nothing. The key that encrypts the disk's data stays. A slot of
// a passphrase cannot be rewritten without the passphrase: if there is one, Rotate
// refuses with kind WrongState.
func (s Store) Rotate(ctx context.Context, id vm.VolumeID, key vm.VolumeKey) (vm.VolumeKey, error) {
	d := s.dir(id)
	all, err := loadSlots(d)
	if err != nil {
		return nil, err
	}
	next := newKey()
	for i, w := range all.Slots {
		if w.Kind == vm.SlotPassphrase {
			return nil, vm.Errorf(vm.WrongState, w.ID, "the slot of a passphrase cannot be given another key without it").
				WithHint("remove it (`warren volume key rm`), and add it again after")
		}
		made, err := s.wrap(id, next, vm.VolumeSlotSpec{Name: w.Name, Recipient: w.Recipient})
		if err != nil {
			return nil, err
		}
		made.ID = w.ID
		all.Slots[i] = made
	}
	// After each of these steps the slots open the disk, and so does the copy of
	// its header.
	if err := addKey(ctx, d.Disk(), key, next); err != nil {
		return nil, err
	}
	if err := backUp(d); err != nil {
		return nil, err
	}
	if err := saveSlots(d, all); err != nil {
		return nil, err
	}
	if err := dropKey(ctx, d.Disk(), next, key); err != nil {
		return next, err
	}
	return next, backUp(d)
}

// wrap makes a slot for a volume's key.
func (s Store) wrap(id vm.VolumeID, key vm.VolumeKey, spec vm.VolumeSlotSpec) (w wrapped, err error) {
	w.VolumeSlot = vm.VolumeSlot{ID: vm.NewSlotID(), Kind: spec.Kind(), Name: spec.Name, Recipient: spec.Recipient, CreatedAt: time.Now().UTC()}
	if spec.Passphrase != "" && spec.Recipient != "" {
		return w, vm.Errorf(vm.Invalid, "", "a slot is for a passphrase or for a recipient, not for both").WithCode("INVALID_REQUEST")
	}
	switch w.Kind {
	case vm.SlotHost:
		host, err := seal.EnsureHostKey(s.Dir.HostKey())
		if err != nil {
			return w, err
		}
		w.Key, err = seal.Wrap(host, key)
		return w, err
	case vm.SlotRecipient:
		w.Key, err = wrapFor(spec.Recipient, key)
		return w, err
	}
	w.Time, w.Memory, w.Lanes = argonTime, argonMemory, argonLanes
	w.Salt = make([]byte, saltBytes)
	_, _ = rand.Read(w.Salt) // never fails
	aead, err := w.cipher(spec.Passphrase)
	if err != nil {
		return w, err
	}
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	w.Key = aead.Seal(nonce, nonce, key, w.bound(id))
	return w, nil
}

// bound ties a wrapped key to its volume and slot.
func (w wrapped) bound(id vm.VolumeID) []byte { return []byte(string(id) + "/" + w.ID) }

// cipher derives the key that encrypts a volume's key from a passphrase.
func (w wrapped) cipher(passphrase string) (interface {
	NonceSize() int
	Seal(dst, nonce, plaintext, additionalData []byte) []byte
	Open(dst, nonce, ciphertext, additionalData []byte) ([]byte, error)
}, error,
) {
	k := derive(passphrase, w.Salt, w.Time, w.Memory, w.Lanes)
	defer clear(k)
	aead, err := chacha20poly1305.NewX(k)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "", "no cipher: %w", err)
	}
	return aead, nil
}

// deriving is held while a passphrase of any volume is tried, because each try
// costs memory. Only tries wait for it, and its holder waits for nothing.
var deriving sync.Mutex

func derive(passphrase string, salt []byte, time, memory uint32, lanes uint8) []byte {
	deriving.Lock()
	defer deriving.Unlock()
	return argon2.IDKey([]byte(passphrase), salt, time, memory, lanes, chacha20poly1305.KeySize)
}

func wrapFor(recipient string, key []byte) ([]byte, error) {
	r, err := age.ParseX25519Recipient(strings.TrimSpace(recipient))
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, recipient, "not an age recipient").WithCode("INVALID_REQUEST").
			WithHint("give the public key that age-keygen prints: age1...")
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, r)
	if err == nil {
		_, err = w.Write(key)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "", "the key can't be wrapped: %w", err)
	}
	return out.Bytes(), nil
}

// unwrap finds the slot that a secret opens. Without a secret it uses the host's.
func (s Store) unwrap(id vm.VolumeID, secret vm.VolumeSecret) (vm.VolumeKey, error) {
	all, err := loadSlots(s.dir(id))
	if err != nil {
		return nil, err
	}
	switch {
	case secret.Passphrase != "" && secret.Identity != "":
		return nil, vm.Errorf(vm.Invalid, string(id), "give a passphrase or an identity, not both").WithCode("INVALID_REQUEST")
	case secret.Passphrase != "":
		return all.byPassphrase(id, secret.Passphrase)
	case secret.Identity != "":
		return all.byIdentity(id, secret.Identity)
	}
	return s.byHost(id, all)
}

// refused gives the same error for every secret that opens nothing: it does not
// tell whether such a slot exists.
func refused(id vm.VolumeID) error {
	return vm.Errorf(vm.Denied, string(id), "this secret opens none of the volume's slots").WithCode("VOLUME_SECRET_REFUSED")
}

func (s Store) byHost(id vm.VolumeID, all slots) (vm.VolumeKey, error) {
	for _, w := range all.Slots {
		if w.Kind != vm.SlotHost {
			continue
		}
		host, err := seal.LoadHostKey(s.Dir.HostKey())
		if err != nil {
			return nil, err
		}
		return seal.Unwrap(host, w.Key)
	}
	return nil, vm.Errorf(vm.Denied, string(id), "this volume does not open without a secret").WithCode("VOLUME_SECRET_NEEDED").
		WithHint("give its passphrase (--passphrase) or an age identity (--identity FILE)")
}

// byPassphrase takes about the same time with and without a passphrase slot.
func (all slots) byPassphrase(id vm.VolumeID, passphrase string) (vm.VolumeKey, error) {
	tried := false
	for _, w := range all.Slots {
		if w.Kind != vm.SlotPassphrase || w.Memory > 1<<20 || w.Time > 16 || w.Time == 0 || w.Lanes == 0 {
			continue
		}
		tried = true
		aead, err := w.cipher(passphrase)
		if err != nil {
			return nil, err
		}
		n := aead.NonceSize()
		if len(w.Key) < n {
			continue
		}
		if key, err := aead.Open(nil, w.Key[:n], w.Key[n:], w.bound(id)); err == nil {
			return key, nil
		}
	}
	if !tried {
		derive(passphrase, make([]byte, saltBytes), argonTime, argonMemory, argonLanes)
	}
	return nil, refused(id)
}

func (all slots) byIdentity(id vm.VolumeID, text string) (vm.VolumeKey, error) {
	ids, err := age.ParseIdentities(strings.NewReader(text))
	if err != nil { // the cause may contain the secret
		return nil, refused(id)
	}
	for _, w := range all.Slots {
		if w.Kind != vm.SlotRecipient {
			continue
		}
		r, err := age.Decrypt(bytes.NewReader(w.Key), ids...)
		if err != nil {
			continue
		}
		if key, err := io.ReadAll(io.LimitReader(r, maxWrapped)); err == nil {
			return key, nil
		}
	}
	return nil, refused(id)
}
