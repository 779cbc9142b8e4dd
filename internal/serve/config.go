// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Config is a server's configuration. Zero fields are filled from the environment, then
// DATA/server.yaml, then the defaults.
type Config struct {
	Listen        string   `yaml:"listen" json:"listen"`                     // address of the API, or "off"
	SSH           string   `yaml:"ssh" json:"ssh"`                           // address of the SSH gateway, or "off"
	Preview       string   `yaml:"preview" json:"preview"`                   // address of the preview gateway, or "off"
	S3            string   `yaml:"s3" json:"s3"`                             // address of object storage for S3 clients, or "off"
	S3URL         string   `yaml:"s3Url" json:"s3Url"`                       // address of object storage in signed links, if another is forwarded to it; empty = http:// and the one it listens on
	S3Endpoint    string   `yaml:"s3Endpoint" json:"s3Endpoint"`             // bucket of another S3 that stores the bytes of objects, as https://HOST/BUCKET; empty = the data directory
	S3Credentials string   `yaml:"s3Credentials" json:"s3Credentials"`       // file with the access key for it
	Clamd         string   `yaml:"clamd" json:"clamd"`                       // ClamAV daemon that judges uploads: path of its socket, or host:port; empty = none
	RequireKVM    bool     `yaml:"requireKvm" json:"requireKvm"`             // refuse to run under emulation
	NetDefault    string   `yaml:"netDefault" json:"netDefault"`             // network of VMs whose creator names none
	Pool          string   `yaml:"pool" json:"pool"`                         // warm machines kept for each image and size; "0" = none
	StorageBudget string   `yaml:"storageBudget" json:"storageBudget"`       // limit of the data directory: a size such as 200G, or a share of the disk such as 80%
	AccountDisk   string   `yaml:"accountDisk" json:"accountDisk"`           // disk limit of accounts without a quota, except admins: a size, a share of the budget such as 50%, or off
	APIRate       string   `yaml:"apiRate" json:"apiRate"`                   // requests per second of one account or identity; "0" = no limit
	AuditKey      string   `yaml:"auditKey" json:"auditKey"`                 // file with the key that signs the audit log; empty = one in the data directory
	AuditSigner   string   `yaml:"auditSigner" json:"auditSigner"`           // program that signs the audit log in place of a key
	AuditAnchor   words    `yaml:"auditAnchor" json:"auditAnchor"`           // places outside that get each checkpoint of the audit log: file:PATH, webhook:URL, object:URL
	AuditKeys     string   `yaml:"auditCredentials" json:"auditCredentials"` // file with the keys of the S3 of an object: anchor
	AuditKeep     string   `yaml:"auditKeep" json:"auditKeep"`               // age at which audit records are removed, such as 90d; empty = never
	AuditArgs     string   `yaml:"auditArgs" json:"auditArgs"`               // which arguments of commands audit records have: full, digest or none
	EtcdEndpoints []string `yaml:"etcdEndpoints" json:"etcdEndpoints"`       // an existing cluster; empty = embedded
	HostID        string   `yaml:"hostId" json:"hostId"`                     // of this server among those that share the cluster; empty = the data directory's
	PreviewDomain words    `yaml:"previewDomain" json:"previewDomain"`       // previews are <port>-<VM>. followed by one of these
	PreviewPort   string   `yaml:"previewPort" json:"previewPort"`           // port in preview addresses, if another is forwarded to it; empty = the one it listens on
	HostNames     []string `yaml:"hostNames" json:"hostNames"`               // further host names of the API
	WebOrigins    []string `yaml:"webOrigins" json:"webOrigins"`             // origins of pages that may use the API, such as https://app.example.com
	ACMEDirectory string   `yaml:"acmeDirectory" json:"acmeDirectory"`       // of the ACME server that certifies mapped domains; empty with acmeEmail = Let's Encrypt
	ACMEEmail     string   `yaml:"acmeEmail" json:"acmeEmail"`               // contact for the ACME server; both empty = no certificates are ordered
	ACMEDNSHook   string   `yaml:"acmeDnsHook" json:"acmeDnsHook"`           // program that sets TXT records, for wildcard certificates of preview domains; empty = the host's CA signs them
	Resolver      string   `yaml:"resolver" json:"resolver"`                 // name server for TXT records; empty = the system's
	AskWebhook    string   `yaml:"askWebhook" json:"askWebhook"`             // URL that is told of what waits for approval; empty = none
	ReachPrivate  words    `yaml:"reachPrivate" json:"reachPrivate"`         // private addresses to which imports and webhooks may connect, as 10.1.0.0/16; empty = none
}

