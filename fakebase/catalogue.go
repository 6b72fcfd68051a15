package fakebase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
	"github.com/koupleless/koupsandbox/fakebase/internal/jar"
)

// Fetch says which jars a catalogue really opens.
type Fetch string

// The ways to treat a URL that no Module of the catalogue names.
const (
	// FetchNever, and the empty value, open no URL: every module is simulated.
	FetchNever Fetch = "never"
	// FetchAvailable opens file and http URLs; https URLs, and URLs at which nothing is found, are simulated. The
	// installation fails only if the URL leads to a file that is not a biz jar.
	FetchAvailable Fetch = "available"
	// FetchAlways opens every URL, https too, and fails as a real base does
	// when there is no jar.
	FetchAlways Fetch = "always"
)

type (
	// Duration is how a Catalogue spells a time; faults spell them alike.
	Duration = fault.Duration
	// Delay is how a Catalogue spells a time that varies; faults spell them alike.
	Delay = fault.Delay
)

// Module is what the catalogue knows about one module version.
type Module struct {
	// URL is the exact URL of the jar; empty = the entry is found by Name and,
	// if given, Version.
	URL string `json:"url,omitempty"`
	// Name and Version are what the manifest says. Name is required.
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Priority orders batches and lists, ascending; nil = 100.
	Priority *int `json:"priority,omitempty"`
	// WebContextPath is where it serves, without slashes; empty = Name.
	WebContextPath string `json:"webContextPath,omitempty"`
	// MainClass; empty = com.example.<Name>.Application.
	MainClass string `json:"mainClass,omitempty"`
	// Web says that it is a web application: no version starts whose
	// WebContextPath another installed one has. It is the base's web server that refuses. Modules
	// without it serve under any path, the newest active one of a path first.
	Web bool `json:"web,omitempty"`
	// Metaspace is what it occupies, in bytes; zero = Metaspace.PerModule of the base.
	Metaspace int64 `json:"metaspace,omitempty"`
	// PullTime, InstallTime and UninstallTime are how long download, start and
	// stop take; zero = those of the catalogue.
	PullTime      Delay `json:"pullTime,omitzero"`
	InstallTime   Delay `json:"installTime,omitzero"`
	UninstallTime Delay `json:"uninstallTime,omitzero"`
}

// Catalogue says what is behind the URLs of modules. The zero value is an
// empty catalogue: every module is made up from its request or its file name
// and installs in no time. A catalogue may be shared by any number of bases;
// its fields must not change after the first use.
//
// What a URL contains is found in this order: the Module with this URL; the
// manifest of the jar, as far as Fetch lets it be opened; the name and
// version that the request gives; the name and version in the file name. The
// latter two then take the entry of their name for everything else.
type Catalogue struct {
	// Modules are the known ones; more specific entries go first.
	Modules []Module `json:"modules,omitempty"`
	// Fetch selects the jars that are opened; empty = FetchNever.
	Fetch Fetch `json:"fetch,omitempty"`
	// PullTime, InstallTime and UninstallTime are for modules without their own.
	PullTime      Delay `json:"pullTime,omitzero"`
	InstallTime   Delay `json:"installTime,omitzero"`
	UninstallTime Delay `json:"uninstallTime,omitzero"`
	// MaxJarSize is the largest jar that is read, in bytes; zero = 256 MiB.
	MaxJarSize int64 `json:"maxJarSize,omitempty"`
	// ConnectTimeout and PullTimeout bound a download; zero = 2 s and 30 s.
	ConnectTimeout Duration `json:"connectTimeout,omitempty"`
	PullTimeout    Duration `json:"pullTimeout,omitempty"`

	once   sync.Once
	reader *jar.Reader
}

