// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package s3d

import (
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"

	"github.com/warren-vm/warren/vm"
)

// Limits of one request. The front reads every body but that of an upload into memory.
const (
	maxSmallBody  = 4 << 20 // of a request that is no upload: the list of 10,000 parts fits
	headerTimeout = 30 * time.Second
	idleTimeout   = 2 * time.Minute // between requests on a connection
	bodyTimeout   = 30 * time.Second
	bodyGrace     = time.Minute // after which a body has to come at slowestBody
	slowestBody   = 1 << 10     // bytes per second
)

// harden sets what the front leaves open: how long a client may take to send a request, and
// that nothing is read before the request is looked at. The HTTP server would write the
// files of a form to the disk first, whoever sends it.
func harden(api *s3api.S3ApiServer) error {
	app, err := appOf(api)
	if err != nil {
		return err
	}
	server := app.Server()
	server.DisablePreParseMultipartForm = true
	server.ReadTimeout, server.IdleTimeout = headerTimeout, idleTimeout
	return nil
}

// appOf finds the HTTP server of the front, which has no option for these limits.
func appOf(api *s3api.S3ApiServer) (*fiber.App, error) {
	field := reflect.ValueOf(api).Elem().FieldByName("app")
	if field.IsValid() {
		if app, ok := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Interface().(*fiber.App); ok {
			return app, nil
		}
	}
	return nil, vm.Errorf(vm.Internal, "s3", "the front of object storage has no server whose limits could be set")
}

// bound refuses a body that would fill the memory, and paces that of an upload. It answers
// the request itself if it returns true.
func bound(ctx fiber.Ctx) (refused bool, err error) {
	size := ctx.Request().Header.ContentLength() // -1 = in chunks
	kind, _, _ := strings.Cut(ctx.Get("Content-Type"), ";")
	upload := isUpload(ctx)
	switch {
	case ctx.Method() == fiber.MethodPost && strings.EqualFold(strings.TrimSpace(kind), fiber.MIMEMultipartForm):
		return true, refuse(ctx, s3err.GetAPIError(s3err.ErrNotImplemented)) // its fields have no limit, and come before its signature
	case !upload && size == -1:
		return true, refuse(ctx, s3err.GetAPIError(s3err.ErrMissingContentLength))
	case !upload && size > maxSmallBody:
		return true, refuse(ctx, s3err.GetAPIError(s3err.ErrEntityTooLarge))
	}
	if body := ctx.Request().BodyStream(); upload && body != nil {
		utils.ContextKeyBodyReader.Set(ctx, &paced{from: body, conn: ctx.RequestCtx().Conn(), began: time.Now()})
	}
	return false, nil
}

func refuse(ctx fiber.Ctx, why s3err.APIError) error {
	request, host := utils.EnsureRequestIDs(ctx)
	ctx.Response().Header.SetConnectionClose() // its body is not read
	ctx.Response().Header.SetContentType(fiber.MIMEApplicationXML)
	return ctx.Status(why.HTTPStatusCode).Send(why.XMLBody(request, host))
}

// passive are the types that a browser shows without running anything of them, in an answer
// that it must not take for something else.
var passive = []string{"image/", "audio/", "video/", "font/", "text/plain", "text/csv", "application/pdf", "application/json", "application/octet-stream"}

// disarm keeps a browser from running what an uploader wrote as a page of the door's origin:
// its scripts could read what other links to this origin give.
func disarm(ctx fiber.Ctx) {
	h := &ctx.Response().Header
	h.Set("X-Content-Type-Options", "nosniff")
	kind := strings.ToLower(strings.TrimSpace(string(h.ContentType())))
	if strings.HasPrefix(kind, "image/svg") || !slices.ContainsFunc(passive, func(p string) bool { return strings.HasPrefix(kind, p) }) {
		h.Set("Content-Security-Policy", "sandbox")
	}
}

// isUpload reports whether the front streams the body of a request: it has a key, and asks
// for nothing but the bytes of an object or a part.
func isUpload(ctx fiber.Ctx) bool {
	path, err := url.PathUnescape(string(ctx.Request().URI().PathOriginal()))
	if err != nil || ctx.Method() != fiber.MethodPut || ctx.Get("X-Amz-Copy-Source") != "" || !strings.Contains(strings.Trim(path, "/"), "/") {
		return false
	}
	for name := range ctx.Request().URI().QueryArgs().All() {
		switch n := string(name); {
		case n == "uploadId", n == "partNumber", n == "x-id", strings.HasPrefix(n, "X-Amz-"):
		default:
			return false
		}
	}
	return true
}

// paced reads the body of an upload. It gives up on a client that is silent or trickles.
type paced struct {
	from  io.Reader
	conn  net.Conn
	began time.Time
	until time.Time // the deadline that the connection has
	n     int64
}

func (p *paced) Read(b []byte) (int, error) {
	now := time.Now()
	last := p.began.Add(bodyGrace + time.Duration(p.n/slowestBody)*time.Second)
	if until := now.Add(bodyTimeout); last.After(until) {
		last = until
	}
	if last.Sub(p.until).Abs() > time.Second { // not for each of many short reads
		if err := p.conn.SetReadDeadline(last); err != nil {
			return 0, err
		}
		p.until = last
	}
	n, err := p.from.Read(b)
	p.n += int64(n)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = s3err.GetAPIError(s3err.ErrIncompleteBody)
	}
	return n, err
}