// words is a list of values. In server.yaml it may be a single value.
type words []string

// UnmarshalYAML reads a list or one value.
func (w *words) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*w = splitList(n.Value)
		return nil
	}
	return n.Decode((*[]string)(w))
}

// Setting is one effective value and its origin.
type Setting struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`
	Origin string `json:"origin"` // flag, environment, file, default
}

var defaults = Config{
	Listen: "127.0.0.1:8787", SSH: "127.0.0.1:2222", Preview: "localhost:8443", S3: "127.0.0.1:8788", NetDefault: string(vm.NetClosed),
	AuditArgs: vm.ArgsFull, Pool: "2", StorageBudget: "80%", AccountDisk: "50%", APIRate: "1000", PreviewDomain: words{"warren.localhost"},
}

// maxRate bounds the API's rate limit, which limits nothing at that rate.
const maxRate = 1_000_000

// maxPool bounds the warm machines for each image and size.
const maxPool = 64

// LoadConfig merges flags, environment, DATA/server.yaml and defaults, in this
// order, and checks the result. The error has kind Invalid and names the file
// and line, or the value.
func LoadConfig(dir layout.Dir, flags Config, getenv func(string) string) (Config, []Setting, error) {
	file, err := readConfig(dir.ServerConfig())
	if err != nil {
		return Config{}, nil, err
	}
	environ := Config{
		Listen: getenv("WARREN_LISTEN"), SSH: getenv("WARREN_SSH"), Preview: getenv("WARREN_PREVIEW"), S3: getenv("WARREN_S3"), S3URL: getenv("WARREN_S3_URL"), Clamd: getenv("WARREN_CLAMD"), S3Endpoint: getenv("WARREN_S3_ENDPOINT"), S3Credentials: getenv("WARREN_S3_CREDENTIALS"),
		AuditKey: getenv("WARREN_AUDIT_KEY"), AuditSigner: getenv("WARREN_AUDIT_SIGNER"), AuditAnchor: splitList(getenv("WARREN_AUDIT_ANCHOR")), AuditKeys: getenv("WARREN_AUDIT_CREDENTIALS"), AuditKeep: getenv("WARREN_AUDIT_KEEP"), AuditArgs: getenv("WARREN_AUDIT_ARGS"),
		NetDefault: getenv("WARREN_NET_DEFAULT"), Pool: getenv("WARREN_POOL"), RequireKVM: getenv("WARREN_REQUIRE_KVM") == "1",
		PreviewDomain: splitList(getenv("WARREN_PREVIEW_DOMAIN")), PreviewPort: getenv("WARREN_PREVIEW_PORT"), Resolver: getenv("WARREN_RESOLVER"),
		StorageBudget: getenv("WARREN_STORAGE_BUDGET"), AccountDisk: getenv("WARREN_ACCOUNT_DISK"), APIRate: getenv("WARREN_API_RATE"),
		ACMEDirectory: getenv("WARREN_ACME_DIRECTORY"), ACMEEmail: getenv("WARREN_ACME_EMAIL"), ACMEDNSHook: getenv("WARREN_ACME_DNS_HOOK"),
		AskWebhook: getenv("WARREN_ASK_WEBHOOK"), ReachPrivate: splitList(getenv("WARREN_REACH_PRIVATE")), EtcdEndpoints: splitList(getenv("WARREN_ETCD_ENDPOINTS")), HostID: getenv("WARREN_HOST_ID"), HostNames: splitList(getenv("WARREN_HOST_NAMES")), WebOrigins: splitList(getenv("WARREN_WEB_ORIGINS")),
	}
	layers := []Config{flags, environ, file, defaults}
	origins := []string{"flag", "environment", "file", "default"}
	var out Config
	var settings []Setting
	text := func(name string, get func(*Config) *string) {
		for i := range layers {
			if v := *get(&layers[i]); v != "" || i == len(layers)-1 {
				*get(&out) = v
				settings = append(settings, Setting{name, v, origins[i]})
				return
			}
		}
	}
	list := func(name string, get func(*Config) *[]string) {
		for i := range layers {
			if v := *get(&layers[i]); len(v) > 0 || i == len(layers)-1 {
				*get(&out) = v
				settings = append(settings, Setting{name, shownList(name, v), origins[i]})
				return
			}
		}
	}
	text("listen", func(c *Config) *string { return &c.Listen })
	text("ssh", func(c *Config) *string { return &c.SSH })
	text("preview", func(c *Config) *string { return &c.Preview })
	text("s3", func(c *Config) *string { return &c.S3 })
	text("s3Url", func(c *Config) *string { return &c.S3URL })
	text("s3Endpoint", func(c *Config) *string { return &c.S3Endpoint })
	text("s3Credentials", func(c *Config) *string { return &c.S3Credentials })
	text("clamd", func(c *Config) *string { return &c.Clamd })
	text("askWebhook", func(c *Config) *string { return &c.AskWebhook })
	text("auditKey", func(c *Config) *string { return &c.AuditKey })
	text("auditSigner", func(c *Config) *string { return &c.AuditSigner })
	list("auditAnchor", func(c *Config) *[]string { return (*[]string)(&c.AuditAnchor) })
	text("auditCredentials", func(c *Config) *string { return &c.AuditKeys })
	text("auditKeep", func(c *Config) *string { return &c.AuditKeep })
	text("auditArgs", func(c *Config) *string { return &c.AuditArgs })
	text("netDefault", func(c *Config) *string { return &c.NetDefault })
	text("pool", func(c *Config) *string { return &c.Pool })
	text("storageBudget", func(c *Config) *string { return &c.StorageBudget })
	text("accountDisk", func(c *Config) *string { return &c.AccountDisk })
	text("apiRate", func(c *Config) *string { return &c.APIRate })
	list("previewDomain", func(c *Config) *[]string { return (*[]string)(&c.PreviewDomain) })
	text("previewPort", func(c *Config) *string { return &c.PreviewPort })
	text("acmeDirectory", func(c *Config) *string { return &c.ACMEDirectory })
	text("acmeEmail", func(c *Config) *string { return &c.ACMEEmail })
	text("acmeDnsHook", func(c *Config) *string { return &c.ACMEDNSHook })
	text("resolver", func(c *Config) *string { return &c.Resolver })
	list("reachPrivate", func(c *Config) *[]string { return (*[]string)(&c.ReachPrivate) })
	text("hostId", func(c *Config) *string { return &c.HostID })
	list("etcdEndpoints", func(c *Config) *[]string { return &c.EtcdEndpoints })
	list("hostNames", func(c *Config) *[]string { return &c.HostNames })
	list("webOrigins", func(c *Config) *[]string { return &c.WebOrigins })
	for i := range layers {
		if layers[i].RequireKVM || i == len(layers)-1 {
			out.RequireKVM = layers[i].RequireKVM
			settings = append(settings, Setting{"requireKvm", out.RequireKVM, origins[i]})
			break
		}
	}
	return out, settings, out.check()
}

func readConfig(path string) (Config, error) {
	var c Config
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, vm.Errorf(vm.Internal, path, "cannot be read: %w", err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, vm.Errorf(vm.Invalid, path, "%w", err).
			WithHint("its keys are listen, ssh, preview, s3, s3Url, s3Endpoint, s3Credentials, clamd, askWebhook, auditKey, auditSigner, auditAnchor, auditCredentials, auditKeep, auditArgs, requireKvm, netDefault, pool, storageBudget, accountDisk, apiRate, previewDomain, previewPort, etcdEndpoints, hostId, hostNames, webOrigins, acmeDirectory, acmeEmail, acmeDnsHook, resolver")
	}
	return c, nil
}

func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// s3URL is the address of object storage in signed links; "" if it is off.
func (c Config) s3URL() string {
	if c.S3 == "off" || c.S3URL != "" {
		return c.S3URL
	}
	return "http://" + c.S3
}

// poolSize is Pool as a number. check has validated it.
func (c Config) poolSize() int {
	n, _ := strconv.Atoi(c.Pool)
	return n
}

// budget converts StorageBudget for the engine. check has validated it.
func (c Config) budget() (bytes int64, percent int) {
	bytes, percent, _ = parseBudget(c.StorageBudget)
	return bytes, percent
}

// accountDisk converts AccountDisk for the engine; zero = off.
func (c Config) accountDisk() (bytes int64, percent int) {
	if c.AccountDisk != "off" {
		bytes, percent, _ = parseBudget(c.AccountDisk)
	}
	return bytes, percent
}

// certified returns the preview domains that get wildcard certificates from the ACME
// server, which certifies no localhost.
func (c Config) certified() []string {
	if c.ACMEDNSHook == "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.PreviewDomain), func(d string) bool { return d == "localhost" || strings.HasSuffix(d, ".localhost") })
}

// ownCA returns the preview domains that the host's own CA certifies.
func (c Config) ownCA() []string {
	certified := c.certified()
	return slices.DeleteFunc(slices.Clone(c.PreviewDomain), func(d string) bool { return slices.Contains(certified, d) })
}

// rate is APIRate as a number. check has validated it.
func (c Config) rate() int {
	n, _ := strconv.Atoi(c.APIRate)
	return n
}

// minBudget is the smallest budget: an image and a VM.
const minBudget = 1 << 30

// parseBudget parses a size in bytes, with K, M, G or T, or a percentage of the disk.
func parseBudget(s string) (bytes int64, percent int, err error) {
	bad := vm.Errorf(vm.Invalid, s, "not a storage budget").WithHint("give at least 1G, such as 200G, or a share of the disk such as 80%%")
	if share, ok := strings.CutSuffix(s, "%"); ok {
		n, err := strconv.Atoi(share)
		if err != nil || n < 1 || n > 100 {
			return 0, 0, bad
		}
		return 0, n, nil
	}
	shift := 0
	if i := strings.IndexAny("KMGT", s[max(0, len(s)-1):]); i >= 0 && s != "" {
		s, shift = s[:len(s)-1], 10*(i+1)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > 1<<60>>shift || n<<shift < minBudget {
		return 0, 0, bad
	}
	return n << shift, 0, nil
}

func (c Config) check() error {
	if _, err := vm.ParseNetworkMode(c.NetDefault); err != nil {
		return err
	}
	for name, addr := range map[string]string{"listen": c.Listen, "ssh": c.SSH, "preview": c.Preview, "s3": c.S3} {
		if addr == "off" {
			continue
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return vm.Errorf(vm.Invalid, addr, "not an address for %s", name).
				WithHint("give host:port, such as 127.0.0.1:8787, or off")
		}
	}
	for _, origin := range c.WebOrigins {
		if u, err := url.Parse(origin); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || origin != u.Scheme+"://"+u.Host || strings.Contains(origin, "*") {
			return vm.Errorf(vm.Invalid, origin, "not an origin for webOrigins").WithHint("give scheme and host, such as https://app.example.com")
		}
	}
	if u, err := url.Parse(c.S3URL); c.S3URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "") {
		return vm.Errorf(vm.Invalid, c.S3URL, "not an address for s3Url").WithHint("give scheme and host, such as https://s3.example.com")
	}
	if _, _, err := net.SplitHostPort(c.Clamd); c.Clamd != "" && !filepath.IsAbs(c.Clamd) && err != nil {
		return vm.Errorf(vm.Invalid, c.Clamd, "not an address for clamd").WithHint("give the path of its socket, such as /run/clamav/clamd.ctl, or host:port")
	}
	if _, _, err := splitEndpoint(c.S3Endpoint); c.S3Endpoint != "" && err != nil {
		return err
	}
	if (c.S3Endpoint == "") != (c.S3Credentials == "") {
		return vm.Errorf(vm.Invalid, "s3Endpoint", "another S3 needs an address and a file with its access key").WithHint("give --s3-endpoint and --s3-credentials")
	}
	if n, err := strconv.Atoi(c.Pool); err != nil || n < 0 || n > maxPool {
		return vm.Errorf(vm.Invalid, c.Pool, "not a size for the warm pool").WithHint("give a number from 0 (no pool) to %d", maxPool)
	}
	if _, _, err := parseBudget(c.StorageBudget); err != nil {
		return err
	}
	if _, _, err := parseBudget(c.AccountDisk); err != nil && c.AccountDisk != "off" {
		return vm.Errorf(vm.Invalid, c.AccountDisk, "not a size for accountDisk").WithHint("give at least 1G, a share of the storage budget such as 50%%, or off")
	}
	if n, err := strconv.Atoi(c.APIRate); err != nil || n < 0 || n > maxRate {
		return vm.Errorf(vm.Invalid, c.APIRate, "not a rate for apiRate").WithHint("give requests per second, or 0 for no limit")
	}
	if n, err := strconv.ParseUint(c.PreviewPort, 10, 16); c.PreviewPort != "" && (err != nil || n == 0) {
		return vm.Errorf(vm.Invalid, c.PreviewPort, "not a port for previewPort").WithHint("give a number from 1 to 65535, such as 443")
	}
	if err := c.checkAudit(); err != nil {
		return err
	}
	if err := c.checkDomains(); err != nil {
		return err
	}
	if c.HostID != "" && !hostIDForm.MatchString(c.HostID) {
		return vm.Errorf(vm.Invalid, c.HostID, "not a host id").WithHint("give 1 to 63 of a-z, 0-9 and -, such as rack3-7")
	}
	if c.Listen == "off" {
		return vm.Errorf(vm.Invalid, "listen", "the API cannot be off").WithHint("give an address such as 127.0.0.1:8787")
	}
	return nil
}

// checkDomains checks the preview domains and the settings for verification and
// certificates.
func (c Config) checkDomains() error {
	for i, d := range c.PreviewDomain {
		if name, err := vm.HostName(d); err != nil || name != d {
			return vm.Errorf(vm.Invalid, d, "not a domain for previews").WithHint("give one in lower case, such as warren.localhost")
		}
		for j, other := range c.PreviewDomain {
			if i != j && (d == other || strings.HasSuffix(d, "."+other)) {
				return vm.Errorf(vm.Invalid, d, "the preview domain is %s or a subdomain of it", other).WithHint("give domains of which none contains another")
			}
		}
	}
	if st, err := os.Stat(c.ACMEDNSHook); c.ACMEDNSHook != "" && (err != nil || !filepath.IsAbs(c.ACMEDNSHook) || !st.Mode().IsRegular() || st.Mode()&0o111 == 0) {
		return vm.Errorf(vm.Invalid, c.ACMEDNSHook, "not a program for acmeDnsHook").WithHint("give the absolute path of an executable file")
	}
	if c.ACMEDNSHook != "" && c.ACMEDirectory == "" && c.ACMEEmail == "" {
		return vm.Errorf(vm.Invalid, c.ACMEDNSHook, "acmeDnsHook needs an ACME server").WithHint("set acmeEmail, and acmeDirectory unless it is Let's Encrypt")
	}
	if u, err := url.Parse(c.ACMEDirectory); c.ACMEDirectory != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		return vm.Errorf(vm.Invalid, c.ACMEDirectory, "not the address of an ACME server's directory").WithHint("give one that begins with https://")
	}
	if _, err := mail.ParseAddress(c.ACMEEmail); c.ACMEEmail != "" && err != nil {
		return vm.Errorf(vm.Invalid, c.ACMEEmail, "not an e-mail address for acmeEmail")
	}
	if _, port, err := net.SplitHostPort(c.Resolver); c.Resolver != "" && (err != nil || port == "") {
		return vm.Errorf(vm.Invalid, c.Resolver, "not the address of a name server").WithHint("give host:port, such as 9.9.9.9:53")
	}
	_, err := c.reachPrivate()
	return err
}

// reachPrivate parses the private addresses to which imports and webhooks may connect.
func (c Config) reachPrivate() (list []netip.Prefix, err error) {
	for _, one := range c.ReachPrivate {
		p, err := netip.ParsePrefix(one)
		if addr, aerr := netip.ParseAddr(one); aerr == nil {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, vm.Errorf(vm.Invalid, one, "not an address for reachPrivate").WithHint("give addresses such as 10.1.2.3 or 10.1.0.0/16")
		}
		list = append(list, p)
	}
	return list, nil
}