// Validate reports everything that is wrong with the catalogue, or nil.
func (c *Catalogue) Validate() error {
	var errs []error
	switch c.Fetch {
	case "", FetchNever, FetchAvailable, FetchAlways:
	default:
		errs = append(errs, fmt.Errorf("fetch %q: use never, available or always", c.Fetch))
	}
	for i, m := range c.Modules {
		field := fmt.Sprintf("modules[%d]", i)
		if m.Name == "" {
			errs = append(errs, fmt.Errorf("%s.name: is required", field))
		}
		if m.Metaspace < 0 {
			errs = append(errs, fmt.Errorf("%s.metaspace %d: must not be negative", field, m.Metaspace))
		}
		errs = append(errs, m.PullTime.Validate(field+".pullTime"),
			m.InstallTime.Validate(field+".installTime"), m.UninstallTime.Validate(field+".uninstallTime"))
	}
	if c.MaxJarSize < 0 || c.ConnectTimeout < 0 || c.PullTimeout < 0 {
		errs = append(errs, errors.New("maxJarSize, connectTimeout, pullTimeout: must not be negative"))
	}
	errs = append(errs, c.PullTime.Validate("pullTime"),
		c.InstallTime.Validate("installTime"), c.UninstallTime.Validate("uninstallTime"))
	return errors.Join(errs...)
}

// rootPath is the web context path of a biz that serves everything that no
// other does.
const rootPath = "/"

// found is what a URL turned out to contain.
type found struct {
	ark.Spec
	web                      bool
	pull, install, uninstall Delay
}

// resolve finds out what a URL contains. name and version are those of the
// request, or empty. It blocks while a jar is read.
func (c *Catalogue) resolve(ctx context.Context, rawURL, name, version string, perModule int64) (found, *exception) {
	if ex := checkURL(rawURL); ex != nil {
		return found{}, ex
	}
	if i := slices.IndexFunc(c.Modules, func(m Module) bool { return m.URL == rawURL }); i >= 0 {
		m := c.Modules[i]
		return c.found(ark.Spec{Name: m.Name, Version: m.Version, URL: rawURL}, &m, perModule), nil
	}
	spec, ok, ex := c.open(ctx, rawURL)
	switch {
	case ex != nil:
		return found{}, ex
	case ok:
	case name != "" && version != "":
		spec = ark.Spec{Name: name, Version: version}
	default:
		spec.Name, spec.Version = splitFileName(rawURL)
		if spec.Name == "" {
			return found{}, fileNotFound(rawURL)
		}
	}
	spec.URL = rawURL
	return c.found(spec, c.entry(spec.Name, spec.Version), perModule), nil
}

// open reads the manifest of a jar, as far as Fetch allows.
func (c *Catalogue) open(ctx context.Context, rawURL string) (ark.Spec, bool, *exception) {
	u, err := url.Parse(rawURL)
	if err != nil || c.Fetch == "" || c.Fetch == FetchNever {
		return ark.Spec{}, false, nil
	}
	if c.Fetch == FetchAvailable && u.Scheme != "file" && u.Scheme != "http" {
		return ark.Spec{}, false, nil
	}
	c.once.Do(func() {
		c.reader = jar.NewReader(jar.Limits{
			Size: c.MaxJarSize, Connect: time.Duration(c.ConnectTimeout), Total: time.Duration(c.PullTimeout),
		})
	})
	m, err := c.reader.Read(ctx, u)
	switch {
	case err != nil && c.Fetch == FetchAvailable && !jar.IsMalformed(err):
		return ark.Spec{}, false, nil
	case err != nil:
		return ark.Spec{}, false, javaOf(err, rawURL)
	}
	return ark.Spec{
		Name: m.Name, Version: m.Version, Priority: m.Priority,
		WebContextPath: m.WebContextPath, MainClass: m.MainClass,
	}, true, nil
}

func (c *Catalogue) entry(name, version string) *Module {
	for i, m := range c.Modules {
		if m.Name == name && (m.Version == "" || m.Version == version) {
			return &c.Modules[i]
		}
	}
	return nil
}

