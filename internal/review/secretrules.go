// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"math"
	"path"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// secretRule finds secrets of one known form. The forms are those that the issuers
// publish; most stand in gitleaks' rules, too. Its library is not used: it brings a
// configuration language and an archive reader, and it finds, but does not mask.
type secretRule struct {
	kind string
	// near are texts, in lower case, of which a secret has one in or just before it.
	near []string
	re   *vm.Pattern
	// back are the bytes before the near text that belong to a match. Then re is tried at
	// the near text only, which is cheap on any input.
	back  func(c byte) bool
	group int // of re, that is the secret; 0 = all
	// accept looks at what was found; nil = it is a secret.
	accept func(m [][]byte) bool
}

var secretRules = []secretRule{
	{kind: "private key", near: []string{"private key"}, re: vm.NewPattern(`-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----`)},
	{kind: "AWS access key", near: []string{"akia", "asia", "abia", "acca"}, re: vm.NewPattern(`\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`), accept: noExample},
	{kind: "AWS secret key", near: []string{"aws"}, re: vm.NewPattern(`(?i)aws[\w.-]{0,20}(?:secret|key)[\w.-]{0,20}["']?\s{0,4}[=:]\s{0,4}["']?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)`), group: 1, accept: noExample},
	{kind: "Google API key", near: []string{"aiza"}, re: vm.NewPattern(`\bAIza[\w-]{35}`)},
	{kind: "Google OAuth secret", near: []string{"gocspx-"}, re: vm.NewPattern(`\bGOCSPX-[\w-]{28}`)},
	{kind: "GitHub token", near: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}, re: vm.NewPattern(`\b(?:gh[pousr]_[0-9A-Za-z]{36}|github_pat_\w{82})`)},
	{kind: "GitLab token", near: []string{"glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glsoat-", "glcbt-", "glagent-"}, re: vm.NewPattern(`\bgl(?:pat|dt|rt|ptt|ft|soat|cbt|agent)-[\w-]{20,}`)},
	{kind: "Slack token", near: []string{"xox", "xapp-"}, re: vm.NewPattern(`\b(?:xox[abeoprs]-[0-9A-Za-z-]{10,}|xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]+)`)},
	{kind: "Slack webhook", near: []string{"hooks.slack.com"}, re: vm.NewPattern(`hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{40,60})`), group: 1},
	{kind: "Stripe key", near: []string{"_live_", "_test_", "_prod_"}, re: vm.NewPattern(`\b(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,99}\b`)},
	{kind: "Anthropic API key", near: []string{"sk-ant-"}, re: vm.NewPattern(`\bsk-ant-[a-z0-9]+-[\w-]{24,}`)},
	{kind: "OpenAI API key", near: []string{"sk-"}, re: vm.NewPattern(`\bsk-(?:(?:proj|svcacct|admin|None)-[\w-]{20,}|[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|[A-Za-z0-9]{48})\b`)},
	{kind: "npm token", near: []string{"npm_", "_authtoken"}, re: vm.NewPattern(`\bnpm_[A-Za-z0-9]{36}\b`)},
	{kind: "PyPI token", near: []string{"pypi-"}, re: vm.NewPattern(`\bpypi-AgE[\w-]{50,}`)},
	{kind: "Hugging Face token", near: []string{"hf_"}, re: vm.NewPattern(`\bhf_[A-Za-z]{34}\b`)},
	{kind: "DigitalOcean token", near: []string{"dop_v1_", "doo_v1_", "dor_v1_"}, re: vm.NewPattern(`\bdo[opr]_v1_[a-f0-9]{64}\b`)},
	{kind: "Docker token", near: []string{"dckr_"}, re: vm.NewPattern(`\bdckr_(?:pat|oat)_[\w-]{27,}`)},
	{kind: "SendGrid key", near: []string{"sg."}, re: vm.NewPattern(`\bSG\.[\w-]{22}\.[\w-]{43}\b`)},
	{kind: "Shopify token", near: []string{"shpat_", "shpca_", "shppa_", "shpss_"}, re: vm.NewPattern(`\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b`)},
	{kind: "Azure storage key", near: []string{"accountkey="}, re: vm.NewPattern(`AccountKey=([A-Za-z0-9+/]{86}==)`), group: 1},
	{kind: "Vault token", near: []string{"hvs.", "hvb."}, re: vm.NewPattern(`\bhv[sb]\.[\w-]{24,}`)},
	{kind: "age key", near: []string{"age-secret-key-"}, re: vm.NewPattern(`AGE-SECRET-KEY-1[0-9A-Z]{58}`)},
	{kind: "JSON Web Token", near: []string{"eyj"}, re: vm.NewPattern(`\beyJ[A-Za-z0-9_-]{14,}\.eyJ[A-Za-z0-9_-]{14,}\.[A-Za-z0-9_-]{10,}`)},
	{kind: "password in .netrc", near: []string{"password"}, re: vm.NewPattern(`(?i)\bmachine[ \t]+\S+[ \t]+login[ \t]+\S+[ \t]+password[ \t]+(\S+)`), group: 1},
	{
		kind: "password in a URL", near: []string{"://"},
		re:    vm.NewPattern(`^://[^\s:/@"'<>]*:([^\s:/@"'<>]{3,})@[A-Za-z0-9.\[-]`),
		back:  func(c byte) bool { return false },
		group: 1, accept: func(m [][]byte) bool { return !placeholder(m[1]) },
	},
	// Not a secret that is reported, but nothing to print.
	{kind: hashKind, near: []string{":$"}, re: vm.NewPattern(`:(\$(?:[1567y]|gy|2[abxy]|argon2\w{1,2})\$[^:\s]{8,})`), group: 1},
}

