// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/warren-vm/warren/vm"
)

// sample makes an image with one file.
func sample(t *testing.T, os, arch, body string) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, static.NewLayer(layerTar(t, file("hello", body)), types.OCIUncompressedLayer))
	if err != nil {
		t.Fatalf("no image: %v", err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatalf("no configuration: %v", err)
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = os, arch
	cfg.Config = v1.Config{Entrypoint: []string{"/hello"}, Cmd: []string{"-v"}, Env: []string{"A=1"}, User: "app", WorkingDir: "/srv"}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		t.Fatalf("the configuration is refused: %v", err)
	}
	return img
}

// served starts a registry behind a handler; it returns its host and port.
func served(t *testing.T, before func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	reg := ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before == nil || !before(w, r) {
			reg.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

func ref(t *testing.T, text string) name.Reference {
	t.Helper()
	r, err := name.ParseReference(text)
	if err != nil {
		t.Fatalf("%s is no reference: %v", text, err)
	}
	return r
}

// get imports into a new cache.
func get(t *testing.T, text string, o Options) (*Image, error) {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatalf("%s is no source: %v", text, err)
	}
	if o.Cache == "" {
		o.Cache = t.TempDir()
	}
	if o.Keychain == nil {
		o.Keychain = authn.NewMultiKeychain() // not that of the user who runs the test
	}
	return Get(t.Context(), s, o)
}

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	if err == nil || vm.AsError(err).Code != code {
		t.Errorf("%s: got %v with the code %q, want %s", what, err, vm.AsError(err).Code, code)
	}
	if err != nil && vm.AsError(err).Hint == "" {
		t.Errorf("%s: the error says not what to do next: %v", what, err)
	}
}

func wantFiles(t *testing.T, what string, img *Image, want string) {
	t.Helper()
	tree, err := img.Tree(t.Context())
	if err != nil {
		t.Fatalf("%s: the layers are refused: %v", what, err)
	}
	if got := strings.Join(lines(t, tree), "|"); got != want {
		t.Errorf("%s: the files are %q, want %q", what, got, want)
	}
}

