// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package s3d

import (
	"bufio"
	"context"
	"encoding/xml"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/warren-vm/warren/vm"
)

// Inside forwards the requests of programs inside VMs to the door. It drops every
// signature that the program sent, and signs the request as the VM itself: a program may
// use any credentials, or none.
type Inside struct {
	forward *httputil.ReverseProxy
	signer  *v4.Signer
	secret  string
}

// Inside returns an Inside for the unix socket on which the door listens.
func (s *Server) Inside(socket string) *Inside {
	log := s.store.log
	i := &Inside{secret: s.inside, signer: v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })}
	i.forward = &httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, // ServeVM has made the request
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", socket)
			},
			// What a request leaves of its body on a connection must never be the beginning of
			// another one.
			DisableKeepAlives:  true,
			DisableCompression: true,
			WriteBufferSize:    64 << 10, ReadBufferSize: 64 << 10,
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			log.Debug("a VM's request for objects failed", "err", err)
			answer(w, http.StatusServiceUnavailable, "SlowDown", "object storage did not answer; try again")
		},
	}
	return i
}

// ServeVM answers a request of a program inside a VM, as the VM.
func (i *Inside) ServeVM(w http.ResponseWriter, r *http.Request, id vm.ID) {
	out, refused := i.signed(r, id)
	if refused != nil {
		answer(w, refused.status, refused.code, refused.why)
		return
	}
	_ = http.NewResponseController(w).EnableFullDuplex() // an early answer does not close the request's body
	i.forward.ServeHTTP(w, out)
}

// refusal is an answer that the door is not asked for.
type refusal struct {
	status    int
	code, why string
}

// signatures are parameters of a query that say who asks.
var signatures = []string{"x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires", "x-amz-signedheaders", "x-amz-signature", "x-amz-security-token", "awsaccesskeyid", "signature", "expires"}

// identities are headers that say who asks, or that are about one connection.
var identities = []string{"Authorization", "Date", "X-Amz-Date", "X-Amz-Security-Token", "Connection", "Expect", "Origin", InsideHeader}

const (
	headerSHA256 = "X-Amz-Content-Sha256"
	// streamSigned is how the names of bodies begin whose chunks are signed.
	streamSigned   = "STREAMING-AWS4-"
	streamUnsigned = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	unsigned       = "UNSIGNED-PAYLOAD"
)

// signed makes the request to the door.
func (i *Inside) signed(r *http.Request, id vm.ID) (*http.Request, *refusal) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	switch {
	case err != nil || !strings.HasPrefix(r.URL.Path, "/") || strings.HasPrefix(r.URL.Path, "//"):
		return nil, &refusal{http.StatusBadRequest, "InvalidURI", "the path or the query is not well formed; use https://" + vm.S3Host + "/BUCKET/KEY"}
	case !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete}, r.Method):
		return nil, &refusal{http.StatusMethodNotAllowed, "MethodNotAllowed", "the method is not one of S3"}
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method == http.MethodPost && strings.HasPrefix(kind, "multipart/") {
		return nil, &refusal{http.StatusNotImplemented, "NotImplemented", "a form is not answered inside a VM; use PUT"}
	}
	for name := range query {
		if slices.Contains(signatures, strings.ToLower(name)) {
			query.Del(name)
		}
	}
	out := r.Clone(r.Context())
	out.RequestURI, out.Host, out.Trailer = "", vm.S3Host, nil
	out.URL = &url.URL{Scheme: "http", Host: vm.S3Host, Path: r.URL.Path, RawPath: escapePath(r.URL.Path), RawQuery: strings.ReplaceAll(query.Encode(), "+", "%20")}
	for _, name := range identities {
		out.Header.Del(name)
	}
	payload := out.Header.Get(headerSHA256)
	switch {
	case payload == "":
		payload = unsigned
	case strings.HasPrefix(payload, streamSigned): // the door would check the chunks' signatures
		payload = streamUnsigned
		out.Body, out.ContentLength = struct {
			io.Reader
			io.Closer
		}{&chunks{from: bufio.NewReaderSize(r.Body, 32<<10)}, r.Body}, -1
	}
	out.Header.Set(headerSHA256, payload)
	if r.ContentLength == 0 || r.Method == http.MethodGet || r.Method == http.MethodHead {
		out.Body, out.ContentLength = http.NoBody, 0
	}
	if err := i.sign(out, id, payload); err != nil {
		return nil, &refusal{http.StatusBadRequest, "InvalidRequest", "the request cannot be forwarded"}
	}
	out.Header.Set(InsideHeader, string(id))
	return out, nil
}

// sign signs a request as a VM: its host and the headers of S3.
func (i *Inside) sign(out *http.Request, id vm.ID, payload string) error {
	about := &http.Request{Method: out.Method, URL: out.URL, Host: out.Host, Header: http.Header{}}
	for name, values := range out.Header {
		if strings.HasPrefix(name, "X-Amz-") {
			about.Header[name] = []string{strings.Join(values, ",")}
			out.Header[name] = about.Header[name]
		}
	}
	who := aws.Credentials{AccessKeyID: string(id), SecretAccessKey: i.secret}
	if err := i.signer.SignHTTP(out.Context(), who, about, payload, "s3", Region, time.Now().UTC()); err != nil {
		return err
	}
	for _, name := range []string{"Authorization", "X-Amz-Date"} {
		out.Header.Set(name, about.Header.Get(name))
	}
	return nil
}

// escapePath is a path as signatures have it.
func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for n, p := range parts {
		parts[n] = strings.ReplaceAll(url.QueryEscape(p), "+", "%20")
	}
	return strings.Join(parts, "/")
}

// answer is an error as S3 says it.
func answer(w http.ResponseWriter, status int, code, why string) {
	body, err := xml.Marshal(struct {
		XMLName struct{} `xml:"Error"`
		Code    string
		Message string
	}{Code: code, Message: why})
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = w.Write(append([]byte(xml.Header), body...))
}
