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

// Fetch determines which jars a catalogue reads.
type Fetch string

// The values of Fetch. They apply to URLs that do not match the URL of any Module in the catalogue.
const (
	// FetchNever reads no jars: all modules are simulated. It is the default.
	FetchNever Fetch = "never"
	// FetchAvailable reads file and http URLs. Modules at https URLs, and at URLs that cannot be read, are simulated.
	// The installation fails only if the file is not a biz jar.
	FetchAvailable Fetch = "available"
	// FetchAlways reads all URLs, including https. As on a real base, the installation fails if there is no jar.
	FetchAlways Fetch = "always"
)

type (
	// Duration is a duration in a Catalogue. Faults use the same format.
	Duration = fault.Duration
	// Delay is a random duration in a Catalogue. Faults use the same format.
	Delay = fault.Delay
)

// Module is an entry of a Catalogue. It describes one version or all versions of a module.
type Module struct {
	// URL is the URL of the module's jar. If URL is empty, Name and Version select the modules of this entry. An
	// empty Version then matches all versions.
	URL string `json:"url,omitempty"`
	// Name and Version are the attributes in the manifest of the jar. Name is required.
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Priority determines the order of modules in batches and lists, lowest first. Default: 100.
	Priority *int `json:"priority,omitempty"`
	// WebContextPath is the first part of the path in requests to the module, without slashes. Default: Name.
	WebContextPath string `json:"webContextPath,omitempty"`
	// MainClass is the main class of the module. Default: com.example.<Name>.Application.
	MainClass string `json:"mainClass,omitempty"`
	// Web reports whether the module is a web application. A web application fails to start if another installed
	// module has the same WebContextPath. Modules that are not web applications can have the same path. The active
	// module that was activated last then serves the path.
	Web bool `json:"web,omitempty"`
	// Metaspace is the number of bytes of metaspace that the module uses. Default: Metaspace.PerModule of the base.
	Metaspace int64 `json:"metaspace,omitempty"`
	// PullTime, InstallTime and UninstallTime are the durations of the download, the start and the stop of the
	// module. Default: the values of the catalogue.
	PullTime      Delay `json:"pullTime,omitzero"`
	InstallTime   Delay `json:"installTime,omitzero"`
	UninstallTime Delay `json:"uninstallTime,omitzero"`
}

// Catalogue describes the modules behind URLs. The zero value is an empty catalogue: modules have the name and
// version of the request or the file name, and install immediately. Bases can share a catalogue. The fields of a
// Catalogue must not be changed after its first use.
//
// The name and the version of the module behind a URL come from the first source that has them: the Module with this
// URL, the manifest of the jar if Fetch allows reading it, the request, the file name. All other attributes come from
// the Module with this name.
type Catalogue struct {
	// Modules contains the entries of the catalogue. The first matching entry is used.
	Modules []Module `json:"modules,omitempty"`
	// Web makes modules that Modules does not describe web applications. Default: false.
	Web bool `json:"web,omitempty"`
	// Fetch defines which jars the catalogue reads. Default: FetchNever.
	Fetch Fetch `json:"fetch,omitempty"`
	// PullTime, InstallTime and UninstallTime are the default durations for modules. Default: 0.
	PullTime      Delay `json:"pullTime,omitzero"`
	InstallTime   Delay `json:"installTime,omitzero"`
	UninstallTime Delay `json:"uninstallTime,omitzero"`
	// MaxJarSize is the maximum size of a jar in bytes. Default: 256 MiB.
	MaxJarSize int64 `json:"maxJarSize,omitempty"`
	// ConnectTimeout limits the time to connect to the server of a jar, and PullTimeout limits the download. Default:
	// 2 s and 30 s.
	ConnectTimeout Duration `json:"connectTimeout,omitempty"`
	PullTimeout    Duration `json:"pullTimeout,omitempty"`

	once   sync.Once
	reader *jar.Reader
}

