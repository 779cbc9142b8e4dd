//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/warren-vm/warren/internal/vmtest"
)

// The block of testdata/site.py.
var (
	unknownToSite = color.RGBA{0x1e, 0x88, 0xe5, 255}
	knownToSite   = color.RGBA{0xd8, 0x1b, 0x60, 255}
)

const blockWidth, blockHeight = 320, 160

// block finds the upper left corner of the block in a picture.
func block(img image.Image, want color.Color) (image.Point, bool) {
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y-blockHeight; y += 4 {
		for x := b.Min.X; x < b.Max.X-blockWidth; x += 4 {
			if near(img.At(x, y), want) && near(img.At(x+blockWidth-8, y+blockHeight-8), want) {
				return image.Pt(x, y), true
			}
		}
	}
	return image.Point{}, false
}

// colours counts the colours of a picture.
func colours(img image.Image) int {
	seen := map[color.Color]bool{}
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			seen[img.At(x, y)] = true
		}
	}
	return len(seen)
}

// corner is the part of a picture where a browser has its tabs, and nothing has the pointer.
func corner(img image.Image) image.Image {
	part := image.NewRGBA(image.Rect(0, 0, 600, 80))
	for y := range 80 {
		for x := range 600 {
			part.Set(x, y, img.At(x, y))
		}
	}
	return part
}

// drawnBlock waits until the screen shows the block, and returns the picture and where it is.
func (h *host) drawnBlock(name string, want color.Color) (image.Image, image.Point) {
	h.t.Helper()
	began := time.Now()
	for time.Since(began) < 5*time.Minute {
		img := h.shot(name)
		if at, ok := block(img, want); ok {
			h.t.Logf("%s: drawn after %v", name, time.Since(began).Round(time.Second))
			return img, at
		}
		time.Sleep(2 * time.Second)
	}
	h.keepShot(name, h.shot(name))
	h.t.Fatalf("%s: the screen does not show %v", name, want)
	return nil, image.Point{}
}

// keepShot writes a picture for people to look at.
func (h *host) keepShot(name string, img image.Image) {
	h.t.Helper()
	path := filepath.Join("..", "..", ".work", "desktop-"+name+".png")
	f, err := os.Create(path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, img); err != nil {
		h.t.Fatal(err)
	}
	h.t.Logf("the screen of %s is in %s", name, path)
}

// visits waits until the site of a VM has had so many visits, and returns who came last.
func (h *host) visits(name string, n int) string {
	h.t.Helper()
	h.sh(name, fmt.Sprintf("for i in $(seq 120); do [ $(wc -l < /tmp/visits) -ge %d ] && break; sleep 1; done", n))
	lines := strings.Fields(h.sh(name, "cat /tmp/visits"))
	if len(lines) != n {
		h.t.Fatalf("%s: the site had the visits %v, not %d", name, lines, n)
	}
	return lines[n-1]
}

