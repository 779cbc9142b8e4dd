// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bytes"
	"image/png"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/screen"
	"github.com/warren-vm/warren/vm"
)

func (s *server) screenRoutes() []route {
	return []route{
		{"GET", "/v1/vms/{vm}/screen/shot", granted, s.shotScreen, "What the screen of the VM shows, as PNG.", nil, nil, false, ""},
		{"POST", "/v1/vms/{vm}/screen/move", granted, s.moveScreen, "Move the pointer.", api.MoveScreen{}, vm.ScreenSize{}, false, ""},
		{"POST", "/v1/vms/{vm}/screen/click", granted, s.clickScreen, "Click a button of the pointer.", api.ClickScreen{}, vm.ScreenSize{}, false, ""},
		{"POST", "/v1/vms/{vm}/screen/scroll", granted, s.scrollScreen, "Turn the wheel of the pointer.", api.ScrollScreen{}, vm.ScreenSize{}, false, ""},
		{"POST", "/v1/vms/{vm}/screen/type", granted, s.typeScreen, "Type a text.", api.TypeScreen{}, vm.ScreenSize{}, false, ""},
		{"POST", "/v1/vms/{vm}/screen/key", granted, s.keyScreen, "Press a key, or several together.", api.KeyScreen{}, vm.ScreenSize{}, false, ""},
	}
}

func (s *server) shotScreen(q *request) error {
	img, err := screen.New(s.Inside).Shot(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&out, img); err != nil {
		return vm.Errorf(vm.Internal, q.ref(), "screen: %w", err)
	}
	q.header("image/png")
	_, _ = q.w.Write(out.Bytes()) // the client may have left
	return nil
}

func (s *server) act(q *request, a vm.ScreenAction) error {
	size, err := screen.New(s.Inside).Act(q.Context(), q.call, q.ref(), a)
	if err != nil {
		return err
	}
	return q.ok(size)
}

func (s *server) moveScreen(q *request) error {
	var in api.MoveScreen
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	return s.act(q, vm.ScreenAction{Do: vm.ScreenMove, X: in.X, Y: in.Y})
}

func (s *server) clickScreen(q *request) error {
	var in api.ClickScreen
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	return s.act(q, vm.ScreenAction{Do: vm.ScreenClick, X: in.X, Y: in.Y, Button: in.Button, Count: in.Count})
}

func (s *server) scrollScreen(q *request) error {
	var in api.ScrollScreen
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	return s.act(q, vm.ScreenAction{Do: vm.ScreenScroll, X: in.X, Y: in.Y, Count: in.Steps})
}

func (s *server) typeScreen(q *request) error {
	var in api.TypeScreen
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	return s.act(q, vm.ScreenAction{Do: vm.ScreenType, Text: in.Text})
}

func (s *server) keyScreen(q *request) error {
	var in api.KeyScreen
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	return s.act(q, vm.ScreenAction{Do: vm.ScreenKey, Keys: in.Keys})
}