// Validate returns all errors of the catalogue as a joined error, or nil.
func (c *Catalogue) Validate() error {
	var errs []error
	switch c.Fetch {
	case "", FetchNever, FetchAvailable, FetchAlways:
	default:
		errs = append(errs, fmt.Errorf("fetch %q: must be never, available or always", c.Fetch))
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

// rootPath is the web context path of a biz that serves all paths that no other biz serves.
const rootPath = "/"

// resolvedModule contains the attributes of the module behind a URL.
type resolvedModule struct {
	ark.Spec
	web                      bool
	pull, install, uninstall Delay
}

// resolve returns the module behind a URL. The request contains the name and the version of the module, which may be
// empty. perModule is the default metaspace of a module. resolve blocks while a jar is read.
func (c *Catalogue) resolve(ctx context.Context, rawURL, name, version string, perModule int64) (resolvedModule,
	*exception) {
	if ex := checkURL(rawURL); ex != nil {
		return resolvedModule{}, ex
	}
	if i := slices.IndexFunc(c.Modules, func(m Module) bool { return m.URL == rawURL }); i >= 0 {
		m := c.Modules[i]
		return c.describe(ark.Spec{Name: m.Name, Version: m.Version, URL: rawURL}, &m, perModule), nil
	}
	spec, ok, ex := c.open(ctx, rawURL)
	switch {
	case ex != nil:
		return resolvedModule{}, ex
	case ok:
	case name != "" && version != "":
		spec = ark.Spec{Name: name, Version: version}
	default:
		spec.Name, spec.Version = splitFileName(rawURL)
		if spec.Name == "" {
			return resolvedModule{}, fileNotFound(rawURL)
		}
	}
	spec.URL = rawURL
	return c.describe(spec, c.entry(spec.Name, spec.Version), perModule), nil
}

// open reads the manifest of a jar. It returns false if Fetch does not allow reading the jar, or if an optional jar
// cannot be read.
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
		return ark.Spec{}, false, exceptionFor(err, rawURL)
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

func (c *Catalogue) describe(spec ark.Spec, m *Module, perModule int64) resolvedModule {
	f := resolvedModule{Spec: spec, pull: c.PullTime, install: c.InstallTime, uninstall: c.UninstallTime}
	f.Metaspace, f.web = perModule, c.Web
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

// checkURL returns the exception that java.net.URL throws for an invalid URL, or nil.
func checkURL(rawURL string) *exception {
	scheme, _, ok := strings.Cut(rawURL, ":")
	if !ok || strings.ContainsAny(scheme, "/?#") || scheme == "" {
		return newException(fault.CodeDecodeURLFailed, "java.net.MalformedURLException", "no protocol: "+rawURL)
	}
	switch strings.ToLower(scheme) {
	case "file", "http", "https", "jar", "ftp", "mailto":
		return nil
	default:
		return newException(fault.CodeDecodeURLFailed, "java.net.MalformedURLException",
			"unknown protocol: "+strings.ToLower(scheme))
	}
}

// fileNotFound returns the exception that Java throws for a missing jar. For a file URL, the message contains the
// path and the error text of the operating system.
func fileNotFound(rawURL string) *exception {
	detail := rawURL
	switch u, err := url.Parse(rawURL); {
	case err != nil:
	case u.Scheme == "file":
		detail = u.Path + " (No such file or directory)"
	default:
		detail = jar.Redact(u)
	}
	return newException(fault.CodePullBizError, "java.io.FileNotFoundException", detail)
}

// exceptionFor returns the exception that Java throws for a failed read (protocol 6, rows 5 to 9).
func exceptionFor(err error, rawURL string) *exception {
	var e *jar.Error
	if !errors.As(err, &e) {
		return newException(fault.CodePullBizError, "java.io.IOException", err.Error())
	}
	switch e.Kind {
	case jar.NotFound:
		return fileNotFound(rawURL)
	case jar.Refused:
		return newException(fault.CodePullBizError, "java.net.ConnectException", "Connection refused")
	case jar.UnknownHost:
		return newException(fault.CodePullBizError, "java.net.UnknownHostException", e.Detail)
	case jar.TimedOut:
		return newException(fault.CodePullBizTimeout, "java.net.SocketTimeoutException", "Read timed out")
	case jar.NotZip:
		return newException(fault.CodeInstallRequirementNotMet, "java.util.zip.ZipException",
			"zip END header not found"+e.Answer)
	case jar.NotBiz:
		return newException(fault.CodeInstallRequirementNotMet, badManifest, e.Detail+e.Answer)
	default:
		return newException(fault.CodePullBizError, "java.io.IOException", e.Detail)
	}
}

var versionStart = regexp.MustCompile(`^(.+?)-(\d+(?:[.\-_].*)?|\d+)$`)

// splitFileName returns the name and the version in a Maven-style file name. The version starts after the first
// hyphen that is followed by a digit. If the file name has no version, both results are empty.
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
