// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"image/png"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func newScreen(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "screen", Short: "Look at the screen of a VM, and use it",
		Example: "  warren screen shot box -o now.png\n  warren screen click box 640 400\n  warren screen type box 'hello'\n  warren screen key box Return",
		Long:    "Look at the screen of a VM, and use its pointer and keyboard.\n\nThe VM needs a VNC server on its port 5900, as the image desktop has.\n0 0 is the upper left corner of the screen.",
	}
	cmd.AddCommand(newScreenShot(a), newScreenClick(a), newScreenMove(a), newScreenScroll(a), newScreenType(a), newScreenKey(a), newScreenLink(a))
	return cmd
}

type shotOptions struct {
	name string
	file string
	json bool
}

// shotFile is a picture that was taken.
type shotFile struct {
	File   string `json:"file,omitempty"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Bytes  int    `json:"bytes"`
	PNG    []byte `json:"png,omitempty"` // in base64, without a file
}

func newScreenShot(a *app) *cobra.Command {
	o := &shotOptions{}
	cmd := &cobra.Command{
		Use: "shot NAME", Short: "Take a picture of the screen",
		Example: "  warren screen shot box -o now.png\n  warren screen shot box --json",
		Long:    "Write what the screen of a VM shows as a PNG file, or to standard output.\nWith --json and without a file, the picture is in the answer, in base64.",
		Args:    args(1, 1, "which VM? warren screen shot NAME -o FILE"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.screenShot(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "the file to write")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) screenShot(ctx context.Context, o *shotOptions) error {
	if o.file == "" && !o.json && a.io.outTTY {
		return usage("a picture is not for a terminal").WithHint("name a file: warren screen shot %s -o FILE", printable(o.name))
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	data, err := c.ShotScreen(ctx, o.name)
	if err != nil {
		return err
	}
	size, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return vm.Errorf(vm.Internal, o.name, "the server sent no picture: %w", err)
	}
	out := shotFile{File: o.file, Width: size.Width, Height: size.Height, Bytes: len(data)}
	switch {
	case o.file != "":
		if err := os.WriteFile(o.file, data, 0o644); err != nil {
			return vm.Errorf(vm.Invalid, o.file, "the picture cannot be written: %w", err)
		}
		if !o.json {
			a.io.notef("%s: %d x %d pixels", printable(o.file), out.Width, out.Height)
		}
	case o.json:
		out.PNG = data
	default:
		_, _ = a.io.out.Write(data) // like printf
	}
	if o.json {
		return a.io.json(out)
	}
	return nil
}

// screenVerb makes the command of an action. fill reads its arguments, which follow the VM.
func screenVerb(a *app, cmd *cobra.Command, n int, ask string, fill func(act *vm.ScreenAction, list []string) error) (*cobra.Command, *vm.ScreenAction) {
	act, asJSON := &vm.ScreenAction{}, false
	cmd.Args = args(n+1, n+1, ask)
	cmd.ValidArgsFunction = a.completeVM
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the size of the screen as JSON")
	cmd.RunE = func(cmd *cobra.Command, list []string) error {
		if err := fill(act, list[1:]); err != nil {
			return err
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		size, err := c.ActOnScreen(cmd.Context(), list[0], *act)
		if err == nil && asJSON {
			return a.io.json(size)
		}
		return err
	}
	return cmd, act
}

// spot reads the coordinates X and Y.
func spot(act *vm.ScreenAction, list []string) (err error) {
	if act.X, err = number(list[0]); err == nil {
		act.Y, err = number(list[1])
	}
	return err
}

func number(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, usage("%s is not a number", printable(s)).WithHint("0 0 is the upper left corner of the screen")
	}
	return n, nil
}

func newScreenClick(a *app) *cobra.Command {
	cmd, act := screenVerb(a, &cobra.Command{
		Use: "click NAME X Y", Short: "Click on a place of the screen",
		Example: "  warren screen click box 640 400\n  warren screen click box 640 400 -n 2\n  warren screen click box 640 400 --button 3",
	}, 2, "where on the screen of which VM? warren screen click NAME X Y", func(act *vm.ScreenAction, list []string) error {
		act.Do = vm.ScreenClick
		return spot(act, list)
	})
	cmd.Flags().IntVar(&act.Button, "button", 1, "1 is left, 2 middle, 3 right")
	cmd.Flags().IntVarP(&act.Count, "count", "n", 1, "how often: 2 is a double click")
	return cmd
}

func newScreenMove(a *app) *cobra.Command {
	cmd, _ := screenVerb(a, &cobra.Command{
		Use: "move NAME X Y", Short: "Move the pointer", Example: "  warren screen move box 640 400",
	}, 2, "where on the screen of which VM? warren screen move NAME X Y", func(act *vm.ScreenAction, list []string) error {
		act.Do = vm.ScreenMove
		return spot(act, list)
	})
	return cmd
}

func newScreenScroll(a *app) *cobra.Command {
	cmd, act := screenVerb(a, &cobra.Command{
		Use: "scroll NAME X Y", Short: "Turn the wheel at a place of the screen",
		Example: "  warren screen scroll box 640 400\n  warren screen scroll box 640 400 --steps -5",
	}, 2, "where on the screen of which VM? warren screen scroll NAME X Y", func(act *vm.ScreenAction, list []string) error {
		act.Do = vm.ScreenScroll
		return spot(act, list)
	})
	cmd.Flags().IntVar(&act.Count, "steps", 3, "how far down; negative is up")
	return cmd
}

func newScreenType(a *app) *cobra.Command {
	cmd, _ := screenVerb(a, &cobra.Command{
		Use: "type NAME TEXT", Short: "Type a text", Example: "  warren screen type box 'hello'\n  warren screen type box 'Ann Example' --json",
		Long: "Type a text into the program that has the keyboard. Use `warren screen key` for other keys.",
	}, 1, "which text in which VM? warren screen type NAME TEXT", func(act *vm.ScreenAction, list []string) error {
		act.Do, act.Text = vm.ScreenType, list[0]
		return nil
	})
	return cmd
}

func newScreenKey(a *app) *cobra.Command {
	cmd, _ := screenVerb(a, &cobra.Command{
		Use: "key NAME KEYS", Short: "Press a key, or several together", Example: "  warren screen key box Return\n  warren screen key box ctrl+l\n  warren screen key box alt+F4",
		Long: "Press a key, or several joined by +. Keys are characters, and the names Return, Tab, Escape,\nBackSpace, Delete, Insert, Home, End, Page_Up, Page_Down, Left, Right, Up, Down, F1 to F24,\nctrl, shift, alt, super, space, plus.",
	}, 1, "which key in which VM? warren screen key NAME KEYS", func(act *vm.ScreenAction, list []string) error {
		act.Do, act.Keys = vm.ScreenKey, list[0]
		return nil
	})
	return cmd
}

type screenLinkOptions struct {
	name        string
	watch, open bool
	lasts       time.Duration
	json        bool
}

func newScreenLink(a *app) *cobra.Command {
	o := &screenLinkOptions{}
	cmd := &cobra.Command{
		Use: "link NAME", Short: "Print a link that shows the screen in a browser",
		Example: "  warren screen link box\n  warren screen link box --watch --for 8h\n  warren screen link box --open",
		Long:    "Sign a link that opens the screen of a VM in a browser, to use it or, with --watch, only to see it.\nWith --open, print an address that opens it as you, once, within 30 seconds.\n`warren preview NAME 5900 --private` ends all of these links.",
		Args:    args(1, 1, "which VM? warren screen link NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.screenLink(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	f := cmd.Flags()
	f.BoolVar(&o.watch, "watch", false, "who has the link only watches")
	f.BoolVar(&o.open, "open", false, "print an address that opens it in a browser as you, once")
	f.DurationVar(&o.lasts, "for", time.Hour, "how long the link opens it")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	cmd.MarkFlagsMutuallyExclusive("watch", "open")
	cmd.MarkFlagsMutuallyExclusive("for", "open")
	return cmd
}

func (a *app) screenLink(ctx context.Context, o *screenLinkOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	var l api.PreviewLink
	if o.open {
		l, err = c.TicketPreview(ctx, o.name, vm.ScreenPort)
	} else {
		l, err = c.LinkScreen(ctx, o.name, o.lasts, o.watch)
	}
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(l)
	}
	a.io.printf("%s\n", plain(l.URL))
	return nil
}
