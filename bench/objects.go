// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
	"github.com/versity/versitygw/s3response"
	"golang.org/x/sync/errgroup"
)

// asVersity and asSyncedVersity are the first argument of a bench that is versitygw alone: a
// directory and an address follow. It is a process of its own, for it changes its working
// directory.
const (
	asVersity       = "versitygw"
	asSyncedVersity = "versitygw-synced"
)

const (
	versityKey    = "bench"
	versitySecret = "benchsecret"

	objectSamples = 7
	manyObjects   = 1000
	listedObjects = 10_000
	smallSize     = 4 << 10
	atOnce        = 16 // small requests
)

// beVersity is versitygw with its POSIX backend, until the process is ended. synced makes it
// sync each object that it has written before it answers.
func beVersity(ctx context.Context, dir, address string, synced bool) error {
	px, err := posix.New(dir, meta.XattrMeta{}, posix.PosixOpts{})
	if err != nil {
		return err
	}
	var be backend.Backend = px
	if synced {
		be = syncing{px, dir}
	}
	return embedgw.RunVersityGW(ctx, be, &embedgw.Config{
		RootUserAccess: versityKey, RootUserSecret: versitySecret, Ports: []string{address}, MaxConnections: 4096, MaxRequests: 1024, MultipartMaxParts: 10_000, Quiet: true, KeepAlive: true,
	})
}

// syncing is versitygw with the least that makes an answered PUT durable: the object's file
// is synced, and the directory that names it.
type syncing struct {
	*posix.Posix
	dir string
}

// PutObject writes an object and syncs it.
func (s syncing) PutObject(ctx context.Context, in s3response.PutObjectInput) (s3response.PutObjectOutput, error) {
	out, err := s.Posix.PutObject(ctx, in)
	if err != nil {
		return out, err
	}
	path := filepath.Join(s.dir, *in.Bucket, *in.Key)
	for _, name := range []string{path, filepath.Dir(path)} {
		f, err := os.Open(name)
		if err != nil {
			return out, err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return out, err
		}
	}
	return out, nil
}

// startVersity starts it as one of the two programs, and returns when it answers, with what
// ends it.
func (b *bench) startVersity(ctx context.Context, as string) (c *s3.Client, stop func() error, err error) {
	dir := filepath.Join(b.dir, as)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(self, as, dir, address)
	cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with stop
	stop = func() error {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it may have ended; its files are removed
		var killed *exec.ExitError
		if err := <-ended; !errors.As(err, &killed) {
			return err
		}
		return nil
	}
	c = s3Client("http://"+address, versityKey, versitySecret)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err = c.ListBuckets(ctx, nil); err == nil {
			return c, stop, nil
		}
		select {
		case <-tick.C:
		case gone := <-ended:
			ended <- gone
			return nil, nil, fmt.Errorf("versitygw has ended: %w", gone)
		case <-ctx.Done():
			return nil, nil, errors.Join(err, stop())
		}
	}
}

func s3Client(url, id, secret string) *s3.Client {
	return s3.New(s3.Options{BaseEndpoint: aws.String(url), Region: "us-east-1", UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(id, secret, "")})
}

// objectStore is one of those that are compared.
type objectStore struct {
	name   string // what its series end with
	client *s3.Client
	writes bool // only its writes are measured
	series map[string]*series
}

// objectVerb is one measurement of the stores.
type objectVerb struct {
	name   string
	writes bool
	bucket string // made before
	filled int    // objects in the bucket before
	do     func(ctx context.Context, of *objectStore, turn int) error
}

