// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// letters makes a value of letters and digits that is the same in each run.
func letters(n int, alphabet string) string {
	r := rand.New(rand.NewPCG(7, 7))
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(out)
}

const (
	alnum = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// Values of known forms are found, with their line. They are put together here, so that
// no scanner of secrets finds them in this file.
func TestKnownSecrets(t *testing.T) {
	for kind, value := range map[string]string{
		"AWS access key":     "AK" + "IA" + letters(16, upper),
		"Google API key":     "AI" + "za" + letters(35, alnum),
		"GitHub token":       "gh" + "p_" + letters(36, alnum),
		"GitLab token":       "gl" + "pat-" + letters(20, alnum),
		"Slack token":        "xo" + "xb-" + letters(24, alnum),
		"Stripe key":         "sk" + "_live_" + letters(24, alnum),
		"Anthropic API key":  "sk" + "-ant-api03-" + letters(93, alnum) + "AA",
		"OpenAI API key":     "sk" + "-proj-" + letters(48, alnum),
		"npm token":          "np" + "m_" + letters(36, alnum),
		"PyPI token":         "py" + "pi-AgEIcHlwaS5vcmc" + letters(60, alnum),
		"JSON Web Token":     "ey" + "J" + letters(20, alnum) + ".ey" + "J" + letters(30, alnum) + "." + letters(43, alnum),
		"password in a URL":  "postgres://app:" + letters(16, alnum) + "@db:5432/x",
		"private key":        "-----BEGIN OPENSSH PRIVATE" + " KEY-----\n" + letters(64, alnum) + "\n-----END OPENSSH PRIVATE" + " KEY-----",
		"password in .netrc": "machine git.example.org login ann password " + letters(12, alnum),
		named.kind:           `api_key = "` + letters(32, alnum) + `"`,
	} {
		t.Run(kind, func(t *testing.T) {
			text := []byte("first line\nx = '" + value + "'\nlast line\n")
			if kind == named.kind || strings.Contains(kind, "netrc") {
				text = []byte("first line\n" + value + "\nlast line\n")
			}
			found, full := findSecrets("/work/x", text)
			if !full || len(found) != 1 || found[0].kind != kind || found[0].line != 2 {
				t.Fatalf("found is %+v (searched whole: %v), want one %s in line 2", found, full, kind)
			}
			secret := string(text[found[0].from:found[0].to])
			for i, line := range strings.Split(string(text), "\n") {
				shown := string(masksOf(text, found).apply(i+1, []byte(line)))
				for part := range strings.SplitSeq(secret, "\n") {
					if part != "" && strings.Contains(shown, part) {
						t.Errorf("line %d is shown as %q", i+1, shown)
					}
				}
			}
		})
	}
}

// A secret in base64 is found, on one line or wrapped.
func TestSecretInBase64(t *testing.T) {
	plain := "user=x\nAWS_ACCESS_KEY_ID=" + "AK" + "IA" + letters(16, upper) + "\n" + strings.Repeat("filler ", 30)
	whole := base64.StdEncoding.EncodeToString([]byte(plain))
	wrapped := ""
	for part := range slices.Chunk([]byte(whole), 76) {
		wrapped += string(part) + "\n"
	}
	for name, text := range map[string]string{"one line": "data: " + whole + "\n", "wrapped": "x\n" + wrapped} {
		found, _ := findSecrets("/work/x", []byte(text))
		if len(found) != 1 || found[0].kind != "AWS access key in base64" {
			t.Errorf("%s: found is %+v", name, found)
		}
	}
}

// Ordinary files have no secrets.
func TestNoSecrets(t *testing.T) {
	hash := letters(64, "0123456789abcdef")
	for name, text := range map[string]string{
		"package-lock.json": `"integrity": "sha512-` + letters(86, alnum) + `==", "resolved": "https://packages.example.org/a/-/a-1.0.0.tgz"`,
		"Cargo.lock":        "[[package]]\nname = \"token\"\nchecksum = \"" + hash + "\"\n",
		"go.sum":            "example.org/token v1.0.0 h1:" + letters(43, alnum) + "=\n",
		"poetry.lock":       "{file = \"x.whl\", hash = \"sha256:" + hash + "\"},\n",
		"image.css":         "a{background:url(data:image/png;base64," + letters(4000, alnum) + ")}\n",
		"min.js":            strings.Repeat(`function(e,t){var n=e.token,r=t.password;return n.accessToken=r.getToken(e),n.secret===r.secretKey}`, 200),
		"uuid.json":         `{"token": "123e4567-e89b-12d3-a456-426614174000"}`,
		"env.example":       "API_KEY=your-api-key-here\nDB_PASSWORD=changeme\nSECRET=${SECRET}\n",
		"code.py":           "token = os.environ['GITHUB_TOKEN']\npassword = get_password(user)\nsecret_name = 'projects/x1/secrets/y2'\napi_key: str = settings.services.api_key\n",
		"k8s.yaml":          "secretName: my-tls-cert-2024-prod\ntokenPath: /var/run/secrets/token-1a2b3c4d\n",
		"doc.md":            "Use `https://user:password@host/` or `postgres://localhost:5432/db`.\nmax_tokens: 4096\n",
		"aws.md":            "aws_access_key_id = AKIAIOSFODNN7EXAMPLE\n",
		"commit.txt":        "The token count was 1048576 and the access key is held by ann.\n",
		"types.ts":          "export type Token = { accessToken: string; refreshToken: string }\nconst csrfTokenHeader = 'X-CSRF-Token-V2'\n",
	} {
		if found, _ := findSecrets("/work/"+name, []byte(text)); len(found) > 0 {
			t.Errorf("%s: found is %s in %q", name, found[0].kind, text[found[0].from:found[0].to])
		}
	}
}

// A file that begins what might be a secret over and over is searched soon.
func TestSecretSearchEnds(t *testing.T) {
	for _, part := range []string{"akia", "token=", "eyJ", "-----BEGIN PRIVATE KEY-----", "://", "token", "AAAA"} {
		text := []byte(strings.Repeat(part, (1<<20)/len(part)))
		begun := time.Now()
		findSecrets("/work/x", text)
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("a file of %q takes %v", part, took)
		}
	}
}

