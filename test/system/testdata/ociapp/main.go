// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command ociapp is the only file of a container image: it serves a counter, and with an argument it is
// the commands that a test needs in a guest without a shell.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		os.Exit(command(os.Args[1], os.Args[2:]))
	}
	var n atomic.Int64
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, n.Add(1))
		fmt.Println("answered", r.URL.Path)
	})
	http.HandleFunc("/crash", func(http.ResponseWriter, *http.Request) {
		fmt.Fprintln(os.Stderr, "it crashes as asked")
		os.Exit(3)
	})
	fmt.Println("listens as", os.Getuid(), "in", workdir(), "greeting", os.Getenv("GREETING"))
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:8080", nil))
	os.Exit(1)
}

func workdir() string {
	dir, err := os.Getwd()
	if err != nil {
		return err.Error()
	}
	return dir
}

func command(word string, args []string) int {
	switch word {
	case "env":
		fmt.Println(os.Getuid(), workdir(), os.Getenv("GREETING"))
	case "get":
		r, err := http.Get("http://127.0.0.1:8080/" + strings.Join(args, ""))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		_, _ = io.Copy(os.Stdout, r.Body)
	case "read":
		b, err := os.ReadFile(args[0])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		_, _ = os.Stdout.Write(b)
	case "sleep":
		time.Sleep(time.Hour)
	}
	return 0
}
