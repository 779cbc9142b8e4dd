// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// bucketBase is the path of one bucket.
const bucketBase = "/v1/objects/buckets/{bucket}"

// objectRoutes are the routes of object storage. S3 clients have a door of their own.
func (s *server) objectRoutes() []route {
	return []route{
		{"POST", "/v1/objects/keys", key, s.createS3Key, "Make an access key for S3 clients, shown once.", api.NewS3Key{}, api.CreatedS3Key{}, false, ""},
		{"GET", "/v1/objects/keys", key, s.s3Keys, "Access keys for S3 clients, without their secrets.", nil, api.S3KeyList{}, false, ""},
		{"DELETE", "/v1/objects/keys/{key}", key, s.revokeS3Key, "End an access key and the links signed with it.", nil, okBody{}, false, ""},
		{"GET", "/v1/objects/usage", key, s.objectUsage, "What each bucket holds.", nil, api.BucketUseList{}, false, ""},
		{"POST", "/v1/objects/sweep", admin, s.sweepObjects, "Carry out the lifecycle rules of all buckets now.", nil, api.SweptObjects{}, false, ""},
		{"POST", "/v1/objects/buckets", key, s.createBucket, "Make a private bucket.", api.NewBucket{}, api.Bucket{}, false, ""},
		{"GET", "/v1/objects/buckets", token, s.buckets, "Buckets that the caller may use, by name.", nil, api.BucketList{}, false, ""},
		{"GET", bucketBase, token, s.bucket, "One bucket.", nil, api.Bucket{}, false, ""},
		{"PATCH", bucketBase, key, s.changeBucket, "Set lifecycle rules, default retention or tags of a bucket.", api.ChangeBucket{}, api.Bucket{}, false, ""},
		{"DELETE", bucketBase, key, s.removeBucket, "Remove an empty bucket; with force=true with everything in it that is not retained.", nil, okBody{}, false, "force"},
		{"GET", bucketBase + "/grants", key, s.bucketGrants, "Identities and VMs that may use a bucket.", nil, api.BucketGrantList{}, false, ""},
		{"PUT", bucketBase + "/grants", key, s.grantBucket, "Let an identity or a VM use the keys with a prefix.", api.BucketGrant{}, api.BucketGrant{}, false, ""},
		{"DELETE", bucketBase + "/grants", key, s.revokeBucket, "End a grant.", nil, okBody{}, false, "identity vm prefix"},
		{"GET", bucketBase + "/objects", token, s.listObjects, "Objects by key; tag=NAME=VALUE, which may repeat, selects by tags.", nil, api.ObjectList{}, false, "prefix delimiter after limit tag"},
		{"GET", bucketBase + "/versions", token, s.listVersions, "Versions and delete markers by key, the newest of each key first.", nil, api.ObjectList{}, false, "prefix delimiter after afterVersion limit"},
		{"GET", bucketBase + "/head/{key...}", token, s.headObject, "One version without its bytes.", nil, vm.Object{}, false, "version"},
		{"GET", bucketBase + "/raw/{key...}", token, s.getObject, "The bytes of a version, or a range of them; Warren-Object describes it.", nil, nil, true, "version refused"},
		{"PUT", bucketBase + "/raw/{key...}", token, s.putObject, "Write a new version of a key.", nil, vm.Object{}, true, "tag"},
		{"DELETE", bucketBase + "/raw/{key...}", token, s.removeObject, "Write a delete marker, or remove a version.", nil, vm.Object{}, false, "version bypass"},
		{"PUT", bucketBase + "/tags/{key...}", token, s.tagObjectVersion, "Replace the tags of a version.", api.ObjectTags{}, vm.Object{}, false, "version"},
		{"PUT", bucketBase + "/retain/{key...}", token, s.retainObject, "Set retention or legal hold of a version.", api.RetainObject{}, vm.Object{}, false, "version"},
		{"POST", bucketBase + "/sign/{key...}", token, s.signObject, "Make a link for one object that ends by itself.", api.SignObject{}, api.SignedObject{}, false, ""},
	}
}

func shownS3Key(k vm.S3Key) api.S3Key {
	return api.S3Key{AccessKeyID: k.ID, Name: k.Name, Identity: k.Identity, Links: k.Links, CreatedAt: k.CreatedAt, LastUsed: moment(k.LastUsed)}
}

