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

// Causes of errors for invalid containers. The errors of Check wrap them.
var (
	errEnvFrom = errors.New("the controller does not read envFrom; set the variable in env, for example with a " +
		"configMapKeyRef")
	errEmpty  = errors.New("is empty")
	errSpaces = errors.New("a version must not contain spaces")
	errNotURL = errors.New("is not a URL")
	errScheme = errors.New("is not a file://, http:// or https:// URL of a module's jar")
	errNoJar  = errors.New("has no path to a jar")
)

// ErrInstallStrategy reports that the annotation labels.InstallStrategy has an unknown value.
var ErrInstallStrategy = errors.New("use " + labels.InstallOnly + " or " + labels.UninstallThenInstall)

// Check returns an error with an error code if a container cannot be installed as a module. meta is the metadata of its
// Pod or template. The error wraps ErrUnresolved if the version is not known yet; see CheckVersion.
//
// Check applies the limits of package arklet to names and versions. Otherwise, a base could install a module that the
// controller ignores in the module list.
func Check(meta *metav1.ObjectMeta, container corev1.Container) error {
	if err := CheckVersion(meta, container); err != nil {
		return err
	}
	if err := CheckImage(container); err != nil {
		return err
	}
	_, err := UninstallsFirst(meta)
	return err
}

// UninstallsFirst reports whether the modules of a Pod or template have the install strategy uninstallThenInstall. For
// an unknown strategy, it returns an error with an error code, which wraps ErrInstallStrategy.
func UninstallsFirst(meta *metav1.ObjectMeta) (bool, error) {
	switch strategy := meta.Annotations[labels.InstallStrategy]; strategy {
	case "", labels.InstallOnly:
		return false, nil
	case labels.UninstallThenInstall:
		return true, nil
	default:
		return false, errcode.New(errcode.OtherUpstreamInvalidParameter, "the annotation %s is %.80q; %w",
			labels.InstallStrategy, strategy, ErrInstallStrategy)
	}
}

// CheckVersion returns an error if the BIZ_VERSION of a container is not a valid version. The error wraps ErrUnresolved
// if the version is in a ConfigMap, or in metadata that a template does not have.
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
			"container %.80q has no environment variable %s", container.Name,
			labels.VersionEnv)
	case strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' }):
		return invalid("is %.80q: %w", v, errSpaces)
	case len(v) > arklet.MaxName:
		return invalid("has %d bytes; use at most %d", len(v), arklet.MaxName)
	case !arklet.Printable(v):
		return invalid("is %.80q; use only printable characters", v)
	case len(container.Name) > arklet.MaxName || !arklet.Printable(container.Name):
		return errcode.New(errcode.OtherUpstreamInvalidParameter,
			"the name of container %.80q is not a valid module name; use at most %d bytes of printable characters",
			container.Name,
			arklet.MaxName)
	}
	return nil
}

// CheckImage returns an error if the image of a container is not the URL of a jar. The path of the URL can have any
// form, because a repository may serve jars as /download?name=biz1.
func CheckImage(c corev1.Container) error {
	invalid := func(format string, args ...any) error {
		return errcode.New(errcode.OtherUpstreamDecodeURLFailed, "image %.200q of container %.80q "+format,
			append([]any{redact.URL(c.Image), c.Name}, args...)...)
	}
	if len(c.Image) > arklet.MaxURL {
		return invalid("has %d bytes; use at most %d", len(c.Image), arklet.MaxURL)
	}
	u, err := url.Parse(c.Image)
	switch {
	case err != nil:
		_, err = url.Parse(redact.URL(c.Image)) // the first error may quote a part of a password
		if err == nil {
			return invalid("is not a URL: its credentials or parameters contain special characters; " +
				"encode them as %%XX")
		}
		if parsing, ok := errors.AsType[*url.Error](err); ok { // its text contains the URL again
			err = parsing.Err
		}
		return invalid("%w: %w", errNotURL, err)
	case u.Scheme != "file" && u.Scheme != "http" && u.Scheme != "https":
		return invalid("%w", errScheme)
	case u.Scheme != "file" && u.Host == "", strings.Trim(u.Path, "/") == "" && u.RawQuery == "":
		return invalid("%w", errNoJar)
	case !arklet.Printable(c.Image):
		return invalid("contains a character that is not printable")
	}
	return nil
}