func (c *Catalogue) found(spec ark.Spec, m *Module, perModule int64) found {
	f := found{Spec: spec, pull: c.PullTime, install: c.InstallTime, uninstall: c.UninstallTime}
	f.Metaspace = perModule
	if m != nil {
		if m.Priority != nil {
			f.Priority = *m.Priority
		}
		f.web = m.Web
		f.WebContextPath = cmp.Or(m.WebContextPath, f.WebContextPath)
		f.MainClass = cmp.Or(m.MainClass, f.MainClass)
		f.Metaspace = cmp.Or(m.Metaspace, f.Metaspace)
		f.pull = cmp.Or(m.PullTime, f.pull)
		f.install = cmp.Or(m.InstallTime, f.install)
		f.uninstall = cmp.Or(m.UninstallTime, f.uninstall)
	}
	if f.Priority == 0 && (m == nil || m.Priority == nil) {
		f.Priority = jar.DefaultPriority
	}
	f.WebContextPath = cmp.Or(strings.Trim(cmp.Or(f.WebContextPath, f.Name), "/"), rootPath)
	f.MainClass = cmp.Or(f.MainClass, "com.example."+f.Name+".Application")
	return f
}

// checkURL fails as java.net.URL does.
func checkURL(raw string) *exception {
	scheme, _, ok := strings.Cut(raw, ":")
	if !ok || strings.ContainsAny(scheme, "/?#") || scheme == "" {
		return thrown(fault.CodeDecodeURLFailed, "java.net.MalformedURLException", "no protocol: "+raw)
	}
	switch strings.ToLower(scheme) {
	case "file", "http", "https", "jar", "ftp", "mailto":
		return nil
	default:
		return thrown(fault.CodeDecodeURLFailed, "java.net.MalformedURLException",
			"unknown protocol: "+strings.ToLower(scheme))
	}
}

// fileNotFound names a URL as Java does: a file by its path, with the reason of
// the operating system.
func fileNotFound(rawURL string) *exception {
	detail := rawURL
	switch u, err := url.Parse(rawURL); {
	case err != nil:
	case u.Scheme == "file":
		detail = u.Path + " (No such file or directory)"
	default:
		detail = jar.Shown(u)
	}
	return thrown(fault.CodePullBizError, "java.io.FileNotFoundException", detail)
}

// javaOf says a failed read as Java would (protocol 6, rows 5 to 9).
func javaOf(err error, rawURL string) *exception {
	var e *jar.Error
	if !errors.As(err, &e) {
		return thrown(fault.CodePullBizError, "java.io.IOException", err.Error())
	}
	switch e.Kind {
	case jar.NotFound:
		return fileNotFound(rawURL)
	case jar.Refused:
		return thrown(fault.CodePullBizError, "java.net.ConnectException", "Connection refused")
	case jar.UnknownHost:
		return thrown(fault.CodePullBizError, "java.net.UnknownHostException", e.Detail)
	case jar.TimedOut:
		return thrown(fault.CodePullBizTimeout, "java.net.SocketTimeoutException", "Read timed out")
	case jar.NotZip:
		return thrown(fault.CodeInstallRequirementNotMet, "java.util.zip.ZipException",
			"zip END header not found"+e.Answer)
	case jar.NotBiz:
		return thrown(fault.CodeInstallRequirementNotMet, badManifest, e.Detail+e.Answer)
	default:
		return thrown(fault.CodePullBizError, "java.io.IOException", e.Detail)
	}
}

var versionStart = regexp.MustCompile(`^(.+?)-(\d+(?:[.\-_].*)?|\d+)$`)

// splitFileName reads a name and a version out of a jar's file name as Maven
// makes it: everything up to the first "-<digit>" is the name. A file name
// without a version has none that could be guessed: the name is then empty.
func splitFileName(rawURL string) (name, version string) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", ""
	}
	p := u.Path
	if p == "" {
		p = u.Opaque
	}
	base, isJar := strings.CutSuffix(path.Base(p), ".jar")
	if !isJar {
		return "", ""
	}
	base = strings.TrimSuffix(base, "-ark-biz")
	m := versionStart.FindStringSubmatch(base)
	if m == nil {
		return "", ""
	}
	return m[1], m[2]
}
