package vpod

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/configmap"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// module is one container of a Pod: a module that a base should have, or why it can't be told
// which.
type module struct {
	arklet.Module
	invalid error // carries an error code
	// pending: the ConfigMap that holds its version is being read.
	pending bool
	preStop time.Duration // how long it is to go on serving after its Pod's deletion
}

// installable says whether a base can be asked for it.
func (m module) installable() bool { return m.invalid == nil && !m.pending }

// modulesOf reads the modules of a Pod: container name, BIZ_VERSION and image are biz name, version
// and URL. Containers that are not modules (workload.Modules) have no entry. value looks up a key of a
// ConfigMap.
func modulesOf(pod *corev1.Pod, value func(types.NamespacedName, string) (string, error)) []module {
	containers, _ := workload.Modules(pod.Spec)
	modules := make([]module, 0, len(containers))
	seen := map[string]bool{}
	for _, c := range containers {
		resolved, err := workload.Resolve(pod, c, value)
		m := module{Module: workload.Of(&pod.ObjectMeta, resolved), preStop: workload.PreStopSleep(c)}
		switch {
		case seen[c.Name]:
			m.invalid = errcode.New(errcode.OtherUpstreamInvalidParameter, "container %q occurs twice: a base has a module of one name once for each version", c.Name)
		case errors.Is(err, configmap.ErrPending):
			m.pending = true
		case err != nil:
			m.invalid = err
		default:
			m.invalid = workload.Check(&pod.ObjectMeta, resolved)
		}
		seen[c.Name] = true
		modules = append(modules, m)
	}
	return modules
}