// devTools lets use reach the DevTools of a VM's browser at an address of this host.
func (h *host) devTools(name string, use func(address string)) {
	h.t.Helper()
	address := vmtest.FreePort(h.t)
	_, port, _ := strings.Cut(address, ":")
	forward := exec.Command(h.binary, "forward", name, port+":9222")
	forward.Env = h.environ()
	if err := forward.Start(); err != nil {
		h.t.Fatal(err)
	}
	defer func() {
		_ = forward.Process.Signal(os.Interrupt)
		_ = forward.Wait()
	}()
	h.eventually("DevTools answers", func() bool {
		resp, err := http.Get("http://" + address + "/json/version")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	use(address)
}

// drives uses the page of a VM's browser with Playwright or Puppeteer, and returns its text.
func (h *host) drives(name, driver string) (text string) {
	h.t.Helper()
	dir := filepath.Join("testdata", "browser")
	if _, err := os.Stat(filepath.Join(dir, "node_modules/playwright-core")); err != nil {
		install := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
		install.Dir = dir
		if out, err := install.CombinedOutput(); err != nil {
			h.t.Fatalf("npm ci: %v\n%s", err, out)
		}
	}
	h.devTools(name, func(address string) {
		ctx, cancel := context.WithTimeout(h.t.Context(), 5*time.Minute)
		defer cancel()
		began := time.Now()
		var failed strings.Builder
		cmd := exec.CommandContext(ctx, "node", filepath.Join(dir, "drive.mjs"), driver, address)
		cmd.Stderr = &failed
		out, err := cmd.Output()
		if err != nil {
			h.t.Fatalf("%s fails: %v\n%s", driver, err, failed.String())
		}
		var saw struct {
			Text    string
			Picture int
		}
		if err := json.Unmarshal(out, &saw); err != nil {
			h.t.Fatalf("%s prints %q: %v", driver, out, err)
		}
		h.t.Logf("%s: %s saw the page after %v", name, driver, time.Since(began).Round(time.Second))
		if saw.Picture < 1000 {
			h.t.Errorf("%s takes a picture of %d bytes", driver, saw.Picture)
		}
		text = saw.Text
	})
	return text
}

// asksBrowser evaluates a script in the page of a VM's browser through DevTools.
func (h *host) asksBrowser(name, script string) (value string) {
	h.t.Helper()
	h.devTools(name, func(address string) { value = h.evaluates(name, address, script) })
	return value
}

// evaluates is asksBrowser at the address of DevTools.
func (h *host) evaluates(name, address, script string) string {
	h.t.Helper()
	var pages []struct {
		Type   string
		Socket string `json:"webSocketDebuggerUrl"`
	}
	h.eventually("DevTools lists the pages", func() bool {
		resp, err := http.Get("http://" + address + "/json/list")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return json.NewDecoder(resp.Body).Decode(&pages) == nil
	})
	for _, p := range pages {
		if p.Type != "page" {
			continue
		}
		ws, _, err := websocket.Dial(h.t.Context(), p.Socket, nil)
		if err != nil {
			h.t.Fatalf("DevTools of %s does not open: %v", name, err)
		}
		defer ws.CloseNow()
		ws.SetReadLimit(1 << 20)
		ask := map[string]any{"id": 1, "method": "Runtime.evaluate", "params": map[string]any{"expression": script}}
		var out struct {
			Result struct{ Result struct{ Value string } }
		}
		if err := wsjson.Write(h.t.Context(), ws, ask); err != nil {
			h.t.Fatal(err)
		}
		if err := wsjson.Read(h.t.Context(), ws, &out); err != nil {
			h.t.Fatal(err)
		}
		return out.Result.Result.Value
	}
	h.t.Fatalf("DevTools of %s lists no page: %+v", name, pages)
	return ""
}

// TestDesktop: a browser in a VM is used by its screen, and what it knows survives a fork and
// a suspend. An emulated Chromium takes a minute for a page, and the image minutes to build:
// CI has TestScreen.
func TestDesktop(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: an emulated Chromium takes minutes; `make soak` sets it")
	}
	h := newHost(t, "--pool", "0") // an emulated browser needs all of the processor
	began := time.Now()
	h.ok("up", "desktop", "--name", "desk")
	t.Logf("up took %v", time.Since(began).Round(time.Second))
	if n := colours(corner(h.shot("desk"))); n < 20 {
		t.Errorf("a new VM's screen has %d colours: the browser is not on it", n)
	}
	h.ok("hold", "desk", "--for", "1h", "--reason", "test")
	h.ok("cp", "testdata/site.py", "desk:/srv/site.py")
	h.ok("exec", "desk", "--background", "--", "python3", "/srv/site.py")
	h.ok("wait", "desk", "--port", "8000")
	h.ok("screen", "key", "desk", "ctrl+l")
	h.ok("screen", "type", "desk", "127.0.0.1:8000/\n")
	_, where := h.drawnBlock("desk", unknownToSite)
	h.ok("screen", "click", "desk", fmt.Sprint(where.X+100), fmt.Sprint(where.Y+blockHeight+40))
	h.ok("screen", "type", "desk", "Ann\tsecret\n")
	img, at := h.drawnBlock("desk", knownToSite)
	h.keepShot("desk", img)
	if at != where {
		t.Errorf("the block moved from %v to %v", where, at)
	}
	if n := colours(corner(img)); n < 50 {
		t.Errorf("the screen has %d colours, which is no page in a browser", n)
	}
	const text = "document.body.innerText.trim()"
	if got := h.asksBrowser("desk", text); got != "Welcome, Ann" {
		t.Errorf("DevTools says that the page has the text %q", got)
	}
	h.ok("fork", "desk", "--name", "copy")
	h.ok("suspend", "desk")
	for _, name := range []string{"copy-1", "desk"} { // a command wakes the suspended one
		h.ok("screen", "key", name, "F5")
		if who := h.visits(name, 3); who != "Ann" {
			t.Errorf("%s: after a reload the site knows the browser as %q, not as Ann", name, who)
		}
		img, at := h.drawnBlock(name, knownToSite)
		if at != where {
			t.Errorf("%s: the block moved from %v to %v", name, where, at)
		}
		h.keepShot(name, img)
	}
	for name, driver := range map[string]string{"copy-1": "playwright", "desk": "puppeteer"} {
		if got := h.drives(name, driver); got != "Welcome, Ann" {
			t.Errorf("%s: %s says that the page has the text %q", name, driver, got)
		}
	}
}
