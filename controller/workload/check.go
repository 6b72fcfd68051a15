package workload

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/redact"
)

// Causes of invalid containers. The errors of Check wrap them.
var (
	errEnvFrom = errors.New("the controller does not read envFrom; set it in env, for example by a configMapKeyRef")
	errEmpty   = errors.New("is empty")
	errSpaces  = errors.New("a version has no spaces")
	errNotURL  = errors.New("is not a URL")
	errScheme  = errors.New("is not a file://, http:// or https:// URL of a module's jar")
	errNoJar   = errors.New("does not name a jar")
)

// Check returns why a container cannot be installed as a module, as an error with an error code, and
// nil if it can be. meta is the metadata of its Pod or template. The error wraps ErrUnresolved if the
// version is not known yet; see CheckVersion.
//
// Check accepts only names and versions that the controller accepts in the module list of a base
// (package arklet): a base would install a longer version, and the controller could not read it back.
func Check(meta *metav1.ObjectMeta, container corev1.Container) error {
	if err := CheckVersion(meta, container); err != nil {
		return err
	}
	return CheckImage(container)
}

// CheckVersion returns why the BIZ_VERSION of a container is not a version. The error wraps
// ErrUnresolved if the version is in a ConfigMap, or in metadata that a template does not have.
func CheckVersion(meta *metav1.ObjectMeta, container corev1.Container) error {
	v, err := Version(meta, container)
	invalid := func(format string, args ...any) error {
		return errcode.New(errcode.OtherUpstreamInvalidParameter, labels.VersionEnv+" of container %.80q "+format,
			append([]any{container.Name}, args...)...)
	}
	sets := slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == labels.VersionEnv })
	switch {
	case err != nil:
		return err
	case v == "" && len(container.EnvFrom) > 0 && !sets:
		return errcode.New(errcode.OtherUpstreamInvalidParameter,
			"container %.80q has no environment variable %s in env, and %w", container.Name, labels.VersionEnv,
			errEnvFrom)
	case v == "" && sets:
		return invalid("%w", errEmpty)
	case v == "":
		return errcode.New(errcode.OtherUpstreamInvalidParameter,
			"container %.80q has no environment variable %s, which names the module's version", container.Name,
			labels.VersionEnv)
	case strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' }):
		return invalid("is %.80q: %w", v, errSpaces)
	case len(v) > arklet.MaxName:
		return invalid("has %d bytes, and a version has at most %d", len(v), arklet.MaxName)
	case !arklet.Printable(v):
		return invalid("is %.80q, which has a character that cannot be printed", v)
	case len(container.Name) > arklet.MaxName || !arklet.Printable(container.Name):
		return errcode.New(errcode.OtherUpstreamInvalidParameter,
			"container %.80q: the name of a module has at most %d bytes, all of them printable", container.Name,
			arklet.MaxName)
	}
	return nil
}

// CheckImage returns why the image of a container is not the URL of a jar. The path of the URL may have
// any form: a repository may serve jars as /download?name=biz1.
func CheckImage(c corev1.Container) error {
	invalid := func(format string, args ...any) error {
		return errcode.New(errcode.OtherUpstreamDecodeURLFailed, "image %.200q of container %.80q "+format,
			append([]any{redact.URL(c.Image), c.Name}, args...)...)
	}
	if len(c.Image) > arklet.MaxURL {
		return invalid("has %d bytes, and a URL has at most %d", len(c.Image), arklet.MaxURL)
	}
	u, err := url.Parse(c.Image)
	switch {
	case err != nil:
		_, err = url.Parse(redact.URL(c.Image)) // the first error may quote a part of a password
		if err == nil {
			return invalid("is no URL: its credentials or parameters have special characters; write these as %%XX")
		}
		if parsing, ok := errors.AsType[*url.Error](err); ok { // its text repeats the URL
			err = parsing.Err
		}
		return invalid("%w: %w", errNotURL, err)
	case u.Scheme != "file" && u.Scheme != "http" && u.Scheme != "https":
		return invalid("%w", errScheme)
	case u.Scheme != "file" && u.Host == "", strings.Trim(u.Path, "/") == "" && u.RawQuery == "":
		return invalid("%w", errNoJar)
	case !arklet.Printable(c.Image):
		return invalid("has a character that cannot be printed")
	}
	return nil
}
