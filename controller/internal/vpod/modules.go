package vpod

import (
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/workload"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// module is one container of a Pod: a module that a base should have, or why it can't be told
// which.
type module struct {
	arklet.Module
	invalid error // carries an error code
}

// modulesOf reads the modules of a Pod: container name, BIZ_VERSION and image are biz name, version
// and URL. The result has an entry for each container.
func modulesOf(pod *corev1.Pod) []module {
	modules := make([]module, 0, len(pod.Spec.Containers))
	seen := map[string]bool{}
	for _, c := range pod.Spec.Containers {
		m := module{Module: workload.Of(&pod.ObjectMeta, c)}
		switch {
		case seen[c.Name]:
			m.invalid = errcode.New(errcode.OtherUpstreamInvalidParameter, "container %q occurs twice: a base has a module of one name once for each version", c.Name)
		case m.Version == "":
			m.invalid = errcode.New(errcode.OtherUpstreamInvalidParameter, "container %q has no environment variable %s, which names the module's version", c.Name, labels.VersionEnv)
		default:
			m.invalid = checkURL(c)
		}
		seen[c.Name] = true
		modules = append(modules, m)
	}
	return modules
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

// containerID names a module on a base: arklet://<base IP>:<module>:<version>.
func containerID(ip string, m arklet.Module) string {
	return fmt.Sprintf("arklet://%s:%s:%s", ip, m.Name, m.Version)
}
