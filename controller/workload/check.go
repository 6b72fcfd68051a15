package workload

import (
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// Check returns why a container cannot be installed as a module, with an error code, and nil if it
// can: it must say a version, which has no spaces, and the URL of a jar. meta is that of its Pod or
// template.
func Check(meta *metav1.ObjectMeta, container corev1.Container) error {
	switch v := rawVersion(meta, container); {
	case v == "":
		return errcode.New(errcode.OtherUpstreamInvalidParameter, "container %q has no environment variable %s, which names the module's version", container.Name, labels.VersionEnv)
	case strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' }):
		return errcode.New(errcode.OtherUpstreamInvalidParameter, "%s of container %q is %q: a version has no spaces", labels.VersionEnv, container.Name, v)
	}
	return checkURL(container)
}

func checkURL(c corev1.Container) error {
	u, err := url.Parse(c.Image)
	switch {
	case err != nil:
		return errcode.New(errcode.OtherUpstreamDecodeURLFailed, "image %q of container %q is no URL: %w", c.Image, c.Name, err)
	case u.Scheme != "file" && u.Scheme != "http" && u.Scheme != "https":
		return errcode.New(errcode.OtherUpstreamDecodeURLFailed, "image %q of container %q is no file://, http:// or https:// URL of a module's jar", c.Image, c.Name)
	case u.Scheme != "file" && u.Host == "", u.Path == "":
		return errcode.New(errcode.OtherUpstreamDecodeURLFailed, "image %q of container %q names no jar", c.Image, c.Name)
	}
	return nil
}
