// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// Files beside vm.EnvFile.
const (
	bundleFile = "ca-bundle.crt" // the system's CAs and the VM's, as PEM
	javaFile   = "cacerts"       // the same, for Java
)

// give writes what programs need for the requests that the VM's network reads: the VM's own
// CA, and the placeholders of secrets. All of it is in /run, which no disk has, so a fork has
// none of its parent's. What cannot be written is missed: a guest with a full disk starts.
func (a *Agent) give(r vm.Reset) {
	if err := a.giveSecrets(r.Secrets); err != nil {
		a.log.Warn("the placeholders of secrets were not written", "err", err)
	}
	if err := a.giveChromium(r.OwnCA); err != nil {
		a.log.Warn("Chromium's policy was not written", "err", err)
	}
	var env strings.Builder
	for _, s := range r.Secrets {
		if envName(s.Env) && plainWord(s.Placeholder) {
			env.WriteString(s.Env + "=" + s.Placeholder + "\n")
		}
	}
	own := filepath.Join(filepath.Dir(a.cfg.RunDir), filepath.Base(vm.InterceptCAFile))
	if len(r.OwnCA) > 0 {
		if err := a.giveCA(own, r); err != nil {
			a.log.Warn("the VM's own CA was not written", "err", err)
		} else {
			env.WriteString(trustEnv(a.cfg.RunDir, own))
		}
	}
	path := filepath.Join(a.cfg.RunDir, filepath.Base(vm.EnvFile))
	if env.Len() > 0 {
		if err := writeSmall(path, env.String(), 0o644); err != nil {
			a.log.Warn("the environment of programs was not written", "err", err)
		}
		return
	}
	_ = os.Remove(path) // usually there is none
}

// giveNow is give while the guest runs, after a change of its policy.
func (a *Agent) giveNow(w *answer, r *request) error {
	b, err := r.words()
	if err != nil {
		return err
	}
	reset, err := link.DecodeReset(b)
	if err != nil {
		return vm.Errorf(vm.Invalid, "", "malformed request: %w", err)
	}
	a.trust(reset.CA)
	a.give(reset)
	return w.bytes(nil)
}

// trustEnv are variables by which programs with CAs of their own find the VM's.
func trustEnv(run, own string) string {
	bundle := filepath.Join(run, bundleFile)
	var b strings.Builder
	for _, name := range []string{
		"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CARGO_HTTP_CAINFO", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE",
		"NPM_CONFIG_CAFILE", "CODEX_CA_CERTIFICATE", "DENO_CERT",
	} {
		b.WriteString(name + "=" + bundle + "\n")
	}
	b.WriteString("NODE_EXTRA_CA_CERTS=" + own + "\n")
	b.WriteString("JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=" + filepath.Join(run, javaFile) + " -Djavax.net.ssl.trustStoreType=JKS\n")
	return b.String()
}

// giveSecrets writes a file for each placeholder and removes all others.
func (a *Agent) giveSecrets(list []vm.GuestSecret) error {
	dir := filepath.Join(a.cfg.RunDir, filepath.Base(vm.SecretsDir))
	have, err := os.ReadDir(dir)
	if len(list) == 0 && os.IsNotExist(err) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, s := range list {
		if s.Name == "" || s.Name != filepath.Base(s.Name) || strings.HasPrefix(s.Name, ".") {
			continue
		}
		keep[s.Name] = true
		if err := writeSmall(filepath.Join(dir, s.Name), s.Placeholder, 0o644); err != nil {
			return err
		}
	}
	for _, e := range have {
		if !keep[e.Name()] {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveCA writes the certificate of the VM's own CA in the forms that programs read.
func (a *Agent) giveCA(own string, r vm.Reset) error {
	run := a.cfg.RunDir
	java := filepath.Join(run, javaFile)
	if b, err := os.ReadFile(own); err == nil && bytes.Equal(b, r.OwnCA) {
		if _, err := os.Stat(java); err == nil { // written last
			return nil
		}
	}
	if err := writeSmall(own, string(r.OwnCA), 0o644); err != nil {
		return err
	}
	system, err := os.ReadFile(filepath.Join(a.cfg.EtcDir, "ssl", "certs", "ca-certificates.crt"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if len(system) > 0 && system[len(system)-1] != '\n' {
		system = append(system, '\n')
	}
	bundle := append(append(system, r.OwnCA...), r.CA...)
	if err := writeSmall(filepath.Join(run, bundleFile), string(bundle), 0o644); err != nil {
		return err
	}
	return writeSmall(java, string(javaTrust(bundle)), 0o644)
}

// giveChromium writes Chromium's policy, to which links on the disk lead: the VM's own CA, and
// no encrypted greetings, because a network that decides by names refuses them.
func (a *Agent) giveChromium(ca []byte) error {
	text := `{"EncryptedClientHelloEnabled":false`
	if block, _ := pem.Decode(ca); block != nil {
		text += `,"CACertificates":["` + base64.StdEncoding.EncodeToString(block.Bytes) + `"]`
	}
	text += "}\n"
	file := filepath.Join(a.cfg.RunDir, filepath.Base(vm.ChromiumPolicyFile))
	b := make([]byte, maxSmall)
	if n, err := readSmall(file, b); err == nil && string(b[:n]) == text {
		return nil // the links are there, too
	}
	for _, d := range vm.ChromiumPolicies() {
		dir := filepath.Join(a.cfg.EtcDir, strings.TrimPrefix(d, "/etc"))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.Symlink(file, filepath.Join(dir, "warren.json")); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return writeSmall(file, text, 0o644)
}

// envName reports whether s can be the name of a variable.
func envName(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// plainWord reports whether s stands in a file of variables as it is.
func plainWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"'\#$`, r) })
}
