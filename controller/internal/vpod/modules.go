package vpod

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/configmap"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// module is a module that a container of a Pod requests.
type module struct {
	arklet.Module
	invalid error // reason why the module cannot be installed, with an error code; nil if it can be installed
	pending bool  // whether the ConfigMap that contains the version is still being read
	preStop time.Duration
	// uninstallFirst is true if the install strategy of the Pod is uninstallThenInstall.
	uninstallFirst bool
}

func (m module) installable() bool { return m.invalid == nil && !m.pending }

// modulesOf returns the modules of a Pod. It calls the function value to read a key of a ConfigMap.
func modulesOf(pod *corev1.Pod, value func(types.NamespacedName, string) (string, error)) []module {
	containers, _ := workload.Modules(pod.Spec)
	uninstallFirst, _ := workload.UninstallsFirst(&pod.ObjectMeta) // workload.Check returns the error
	modules := make([]module, 0, len(containers))
	seen := map[string]bool{}
	for _, c := range containers {
		resolved, err := workload.Resolve(pod, c, value)
		m := module{Module: workload.ModuleOf(&pod.ObjectMeta, resolved), preStop: workload.PreStopSleep(c),
			uninstallFirst: uninstallFirst}
		switch {
		case seen[c.Name]:
			m.invalid = errcode.New(errcode.OtherUpstreamInvalidParameter,
				"container name %q occurs twice; use a unique name for each module of a Pod", c.Name)
		case errors.Is(err, configmap.ErrPending):
			m.pending = true
		case err != nil:
			m.invalid = err
		default:
			m.invalid = workload.Check(&pod.ObjectMeta, resolved)
			if errors.Is(m.invalid, workload.ErrInstallStrategy) && isInstalled(pod, m.Module) {
				m.invalid = nil // the strategy has no effect, and the module must not be uninstalled
			}
		}
		seen[c.Name] = true
		modules = append(modules, m)
	}
	return modules
}

// isInstalled reports whether the Pod status shows that the version of a module is installed.
func isInstalled(pod *corev1.Pod, m arklet.Module) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == m.Name && workload.InstalledVersion(c) == m.Version
	})
}
