// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command greet answers with a greeting.
package main

import (
	"fmt"
	"log"
	"net/http"
)

func greet(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if name == "" {
		name = "world"
	}
	fmt.Fprintf(w, "hello, %q\n", name)
}

func main() {
	http.HandleFunc("/", greet)
	log.Fatal(http.ListenAndServe(":8080", nil))
}
