// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// maxShot bounds the picture of a screen.
const maxShot = 128 << 20

// ShotScreen returns what the screen of a VM shows, as PNG.
func (c *Client) ShotScreen(ctx context.Context, ref string) ([]byte, error) {
	resp, err := c.send(ctx, call{method: "GET", path: vmPath(ref, "screen", "shot")})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxShot))
	if err != nil {
		return nil, c.broken(ctx, err)
	}
	return data, nil
}

// ActOnScreen does what an action says, and returns the size of the screen.
func (c *Client) ActOnScreen(ctx context.Context, ref string, a vm.ScreenAction) (vm.ScreenSize, error) {
	var in any
	switch a.Do {
	case vm.ScreenMove:
		in = api.MoveScreen{X: a.X, Y: a.Y}
	case vm.ScreenClick:
		in = api.ClickScreen{X: a.X, Y: a.Y, Button: a.Button, Count: a.Count}
	case vm.ScreenScroll:
		in = api.ScrollScreen{X: a.X, Y: a.Y, Steps: a.Count}
	case vm.ScreenType:
		in = api.TypeScreen{Text: a.Text}
	case vm.ScreenKey:
		in = api.KeyScreen{Keys: a.Keys}
	}
	return do[vm.ScreenSize](ctx, c, call{method: "POST", path: vmPath(ref, "screen", string(a.Do))}, in)
}

// LinkScreen signs a link that opens the screen of a VM for this time, 0 = an hour; with
// watch, only to watch it.
func (c *Client) LinkScreen(ctx context.Context, ref string, lasts time.Duration, watch bool) (api.PreviewLink, error) {
	in := api.NewLink{For: vm.Seconds(lasts), Watch: watch}
	return do[api.PreviewLink](ctx, c, call{method: "POST", path: previewPath(ref, vm.ScreenPort, "links")}, in)
}