// FuzzSecrets: whatever a text holds, what is found lies in it and can be masked.
func FuzzSecrets(f *testing.F) {
	f.Add([]byte("token = \"" + letters(32, alnum) + "\"\n-----BEGIN RSA PRIVATE KEY-----\nabc\n"))
	f.Add([]byte("İ password=hunter2hunter2 \xff\xfe://a:bcdef@c"))
	f.Fuzz(func(t *testing.T, text []byte) {
		found, _ := findSecrets("/work/.env", text)
		last := 0
		for _, x := range found {
			if x.from < last || x.to > len(text) || x.from > x.to || x.line < 1 {
				t.Fatalf("a find is %+v of %d bytes", x, len(text))
			}
			last = x.from
		}
		m := masksOf(text, found)
		n := 0
		for line := range strings.SplitSeq(string(text), "\n") {
			n++
			m.apply(n, []byte(line))
		}
	})
}

// FuzzParsers: whatever the files of a guest hold, their parsers end.
func FuzzParsers(f *testing.F) {
	f.Add([]byte("Package: a\nStatus: install ok installed\nVersion: 1\n\nroot:x:0:0:r:/root:/bin/sh\n[filter \"x\"]\n\tclean = id\n* * * * * root id\nExecStart=/bin/x\n"))
	f.Fuzz(func(_ *testing.T, text []byte) {
		parseStatus(text)
		parseAccounts(text, 7)
		parseAccounts(text, 4)
		parseShadow(text)
		risky(text)
		jobs(text)
		unitWords(text)
		kindOf(text)
		hasInvisible(text)
		was, now, _ := strings.Cut(string(text), "\n\n")
		d := diffLines([]byte(was), []byte(now))
		show(d.hunks, nil, nil, maxHunks)
		_ = indexNames(text, func(_, _ []byte) {})
	})
}

// FuzzIndex: a damaged index of git is an error, and never a panic.
func FuzzIndex(f *testing.F) {
	index := []byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01")
	index = append(index, make([]byte, 60)...)
	index = append(index, "\x00\x03a/b\x00\x00\x00\x00\x00\x00\x00"...)
	f.Add(index)
	four := slices.Clone(index)
	four[7] = 4
	f.Add(four)
	f.Fuzz(func(t *testing.T, index []byte) {
		_ = indexNames(index, func(name, _ []byte) {
			if len(name) > maxPath {
				t.Fatalf("a name has %d bytes", len(name))
			}
		})
	})
}
