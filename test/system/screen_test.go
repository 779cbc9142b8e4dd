//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// shot takes a picture of a VM's screen.
func (h *host) shot(name string) image.Image {
	h.t.Helper()
	img, err := png.Decode(bytes.NewReader([]byte(h.ok("screen", "shot", name))))
	if err != nil {
		h.t.Fatalf("the picture of the screen of %s is none: %v", name, err)
	}
	return img
}

// near reports whether two colours look the same.
func near(a, b color.Color) bool {
	r, g, b1, _ := a.RGBA()
	r2, g2, b2, _ := b.RGBA()
	far := func(x, y uint32) bool { return max(x, y)-min(x, y) > 0x1000 }
	return !far(r, r2) && !far(g, g2) && !far(b1, b2)
}

// TestScreen: the screen of a VM is seen and used by commands and on the page of the
// gateway, and who only watches changes nothing. A program of 60 lines stands for the X
// server: the image desktop takes minutes to build, and TestDesktop has it.
func TestScreen(t *testing.T) {
	s := newShown(t)
	s.run("screen", "shot", "box").wants(t, 9, "no screen")
	s.ok("cp", "testdata/vnc.py", "box:/srv/vnc.py")
	s.ok("exec", "box", "--background", "--", "python3", "/srv/vnc.py")
	s.ok("wait", "box", "--port", "5900")
	file := filepath.Join(t.TempDir(), "box.png")
	var told struct{ Width, Height int }
	if err := json.Unmarshal([]byte(s.ok("screen", "shot", "box", "-o", file, "--json")), &told); err != nil || told.Width != 320 || told.Height != 200 {
		t.Errorf("the picture has the size %+v, %v", told, err)
	}
	if data, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(data, []byte("\x89PNG")) {
		t.Errorf("the file of the picture begins with %.8q, %v", data, err)
	}
	red, green, blue := color.RGBA{200, 0, 0, 255}, color.RGBA{0, 200, 0, 255}, color.RGBA{0, 0, 200, 255}
	img := s.shot("box")
	if !near(img.At(0, 0), blue) || !near(img.At(120, 70), red) {
		t.Errorf("the screen shows %v at 0,0 and %v at 120,70, not blue and red", img.At(0, 0), img.At(120, 70))
	}
	s.run("screen", "click", "box", "320", "0").wants(t, 2, "320 x 200 pixels")
	s.run("screen", "key", "box", "nokey").wants(t, 2, "not a key")
	s.ok("screen", "click", "box", "120", "70")
	if got := s.shot("box").At(120, 70); !near(got, green) {
		t.Errorf("after a click the square is %v, not green", got)
	}
	s.ok("screen", "type", "box", "a€")
	s.ok("screen", "key", "box", "ctrl+l")
	const typed = "61\n10020ac\nffe3\n6c"
	if got := s.sh("box", "cat /tmp/typed"); got != typed {
		t.Errorf("the server got the keys %q, not %q", got, typed)
	}
	began := time.Now()
	for range 5 {
		s.shot("box")
	}
	t.Logf("five pictures of 320 x 200 took %v", time.Since(began))
	s.watched(typed)
	s.sleep()
	if !near(s.shot("box").At(120, 70), green) {
		t.Error("after its sleep the screen shows something else")
	}
}

// watched opens the page of the screen by a link to only watch, and sends keys anyway.
func (s *shown) watched(typed string) {
	s.t.Helper()
	c := s.client(false)
	link := strings.TrimSpace(s.ok("screen", "link", "box", "--watch"))
	if resp, body := s.get(c, link); resp.StatusCode != http.StatusSeeOther {
		s.t.Fatalf("the link is answered %d %s", resp.StatusCode, body)
	}
	at := s.url("5900-box", "/.warren/screen/")
	if resp, body := s.get(c, at+"?watch"); resp.StatusCode != 200 || !strings.Contains(body, "screen.js") {
		s.t.Errorf("the page of the screen is %d %s", resp.StatusCode, body)
	}
	if resp, _ := s.get(c, s.url("3000-box", "/")); resp.StatusCode != http.StatusUnauthorized {
		s.t.Errorf("who may watch the screen opens port 3000: %d", resp.StatusCode)
	}
	press := func(c *http.Client) {
		s.t.Helper()
		ws, _, err := websocket.Dial(s.t.Context(), "wss"+strings.TrimPrefix(at, "https")+"socket", &websocket.DialOptions{HTTPClient: c})
		if err != nil {
			s.t.Fatalf("the socket of the screen does not open: %v", err)
		}
		defer ws.CloseNow()
		ws.SetReadLimit(1 << 20)
		for _, m := range []string{"RFB 003.008\n\x01\x01", "\x04\x01\x00\x00\x00\x00\x00z", "\x03\x00\x00\x00\x00\x00\x00\x01\x00\x01"} {
			if err := ws.Write(s.t.Context(), websocket.MessageBinary, []byte(m)); err != nil {
				s.t.Fatal(err)
			}
		}
		var got []byte // the greeting has 12+2+4+24+3 bytes, the picture of one pixel 4+12+4
		for len(got) < 65 {
			_, m, err := ws.Read(s.t.Context())
			if err != nil {
				s.t.Fatalf("the picture does not arrive: %v after %q", err, got)
			}
			got = append(got, m...)
		}
	}
	press(c)
	if got := s.sh("box", "cat /tmp/typed"); got != typed {
		s.t.Errorf("of a viewer who only watches the server got the keys %q", got)
	}
	c = s.client(false)
	s.get(c, strings.TrimSpace(s.ok("screen", "link", "box")))
	press(c)
	if got := s.sh("box", "cat /tmp/typed"); got != typed+"\n7a" {
		s.t.Errorf("of a viewer who controls the screen the server got the keys %q", got)
	}
}