func (s *server) createS3Key(q *request) error {
	var in api.NewS3Key
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	k, secret, err := s.Objects.CreateKey(q.Context(), q.call, in.Name, in.Identity)
	if err != nil {
		return err
	}
	return q.ok(api.CreatedS3Key{S3Key: shownS3Key(k), SecretAccessKey: secret, Endpoint: s.Objects.Endpoint(), Region: objects.Region})
}

func (s *server) s3Keys(q *request) error {
	list, err := s.Objects.Keys(q.Context(), q.call)
	if err != nil {
		return err
	}
	out := api.S3KeyList{Keys: []api.S3Key{}}
	for _, k := range list {
		out.Keys = append(out.Keys, shownS3Key(k))
	}
	return q.ok(out)
}

func (s *server) revokeS3Key(q *request) error {
	if err := s.Objects.RevokeKey(q.Context(), q.call, q.values["key"]); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) objectUsage(q *request) error {
	list, err := s.Objects.Usage(q.Context(), q.call)
	if err != nil {
		return err
	}
	return q.ok(api.BucketUseList{Buckets: append([]vm.BucketUse{}, list...)})
}

func (s *server) sweepObjects(q *request) error {
	done, err := s.Objects.Sweep(q.Context())
	if err != nil {
		return err
	}
	return q.ok(api.SweptObjects(done))
}

func shownBucket(b vm.Bucket) api.Bucket {
	return api.Bucket{Name: b.Name, CreatedAt: b.CreatedAt, Rules: append([]vm.LifecycleRule{}, b.Rules...), Retain: b.Retain, Tags: b.Tags}
}

func (s *server) createBucket(q *request) error {
	var in api.NewBucket
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	b, err := s.Objects.CreateBucket(q.Context(), q.call, in.Name)
	if err != nil {
		return err
	}
	return q.ok(shownBucket(b))
}

func (s *server) buckets(q *request) error {
	list, err := s.Objects.ListBuckets(q.Context(), q.call)
	if err != nil {
		return err
	}
	out := api.BucketList{Buckets: []api.Bucket{}}
	for _, b := range list {
		out.Buckets = append(out.Buckets, shownBucket(b))
	}
	return q.ok(out)
}

func (s *server) bucket(q *request) error {
	b, err := s.Objects.Bucket(q.Context(), q.call, q.values["bucket"])
	if err != nil {
		return err
	}
	return q.ok(shownBucket(b))
}

func (s *server) changeBucket(q *request) error {
	var in api.ChangeBucket
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	ch := objects.Change{Rules: in.Rules, Tags: in.Tags}
	if in.Retain != nil || in.NoRetain {
		if in.NoRetain {
			in.Retain = nil
		}
		ch.Retain = &in.Retain
	}
	b, err := s.Objects.ChangeBucket(q.Context(), q.call, q.values["bucket"], ch)
	if err != nil {
		return err
	}
	return q.ok(shownBucket(b))
}

func (s *server) removeBucket(q *request) error {
	force, err := q.bool("force")
	if err != nil {
		return err
	}
	if err := s.Objects.RemoveBucket(q.Context(), q.call, q.values["bucket"], force); err != nil {
		return err
	}
	return q.ok(okBody{})
}

// grantee finds the identity or the VM of a grant.
func (s *server) grantee(q *request, in api.BucketGrant) (vm.ObjectGrant, error) {
	g := vm.ObjectGrant{Prefix: in.Prefix, Access: in.Access}
	switch {
	case (in.Identity == "") == (in.VM == ""):
		return g, vm.Errorf(vm.Invalid, "", "a grant is for an identity or for a VM").WithCode("INVALID_REQUEST").WithHint("name one of the two")
	case in.Identity != "":
		i, err := s.Access.FindIdentity(q.call, in.Identity)
		g.Identity = i.ID
		return g, err
	}
	v, err := s.Engine.Find(q.call.Actor, in.VM)
	g.VM = v.ID
	return g, err
}

func shownGrant(g vm.ObjectGrant) api.BucketGrant {
	return api.BucketGrant{Identity: string(g.Identity), VM: string(g.VM), Prefix: g.Prefix, Access: g.Access, GrantedAt: moment(g.GrantedAt)}
}

func (s *server) bucketGrants(q *request) error {
	list, err := s.Objects.Grants(q.Context(), q.call, q.values["bucket"])
	if err != nil {
		return err
	}
	out := api.BucketGrantList{Grants: []api.BucketGrant{}}
	for _, g := range list {
		out.Grants = append(out.Grants, shownGrant(g))
	}
	return q.ok(out)
}