// TestSources: a registry, a layout, a layout as an archive and what docker save writes give the same files
// and the same configuration.
func TestSources(t *testing.T) {
	img := sample(t, "linux", "amd64", "hi")
	host := served(t, nil)
	if err := remote.Write(ref(t, host+"/a/b:1"), img); err != nil {
		t.Fatalf("not pushed: %v", err)
	}
	dir := t.TempDir()
	path, err := layout.Write(filepath.Join(dir, "layout"), empty.Index)
	if err != nil {
		t.Fatalf("no layout: %v", err)
	}
	if err := path.AppendImage(img); err != nil {
		t.Fatalf("the layout takes no image: %v", err)
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	if err := w.AddFS(os.DirFS(filepath.Join(dir, "layout"))); err != nil {
		t.Fatalf("the layout is not packed: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatalf("the layout is not packed: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "layout.tar.gz"), zip(packed.Bytes()), 0o600); err != nil {
		t.Fatalf("the archive is not written: %v", err)
	}
	if err := tarball.WriteToFile(filepath.Join(dir, "docker.tar"), ref(t, "a/b:1"), img); err != nil {
		t.Fatalf("docker's archive is not written: %v", err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatalf("no digest: %v", err)
	}
	config, err := img.ConfigName()
	if err != nil {
		t.Fatalf("no digest of the configuration: %v", err)
	}
	for source, want := range map[string]string{
		"oci:" + host + "/a/b:1":                            digest.String(),
		"oci:" + host + "/a/b@" + digest.String():           digest.String(),
		"layout:" + filepath.Join(dir, "layout"):            digest.String(),
		"archive:" + filepath.Join(dir, "layout.tar.gz"):    digest.String(),
		"archive:" + filepath.Join(dir, "docker.tar"):       config.String(),
		"archive:" + filepath.Join(dir, "docker.tar#a/b:1"): config.String(),
	} {
		got, err := get(t, source, Options{})
		if err != nil {
			t.Errorf("%s is refused: %v", source, err)
			continue
		}
		if got.Digest != want {
			t.Errorf("%s has the digest %s, want %s", source, got.Digest, want)
		}
		if c := got.Config; strings.Join(c.Argv(), " ") != "/hello -v" || c.User != "app" || c.Workdir != "/srv" || len(c.Env) != 1 {
			t.Errorf("%s has the configuration %+v", source, c)
		}
		wantFiles(t, source, got, "./|./hello hi")
	}
	_, err = get(t, "archive:"+filepath.Join(dir, "docker.tar#other:1"), Options{})
	wantCode(t, "a tag that the archive lacks", err, "OCI_NOT_FOUND")
}

// TestPlatforms: of several images that for linux/amd64 is taken; if there is none, the error lists those that are.
func TestPlatforms(t *testing.T) {
	host := served(t, nil)
	add := func(arch string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: sample(t, "linux", arch, arch), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}}
	}
	for tag, index := range map[string]v1.ImageIndex{
		"both": mutate.AppendManifests(empty.Index, add("arm64"), add("amd64")), "arm": mutate.AppendManifests(empty.Index, add("arm64"), add("riscv64")),
	} {
		if err := remote.WriteIndex(ref(t, host+"/a:"+tag), index); err != nil {
			t.Fatalf("not pushed: %v", err)
		}
	}
	if err := remote.Write(ref(t, host+"/a:one"), sample(t, "linux", "s390x", "x")); err != nil {
		t.Fatalf("not pushed: %v", err)
	}
	img, err := get(t, "oci:"+host+"/a:both", Options{})
	if err != nil {
		t.Fatalf("an image for both is refused: %v", err)
	}
	wantFiles(t, "both", img, "./|./hello amd64")
	_, err = get(t, "oci:"+host+"/a:arm", Options{})
	wantCode(t, "an image for other processors", err, "OCI_WRONG_PLATFORM")
	if err != nil && !strings.Contains(err.Error(), "linux/arm64, linux/riscv64") {
		t.Errorf("the error does not list what there is: %v", err)
	}
	_, err = get(t, "oci:"+host+"/a:one", Options{})
	wantCode(t, "one image for another processor", err, "OCI_WRONG_PLATFORM")
}

// TestRefusals: what a registry refuses, and what it sends wrong, has a code; nothing wrong stays in the cache.
func TestRefusals(t *testing.T) {
	img := sample(t, "linux", "amd64", "hi")
	layers, err := img.Layers()
	if err != nil {
		t.Fatalf("no layers: %v", err)
	}
	layer, err := layers[0].Digest()
	if err != nil {
		t.Fatalf("no digest: %v", err)
	}
	evil := ""
	host := served(t, func(w http.ResponseWriter, r *http.Request) bool {
		if evil == "blob" && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, layer.String()) {
			_, _ = io.WriteString(w, "something else")
			return true
		}
		if evil == "manifest" && strings.Contains(r.URL.Path, "/manifests/sha256:") {
			w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
			_, _ = io.WriteString(w, `{"schemaVersion":2}`)
			return true
		}
		return false
	})
	if err := remote.Write(ref(t, host+"/a:1"), img); err != nil {
		t.Fatalf("not pushed: %v", err)
	}
	_, err = get(t, "oci:"+host+"/a:2", Options{})
	wantCode(t, "a tag that is not there", err, "OCI_NOT_FOUND")
	_, err = get(t, "oci:"+host+"/a@sha256:"+strings.Repeat("0", 64), Options{})
	wantCode(t, "a digest that is not there", err, "OCI_NOT_FOUND")
	_, err = get(t, "oci:127.0.0.1:1/a", Options{})
	wantCode(t, "a registry that is not there", err, "OCI_UNREACHABLE")
	digest, err := img.Digest()
	if err != nil {
		t.Fatalf("no digest: %v", err)
	}
	evil = "manifest"
	_, err = get(t, "oci:"+host+"/a@"+digest.String(), Options{})
	wantCode(t, "another manifest than its digest names", err, "OCI_DIGEST_MISMATCH")
	evil = "blob"
	cache := t.TempDir()
	_, err = get(t, "oci:"+host+"/a:1", Options{Cache: cache})
	wantCode(t, "a layer with other contents", err, "OCI_DIGEST_MISMATCH")
	if _, err := os.Stat(filepath.Join(cache, layer.Hex)); err == nil {
		t.Error("the wrong layer is in the cache")
	}
	evil = ""
	if _, err = get(t, "oci:"+host+"/a:1", Options{Cache: cache}); err != nil {
		t.Errorf("the right layer is refused with what the cache holds: %v", err)
	}
}

