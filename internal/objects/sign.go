// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/warren-vm/warren/internal/seal"
	"github.com/warren-vm/warren/vm"
)

// SignRequest asks for a link by which anybody who has it may do one thing until a time.
type SignRequest struct {
	Which
	Method   string        // GET, HEAD or PUT
	For      time.Duration // how long the link works: a second to seven days
	Filename string        // under which a browser saves what it gets; "" = as the key says
}

// Link is a signed link.
type Link struct {
	URL       string    `json:"url"`
	Method    string    `json:"method"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// maxLink is how long a link may work, as in S3.
const maxLink = 7 * 24 * time.Hour

// unsigned is the hash of a body that the signature does not cover.
const unsigned = "UNSIGNED-PAYLOAD"

// Sign makes a link for one verb on one object. The link acts as the caller: it ends when
// its time is over, when the caller loses the right, or when the access key of links is
// revoked. A link to write makes a new version at each use and replaces none.
func (o *Objects) Sign(ctx context.Context, c *vm.Call, req SignRequest) (out Link, err error) {
	defer func() { err = vm.WithOp(vm.OpObjectSign, shownKey(req.Bucket, req.Key), err) }()
	n := read
	switch req.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPut:
		n = write
	default:
		return out, vm.Errorf(vm.Invalid, vm.Clip(req.Method, 20), "a link is for GET, HEAD or PUT").WithCode("OBJECT_INVALID_REQUEST")
	}
	b, _, err := o.reach(c, req.Bucket, req.Key, n)
	switch {
	case err != nil:
		return out, err
	case o.cfg.Endpoint == "":
		return out, vm.Errorf(vm.Unavailable, "", "nothing answers links: object storage has no address").WithHint("start the server without `--s3 off`")
	case req.For < time.Second || req.For > maxLink:
		return out, vm.Errorf(vm.Invalid, req.For.String(), "a link works for a second to seven days").WithCode("OBJECT_INVALID_REQUEST")
	case c.Actor.VM != "":
		return out, denied(c, req.Bucket, "a VM may not sign links")
	}
	if n == read {
		if _, _, err := o.lookup(c, req.Which); err != nil {
			return out, err
		}
	}
	now := o.cfg.Now().UTC().Truncate(time.Second)
	out = Link{Method: req.Method, ExpiresAt: now.Add(req.For.Truncate(time.Second))}
	end, err := o.begin(ctx, c, vm.OpObjectSign, shownKey(b.Name, req.Key), map[string]any{"method": req.Method, "until": out.ExpiresAt.Format(time.RFC3339), "version": vm.Clip(req.Version, 40)})
	if err != nil {
		return out, err
	}
	defer func() { end(err, nil) }()
	k, secret, err := o.linkKey(ctx, c.Actor)
	if err != nil {
		return out, err
	}
	q := url.Values{"X-Amz-Expires": {strconv.Itoa(int(req.For / time.Second))}}
	if req.Version != "" {
		q.Set("versionId", req.Version)
	}
	if req.Filename != "" {
		q.Set("response-content-disposition", "attachment; filename*=UTF-8''"+url.PathEscape(vm.Clip(req.Filename, 200)))
	}
	r, err := http.NewRequestWithContext(ctx, req.Method, strings.TrimSuffix(o.cfg.Endpoint, "/")+"/"+b.Name+"/"+escapeKey(req.Key)+"?"+q.Encode(), nil)
	if err != nil {
		return out, vm.Errorf(vm.Internal, o.cfg.Endpoint, "it is no address for links: %w", err)
	}
	signer := v4.NewSigner(func(s *v4.SignerOptions) { s.DisableURIPathEscaping = true })
	out.URL, _, err = signer.PresignHTTP(ctx, aws.Credentials{AccessKeyID: k.ID, SecretAccessKey: secret}, r, unsigned, "s3", Region, now)
	return out, err
}

// escapeKey is a key in a URL's path, as signatures have it.
func escapeKey(key string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/"
	var out strings.Builder
	for i := range len(key) {
		if strings.IndexByte(plain, key[i]) >= 0 {
			out.WriteByte(key[i])
			continue
		}
		const digits = "0123456789ABCDEF"
		out.Write([]byte{'%', digits[key[i]>>4], digits[key[i]&15]})
	}
	return out.String()
}

// linkKey returns the access key that signs the links of a caller, and makes it the first
// time.
func (o *Objects) linkKey(ctx context.Context, who vm.Actor) (k vm.S3Key, secret string, err error) {
	o.granting.Lock()
	defer o.granting.Unlock()
	for _, have := range o.keys.By(byAccount, string(who.Account)) {
		if have.Links && have.Identity == who.Identity {
			secret, err = o.secrets.get(have)
			return have, secret, err
		}
	}
	host, err := seal.EnsureHostKey(o.cfg.Dir.HostKey())
	if err != nil {
		return k, "", err
	}
	k = vm.S3Key{ID: vm.NewS3KeyID(), Account: who.Account, Identity: who.Identity, Name: "signed links", Links: true, CreatedAt: o.cfg.Now().UTC()}
	secret = vm.NewSecret()
	if k.Secret, err = seal.Wrap(host, []byte(secret)); err != nil {
		return k, "", err
	}
	return k, secret, o.keys.Create(ctx, k)
}