func (s *server) grantBucket(q *request) error {
	var in api.BucketGrant
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	g, err := s.grantee(q, in)
	if err == nil {
		g, err = s.Objects.Grant(q.Context(), q.call, q.values["bucket"], g)
	}
	if err != nil {
		return err
	}
	return q.ok(shownGrant(g))
}

func (s *server) revokeBucket(q *request) error {
	v := q.query()
	g, err := s.grantee(q, api.BucketGrant{Identity: v.Get("identity"), VM: v.Get("vm"), Prefix: v.Get("prefix")})
	if err == nil {
		err = s.Objects.Revoke(q.Context(), q.call, q.values["bucket"], g)
	}
	if err != nil {
		return err
	}
	return q.ok(okBody{})
}

// tagsOf reads the query's tags, each as NAME=VALUE.
func (q *request) tagsOf() (map[string]string, error) {
	var out map[string]string
	for _, one := range q.query()["tag"] {
		name, value, ok := strings.Cut(one, "=")
		if !ok {
			return nil, vm.Errorf(vm.Invalid, "tag", "a tag is NAME=VALUE").WithCode("OBJECT_INVALID_TAG")
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out, nil
}

func (q *request) listRequest() (objects.ListRequest, error) {
	v := q.query()
	n, err := q.int("limit", 0)
	return objects.ListRequest{
		Bucket: q.values["bucket"], Prefix: v.Get("prefix"), Delimiter: v.Get("delimiter"), After: v.Get("after"), AfterVersion: v.Get("afterVersion"), Limit: int(min(n, 1000)),
	}, err
}

func (q *request) objectPage(p objects.Page, err error) error {
	if err != nil {
		return err
	}
	out := api.ObjectList{Objects: append([]vm.Object{}, p.Objects...), Prefixes: p.Prefixes}
	if p.More {
		out.Next, out.NextVersion = p.Next, p.NextVersion
	}
	return q.ok(out)
}

func (s *server) listObjects(q *request) error {
	req, err := q.listRequest()
	if err == nil {
		req.Tags, err = q.tagsOf()
	}
	if err != nil {
		return err
	}
	p, err := s.Objects.List(q.Context(), q.call, req)
	return q.objectPage(p, err)
}

func (s *server) listVersions(q *request) error {
	req, err := q.listRequest()
	if err != nil {
		return err
	}
	p, err := s.Objects.Versions(q.Context(), q.call, req)
	return q.objectPage(p, err)
}

// which is the version that the path and the query name.
func (q *request) which() objects.Which {
	return objects.Which{Bucket: q.values["bucket"], Key: q.values["key"], Version: q.query().Get("version")}
}

func (s *server) headObject(q *request) error {
	o, err := s.Objects.Head(q.Context(), q.call, q.which())
	if err != nil {
		return err
	}
	return q.ok(o)
}

func (s *server) getObject(q *request) error {
	w := q.which()
	var err error
	if w.Refused, err = q.bool("refused"); err != nil {
		return err
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	content, err := s.Objects.Get(ctx, q.call, w)
	if err != nil {
		return err
	}
	from, n, status := int64(0), content.Size, http.StatusOK
	if r := q.Header.Get("Range"); r != "" {
		var ok bool
		if from, n, ok = byteRange(r, content.Size); !ok {
			return vm.Errorf(vm.Invalid, vm.Clip(r, 60), "the range is not in the object, which has %d bytes", content.Size).WithCode("OBJECT_INVALID_RANGE", "size", content.Size).WithHint("use Range: bytes=FIRST-LAST")
		}
		status = http.StatusPartialContent
	}
	about, err := json.Marshal(content.Object)
	if err != nil {
		return err
	}
	body, err := content.Range(ctx, from, n)
	if err != nil {
		return err
	}
	defer body.Close()
	var end func(error, map[string]any)
	if q.call.To != "" { // a copy that somebody will look for
		end, err = s.Objects.CopiedOut(ctx, q.call, content.Object)
		if err != nil {
			return err
		}
	}
	h := q.w.Header()
	if status == http.StatusPartialContent {
		h.Set("Content-Range", "bytes "+strconv.FormatInt(from, 10)+"-"+strconv.FormatInt(from+n-1, 10)+"/"+strconv.FormatInt(content.Size, 10))
	}
	h.Set(api.HeaderObject, strconv.QuoteToASCII(string(about)))
	h.Set("Content-Length", strconv.FormatInt(n, 10))
	// What an uploader wrote is never shown as a page of the API's origin.
	h.Set("Content-Disposition", "attachment")
	h.Set("Content-Security-Policy", "sandbox")
	q.header("application/octet-stream")
	q.w.WriteHeader(status)
	var sum hash.Hash
	to := io.Writer(q.w)
	if end != nil {
		sum = sha256.New()
		to = io.MultiWriter(q.w, sum)
	}
	sent, err := io.CopyBuffer(onlyWriter{to}, onlyReader{body}, make([]byte, copyBytes))
	if err == nil && sent != n {
		err = io.ErrUnexpectedEOF
	}
	if end != nil {
		end(err, map[string]any{"bytes": sent, "sha256": hex.EncodeToString(sum.Sum(nil))})
	}
	return err
}

// byteRange reads a header of one range of bytes.
func byteRange(header string, size int64) (from, n int64, ok bool) {
	first, last, found := strings.Cut(strings.TrimPrefix(header, "bytes="), "-")
	if !found || !strings.HasPrefix(header, "bytes=") || strings.Contains(header, ",") {
		return 0, 0, false
	}
	end := size - 1
	var err error
	switch {
	case first == "":
		if n, err = strconv.ParseInt(last, 10, 64); err != nil || n <= 0 {
			return 0, 0, false
		}
		n = min(n, size)
		return size - n, n, size > 0
	case last != "":
		if end, err = strconv.ParseInt(last, 10, 64); err != nil {
			return 0, 0, false
		}
		end = min(end, size-1)
	}
	if from, err = strconv.ParseInt(first, 10, 64); err != nil || from < 0 || from > end {
		return 0, 0, false
	}
	return from, end - from + 1, true
}

func (s *server) putObject(q *request) error {
	tags, err := q.tagsOf()
	if err != nil {
		return err
	}
	req := objects.PutRequest{
		Bucket: q.values["bucket"], Key: q.values["key"], Size: q.ContentLength, ContentType: q.Header.Get("Content-Type"), Tags: tags,
		Condition: objects.Condition{IfMatch: q.Header.Get("If-Match"), IfNoneMatch: q.Header.Get("If-None-Match")}, SHA256: q.Header.Get(api.HeaderDigest),
	}
	for name, values := range q.Header {
		if rest, ok := strings.CutPrefix(name, api.HeaderMeta); ok && len(values) > 0 {
			if req.Meta == nil {
				req.Meta = map[string]string{}
			}
			req.Meta[strings.ToLower(rest)] = values[0]
		}
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	o, err := s.Objects.Put(ctx, q.call, req, q.Body)
	if err != nil {
		return err
	}
	return q.ok(o)
}

func (s *server) removeObject(q *request) error {
	bypass, err := q.bool("bypass")
	if err != nil {
		return err
	}
	w := q.which()
	o, err := s.Objects.Remove(q.Context(), q.call, objects.RemoveRequest{Bucket: w.Bucket, Key: w.Key, Version: w.Version, Bypass: bypass})
	if err != nil {
		return err
	}
	return q.ok(o)
}

func (s *server) tagObjectVersion(q *request) error {
	var in api.ObjectTags
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	o, err := s.Objects.SetTags(q.Context(), q.call, q.which(), in.Tags)
	if err != nil {
		return err
	}
	return q.ok(o)
}

func (s *server) retainObject(q *request) error {
	var in api.RetainObject
	err := q.decode(&in, maxBody)
	var o vm.Object
	switch {
	case err != nil:
	case in.Hold == nil && in.Mode == "":
		err = vm.Errorf(vm.Invalid, "", "the request names neither a mode nor a hold").WithCode("OBJECT_INVALID_REQUEST")
	default:
		if in.Mode != "" {
			o, err = s.Objects.Retain(q.Context(), q.call, objects.RetainRequest{Which: q.which(), Mode: in.Mode, To: in.Until, Bypass: in.Bypass})
		}
		if err == nil && in.Hold != nil {
			o, err = s.Objects.SetHold(q.Context(), q.call, q.which(), *in.Hold)
		}
	}
	if err != nil {
		return err
	}
	return q.ok(o)
}

func (s *server) signObject(q *request) error {
	var in api.SignObject
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	if in.Method == "" {
		in.Method = http.MethodGet
	}
	if in.Seconds == 0 {
		in.Seconds = 3600
	}
	w := q.which()
	w.Version = in.Version
	link, err := s.Objects.Sign(q.Context(), q.call, objects.SignRequest{Which: w, Method: in.Method, For: time.Duration(in.Seconds) * time.Second, Filename: in.Filename})
	if err != nil {
		return err
	}
	return q.ok(api.SignedObject(link))
}
