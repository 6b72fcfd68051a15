package lint

import (
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/koupleless/koupsandbox/controller/deploy"
	workloads "github.com/koupleless/koupsandbox/controller/workload"
)

// sampleNode returns the Node of a base, from the samples of the controller.
var sampleNode = sync.OnceValue(func() *corev1.Node {
	text, err := deploy.Samples.ReadFile("samples/vnode.yaml")
	if err != nil {
		panic(err) // the file is embedded
	}
	objects, err := deploy.Parse(text)
	if err != nil {
		panic(err)
	}
	node := &corev1.Node{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, node); err != nil {
		panic(err)
	}
	return node
})

// ordinary checks a workload that has no modules.
func (l *linter) ordinary(w *workload) {
	if _, is := w.typed.(*appsv1.DaemonSet); !is || unknown(w.template.Spec.String()) {
		return
	}
	if workloads.NewPlacement(w.template.Spec, "").Fits(sampleNode()) {
		l.find("daemonset-on-bases", &w.object, w.in("spec"), "it tolerates the taints of bases, so it creates a Pod on every base, where nothing runs its containers: these Pods keep the status NotAModule")
	}
}
