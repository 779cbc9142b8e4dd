// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"net/http"
	"slices"
	"strings"

	"github.com/coder/websocket"
)

// A page of a browser cannot set headers of a WebSocket, so it names its key and its Linux
// user as subprotocols. The answer names only the first of these, never a key.
const (
	protocolName = "warren"
	protocolKey  = "warren.key."
	protocolUser = "warren.user."
)

// protocol is the rest of the requested subprotocol that begins with prefix; "" = none.
func (q *request) protocol(prefix string) string {
	if q.Header.Get("Sec-WebSocket-Key") == "" {
		return ""
	}
	for _, line := range q.Header["Sec-Websocket-Protocol"] {
		for name := range strings.SplitSeq(line, ",") {
			if rest, is := strings.CutPrefix(strings.TrimSpace(name), prefix); is {
				return rest
			}
		}
	}
	return ""
}

// upgrade makes a WebSocket of the request. After an error, the request is answered.
func (s *server) upgrade(q *request) (*websocket.Conn, error) {
	q.header("")
	q.w.Header().Del("Content-Type")
	return websocket.Accept(q.w, q.Request, &websocket.AcceptOptions{
		CompressionMode: websocket.CompressionDisabled, Subprotocols: []string{protocolName}, OriginPatterns: s.WebOrigins,
	})
}

// forPages lets pages of the origins in the settings read answers. It reports whether the
// request was the browser's question whether the page may ask.
func (s *server) forPages(w http.ResponseWriter, r *http.Request) (answered bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(s.WebOrigins, origin) || s.checkHost(r.Host) != nil {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "*, Retry-After, Warren-Length, Warren-Offset, Warren-Receipt, Warren-Request-Id")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", strings.Join([]string{"Authorization", "Content-Type", "Last-Event-ID", "X-Freestyle-Identity-Access-Token", "X-Freestyle-Vm-Linux-User-Id"}, ", "))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
