package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

// cleanUpTimeout limits the duration of the clean-up of a run. Restarting the controllers in a cluster takes up to 40
// s.
const cleanUpTimeout = 2 * time.Minute

// services is the resource of Services for the dynamic client, because the typed client cannot delete all Services of
// a namespace with one request.
var services = corev1.SchemeGroupVersion.WithResource("services")

// cleanUp removes the objects and bases of the run. It returns a description of the objects and bases that remain,
// and of how to remove them.
func (e *execution) cleanUp(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	errs := []error{e.removeIdentity()}
	restore := func() {}
	if e.env != nil { // even with Keep: other runs need the original components and controllers
		errs = append(errs, e.env.Repair(ctx))
		restore = func() { errs = append(errs, e.env.Restore(ctx)) }
	}
	if e.r.o.Keep {
		restore()
		e.stopWatches()
		return join(errs, e.keptMessage())
	}
	errs = append(errs, e.removePods(ctx))
	_, err := e.r.o.Sandbox.RemoveBases(ctx, control.RemoveRequest{Group: e.in.name})
	errs = append(errs, ignoreNotFound(err))
	restore() // last: restarted controllers would recreate the Nodes of these bases
	e.stopWatches()
	if e.r.o.LeaveNamespaces {
		err = e.r.kube.Dynamic.Resource(services).Namespace(e.in.name).DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{})
	} else {
		err = e.r.kube.Typed.CoreV1().Namespaces().Delete(ctx, e.in.name, metav1.DeleteOptions{})
	}
	if !apierrors.IsNotFound(err) {
		errs = append(errs, err)
	}
	return join(errs, "")
}

// keptMessage describes the objects and bases that a run with Keep leaves, and how to remove them.
func (e *execution) keptMessage() string {
	return fmt.Sprintf("kept: namespace %s and its bases; remove them with: kubectl --kubeconfig %s delete namespace "+
		"%s && koupsandbox base remove --name %s --group %s",
		e.in.name, e.r.o.Sandbox.Kubeconfig, e.in.name, e.r.o.Sandbox.Name, e.in.name)
}

func (e *execution) stopWatches() {
	e.stop()
	e.watches.Wait()
}

// removePods deletes the workloads and Pods of the run without a grace period. The bases are removed afterwards, so
// their modules are not uninstalled.
func (e *execution) removePods(ctx context.Context) error {
	all, now := metav1.ListOptions{}, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0),
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	apps, core, batch := e.r.kube.Typed.AppsV1(), e.r.kube.Typed.CoreV1(), e.r.kube.Typed.BatchV1()
	return errors.Join(
		batch.CronJobs(e.in.name).DeleteCollection(ctx, now, all),
		batch.Jobs(e.in.name).DeleteCollection(ctx, now, all),
		core.ReplicationControllers(e.in.name).DeleteCollection(ctx, now, all),
		apps.Deployments(e.in.name).DeleteCollection(ctx, now, all),
		apps.DaemonSets(e.in.name).DeleteCollection(ctx, now, all),
		apps.StatefulSets(e.in.name).DeleteCollection(ctx, now, all),
		apps.ReplicaSets(e.in.name).DeleteCollection(ctx, now, all),
		core.Pods(e.in.name).DeleteCollection(ctx, now, all),
	)
}

func ignoreNotFound(err error) error {
	var answer *control.Error
	if errors.As(err, &answer) && answer.Code == 404 {
		return nil
	}
	return err
}

func join(errs []error, text string) string {
	if err := errors.Join(errs...); err != nil {
		return strings.TrimSpace(text + "\ncleaning up: " + err.Error())
	}
	return text
}