// TestCredentials: a registry that wants a login gets the one of Docker's configuration; without one the error
// says how to log in.
func TestCredentials(t *testing.T) {
	host := served(t, func(w http.ResponseWriter, r *http.Request) bool {
		if user, pass, _ := r.BasicAuth(); user == "ann" && pass == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	if err := remote.Write(ref(t, host+"/a:1"), sample(t, "linux", "amd64", "hi"), remote.WithAuth(&authn.Basic{Username: "ann", Password: "secret"})); err != nil {
		t.Fatalf("not pushed: %v", err)
	}
	_, err := get(t, "oci:"+host+"/a:1", Options{})
	wantCode(t, "a registry that wants a login", err, "OCI_UNAUTHORIZED")
	at := Source{Kind: Registry, Place: host + "/a:1"}
	_, err = get(t, at.String(), Options{Keychain: Login(at, "ann", "wrong")})
	wantCode(t, "a wrong password", err, "OCI_UNAUTHORIZED")
	if _, err := get(t, at.String(), Options{Keychain: Login(at, "ann", "secret")}); err != nil {
		t.Errorf("with the user's login it is refused: %v", err)
	}
	_, err = get(t, at.String(), Options{Keychain: Login(Source{Kind: Registry, Place: "other.example/a:1"}, "ann", "secret")})
	wantCode(t, "the login of another registry", err, "OCI_UNAUTHORIZED")
	config, err := json.Marshal(map[string]any{"auths": map[string]any{host: map[string]string{"username": "ann", "password": "secret"}}})
	if err != nil {
		t.Fatalf("no configuration: %v", err)
	}
	docker := t.TempDir()
	if err := os.WriteFile(filepath.Join(docker, "config.json"), config, 0o600); err != nil {
		t.Fatalf("the configuration is not written: %v", err)
	}
	t.Setenv("DOCKER_CONFIG", docker)
	if _, err := get(t, "oci:"+host+"/a:1", Options{Keychain: authn.DefaultKeychain}); err != nil {
		t.Errorf("with docker's configuration it is refused: %v", err)
	}
}

// TestNoImage: files that are no image, and words that are no name of one.
func TestNoImage(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string][]byte{"text": []byte("no tar"), "other.tar": layerTar(t, file("hello", "x")), "list.tar": layerTar(t, file("index.json", "{"))} {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatalf("%s is not written: %v", name, err)
		}
		_, err := get(t, "archive:"+filepath.Join(dir, name), Options{})
		wantCode(t, name, err, "OCI_INVALID")
	}
	_, err := get(t, "layout:"+dir, Options{})
	if code := vm.AsError(err).Code; code != "OCI_NOT_FOUND" {
		t.Errorf("a directory without index.json has the code %q: %v", code, err)
	}
	for _, text := range []string{"oci:", "oci:UPPER CASE", "layout:", "archive:a\nb"} {
		_, err := Parse(text)
		wantCode(t, text, err, "OCI_BAD_REFERENCE")
	}
}

// TestName: an image is named after the last part of its reference.
func TestName(t *testing.T) {
	for text, want := range map[string]string{
		"oci:nginx": "nginx", "oci:127.0.0.1:5000/team/My_App:1.2": "", "oci:ghcr.io/a/b.c@sha256:" + strings.Repeat("0", 64): "b-c",
		"archive:/tmp/web.tar.gz#a:1": "web", "layout:./1st": "oci-1st",
	} {
		s, err := Parse(text)
		if want == "" {
			if err == nil {
				t.Errorf("%s is a name with capitals, and taken", text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s is refused: %v", text, err)
		} else if got := s.Name(); got != want {
			t.Errorf("%s is named %q, want %q", text, got, want)
		}
	}
}
