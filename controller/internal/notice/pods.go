package notice

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/unsupported"
)

// podSource is where module Pods are seen; internal/vpod's Informer is one.
type podSource interface {
	// Observe calls changed for every event of a module Pod.
	Observe(changed func(*corev1.Pod)) error
	Get(name types.NamespacedName) (*corev1.Pod, bool)
}

// PodOptions say which Pods are told. All are required.
type PodOptions struct {
	Pods     podSource
	Recorder record.EventRecorder
	// Mine says whether this controller serves the Pods of a Node. It must not block.
	Mine func(nodeName string) bool
}

// Pods tells each Pod once what of its spec is ignored: when it is served for the first time. Pods
// that were accepted before the call were told by whoever accepted them. It returns at once; an
// error means that the Pods cannot be watched.
func Pods(o PodOptions) error {
	t := &podTeller{PodOptions: o, since: time.Now(), told: map[types.UID]bool{}}
	return o.Pods.Observe(t.changed)
}

type podTeller struct {
	PodOptions
	since time.Time

	mu   sync.Mutex
	told map[types.UID]bool // of the Pods that there are
}

func (t *podTeller) changed(pod *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if live, there := t.Pods.Get(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}); !there || live.UID != pod.UID {
		delete(t.told, pod.UID)
		return
	}
	if t.told[pod.UID] || pod.Spec.NodeName == "" || !t.Mine(pod.Spec.NodeName) {
		return
	}
	t.told[pod.UID] = true
	if started := pod.Status.StartTime; started != nil && started.Time.Before(t.since.Truncate(time.Second)) {
		return
	}
	if fields := unsupported.OfPod(pod, unsupported.Controller); len(fields) > 0 {
		t.Recorder.Event(pod, corev1.EventTypeWarning, api.ReasonUnsupported, unsupported.List(fields))
	}
}