// objects measures object storage beside versitygw alone, in turns, on servers without VMs.
// A second versitygw, which syncs what it has written, is measured for writes.
func (b *bench) objects(ctx context.Context) (err error) {
	s, err := startServer(ctx, b.binary, filepath.Join(b.dir, "objects"), "", 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	var made struct {
		AccessKeyID     string `json:"accessKeyId"`
		SecretAccessKey string `json:"secretAccessKey"`
	}
	if err := s.call(ctx, "POST", "/v1/objects/keys", map[string]any{}, &made); err != nil {
		return err
	}
	stores := []*objectStore{{client: s3Client("http://"+s.s3, made.AccessKeyID, made.SecretAccessKey)}}
	for _, peer := range []*objectStore{{name: ", versitygw alone"}, {name: ", versitygw with a sync of each", writes: true}} {
		as := asVersity
		if peer.writes {
			as = asSyncedVersity
		}
		client, stop, err := b.startVersity(ctx, as)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		peer.client = client
		stores = append(stores, peer)
	}
	for _, of := range stores {
		of.series = map[string]*series{}
	}
	verbs := objectVerbs()
	for _, v := range verbs {
		if err := b.inTurns(ctx, v, stores); err != nil {
			return err
		}
	}
	b.compareObjects(verbs, stores)
	return b.signs(ctx, s)
}

// compareObjects notes the ratios.
func (b *bench) compareObjects(verbs []objectVerb, stores []*objectStore) {
	for _, v := range verbs {
		for _, peer := range stores[1:] {
			theirs, ours := peer.series[v.name], stores[0].series[v.name]
			switch {
			case theirs == nil:
			case v.filled > 0:
				b.rep.ratio("time of "+v.name+", of that of"+strings.TrimPrefix(peer.name, ","), ours, theirs, bound{Max: 1.2})
			case peer.writes:
				b.rep.ratio("speed of "+v.name+", of that of"+strings.TrimPrefix(peer.name, ","), theirs, ours, bound{})
			default:
				b.rep.ratio("speed of "+v.name+", of that of"+strings.TrimPrefix(peer.name, ","), theirs, ours, bound{Min: 0.8})
			}
		}
	}
}

// inTurns measures a verb: each store once in each turn. The first turn is not counted.
func (b *bench) inTurns(ctx context.Context, v objectVerb, stores []*objectStore) error {
	for turn := range objectSamples + 1 {
		for _, of := range stores {
			if of.writes && !v.writes {
				continue
			}
			if turn == 0 {
				of.series[v.name] = b.rep.series(v.name+of.name, "ms", bound{})
				if err := prepare(ctx, v, of); err != nil {
					return fmt.Errorf("%s%s: %w", v.name, of.name, err)
				}
			}
			began := time.Now()
			if err := v.do(ctx, of, turn); err != nil {
				return fmt.Errorf("%s%s: %w", v.name, of.name, err)
			}
			if turn > 0 {
				of.series[v.name].took(time.Since(began))
			}
		}
	}
	return nil
}

// prepare makes the bucket of a verb, and fills it.
func prepare(ctx context.Context, v objectVerb, of *objectStore) error {
	if v.bucket == "" {
		return nil
	}
	if _, err := of.client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &v.bucket}); err != nil {
		return err
	}
	return putMany(ctx, of.client, v.bucket, "all", v.filled)
}

// objectVerbs are what is measured. Each write is another object: the peer keeps no versions.
func objectVerbs() []objectVerb {
	large := aws.String("large")
	body := make([]byte, 64<<20)
	_, _ = rand.Read(body)
	key := func(turn int) *string { return aws.String(fmt.Sprintf("large-%d", turn)) }
	prefix := func(turn int) string { return fmt.Sprintf("turn-%d", turn) }
	return []objectVerb{
		{"PUT of 64 MiB", true, *large, 0, func(ctx context.Context, of *objectStore, turn int) error {
			_, err := of.client.PutObject(ctx, &s3.PutObjectInput{Bucket: large, Key: key(turn), Body: bytes.NewReader(body)})
			return err
		}},
		{"GET of 64 MiB", false, "", 0, func(ctx context.Context, of *objectStore, turn int) error {
			return getWhole(ctx, of.client, large, key(turn), int64(len(body)))
		}},
		{"PUT of 1,000 objects of 4 KiB", true, "small", 0, func(ctx context.Context, of *objectStore, turn int) error {
			return putMany(ctx, of.client, "small", prefix(turn), manyObjects)
		}},
		{"GET of 1,000 objects of 4 KiB", false, "", 0, func(ctx context.Context, of *objectStore, turn int) error {
			return each(ctx, manyObjects, func(ctx context.Context, i int) error {
				return getWhole(ctx, of.client, aws.String("small"), smallKey(prefix(turn), i), smallSize)
			})
		}},
		{"list of 10,000 keys", false, "listed", listedObjects, listAll},
	}
}

// getWhole reads an object to its end.
func getWhole(ctx context.Context, c *s3.Client, bucket, key *string, size int64) error {
	out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: key})
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, out.Body)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, out.Body.Close())
}

// each does something n times, some at once.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

func smallKey(prefix string, i int) *string {
	return aws.String(fmt.Sprintf("%s/%02d/object-%06d", prefix, i%100, i))
}

// putMany writes n small objects, some at once.
func putMany(ctx context.Context, c *s3.Client, bucket, prefix string, n int) error {
	body := make([]byte, smallSize)
	_, _ = rand.Read(body)
	return each(ctx, n, func(ctx context.Context, i int) error {
		_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: smallKey(prefix, i), Body: bytes.NewReader(body)})
		return err
	})
}

// listAll lists the keys of a bucket, in pages of 1,000.
func listAll(ctx context.Context, of *objectStore, _ int) error {
	n := 0
	pages := s3.NewListObjectsV2Paginator(of.client, &s3.ListObjectsV2Input{Bucket: aws.String("listed")})
	for pages.HasMorePages() {
		p, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		n += len(p.Contents)
	}
	if n != listedObjects {
		return fmt.Errorf("it has %d keys", n)
	}
	return nil
}

// signs measures signed links, by the API with an audit record each.
func (b *bench) signs(ctx context.Context, s *server) error {
	to := b.rep.series("signed link", "ms", bound{Max: 1})
	for i := range 101 {
		began := time.Now()
		if err := s.call(ctx, "POST", "/v1/objects/buckets/large/sign/large-0", map[string]any{"seconds": 60}, nil); err != nil {
			return err
		}
		if i > 0 {
			to.took(time.Since(began))
		}
	}
	return nil
}