// hashKind are hashes of passwords: they are masked and not reported.
const hashKind = "password hash"

// named finds values with much entropy next to names that are given to secrets.
var named = secretRule{
	kind: "value of a name like that of a secret",
	near: []string{"secret", "token", "passw", "passphrase", "api_key", "api-key", "apikey", "access_key", "accesskey", "access-key", "auth_key", "authkey", "private_key", "privatekey", "credential"},
	re:   vm.NewPattern("^([\\w.-]*)[\"'\\]]{0,2}[ \t]*(?::=|=>|=|:)[ \t]*([\"'`]?)([^\\s\"'`,;]{6,})"),
	back: func(c byte) bool {
		return c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
	},
	group: 3,
}

// noExample refuses the keys of AWS's own documentation.
func noExample(m [][]byte) bool {
	return !bytes.HasSuffix(bytes.ToUpper(m[len(m)-1]), []byte("EXAMPLE")) && !bytes.Contains(m[len(m)-1], []byte("EXAMPLEKEY"))
}

var (
	uuidForm   = vm.NewPattern(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
	dottedForm = vm.NewPattern(`^[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+$`)
	hexForm    = vm.NewPattern(`^(?:0x)?[0-9a-fA-F]+$`)
)

// namedSecret judges a value beside a name. plain = the file is one in which programs
// expect secrets, as .env: there any value counts that is no placeholder.
func namedSecret(name, value []byte, quoted, plain bool) bool {
	lower := strings.ToLower(string(name))
	for _, end := range []string{"name", "id", "ref", "path", "file", "url", "uri", "arn", "type", "length", "ttl", "expiry", "expires", "count", "size", "limit", "regex", "pattern", "field", "label", "header", "hash", "digest", "integrity", "checksum", "tokenizer"} {
		if strings.HasSuffix(lower, end) {
			return false
		}
	}
	if strings.Contains(lower, "public") || strings.Contains(lower, "sha256") || placeholder(value) {
		return false
	}
	if plain {
		return true
	}
	switch {
	case len(value) < 12, uuidForm.Regexp().Match(value), dottedForm.Regexp().Match(value):
		return false
	case bytes.HasPrefix(value, []byte("/")), bytes.HasPrefix(value, []byte("./")), bytes.HasPrefix(value, []byte("~/")), bytes.Contains(value, []byte("://")):
		return false
	case !quoted && hexForm.Regexp().Match(value) && len(value) < 24: // a number
		return false
	}
	least := 3.5
	if len(value) < 20 || hexForm.Regexp().Match(value) {
		least = 3.0
	}
	return entropy(value) >= least && mixed(value)
}

// placeholder reports whether a value stands for a secret and is none.
func placeholder(v []byte) bool {
	if bytes.ContainsAny(v, "${}<>()[]*%\\") || bytes.Contains(v, []byte("...")) {
		return true
	}
	lower := bytes.ToLower(v)
	for _, word := range []string{"example", "changeme", "change-me", "change_me", "placeholder", "your-", "your_", "xxxx", "dummy", "redacted", "insert", "replace", "password", "passwd", "secret", "undefined", "process.env", "os.environ", "getenv"} {
		if bytes.Contains(lower, []byte(word)) {
			return true
		}
	}
	switch string(lower) {
	case "null", "none", "true", "false", "string", "number", "pass", "user", "root", "admin", "test", "token", "foo", "bar", "postgres", "mysql", "guest":
		return true
	}
	return entropy(v) < 1.5
}

// mixed reports whether one part of a value between signs is no word and no number.
func mixed(v []byte) bool {
	for _, part := range bytes.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune("-_.:@", r) }) {
		digits, letters, changes := 0, 0, 0
		for i, c := range part {
			isDigit := c >= '0' && c <= '9'
			if isDigit {
				digits++
			} else {
				letters++
			}
			if i > 0 && isDigit != (part[i-1] >= '0' && part[i-1] <= '9') {
				changes++
			}
		}
		if len(part) >= 8 && digits >= 2 && letters >= 1 && changes >= 2 {
			return true
		}
	}
	return false
}

// entropy is Shannon's, in bits for each byte.
func entropy(v []byte) (bits float64) {
	var count [256]int
	for _, c := range v {
		count[c]++
	}
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(v))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// holdsSecrets reports whether programs expect secrets in a file of this name.
func holdsSecrets(p string) bool {
	base := path.Base(p)
	if strings.HasSuffix(base, ".example") || strings.HasSuffix(base, ".sample") || strings.HasSuffix(base, ".template") {
		return false
	}
	switch base {
	case ".netrc", "_netrc", ".pgpass", ".git-credentials", ".htpasswd", "credentials":
		return true
	}
	return base == ".env" || strings.HasPrefix(base, ".env.") || strings.HasSuffix(base, ".env")
}
