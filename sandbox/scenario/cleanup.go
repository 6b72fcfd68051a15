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

// cleanTime bounds the clean-up of a run: in a cluster, beside others, controllers that are brought back take 40 s.
const cleanTime = 2 * time.Minute

// services are what a run has made besides workloads; only the untyped client removes all at once.
var services = corev1.SchemeGroupVersion.WithResource("services")

// cleanUp takes away what the run has made, and says what is left and how to
// remove it.
func (e *execution) cleanUp(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	errs := []error{e.forgetIdentity()}
	restore := func() {}
	if e.env != nil { // even if the run is kept: others need components and controllers as they were
		errs = append(errs, e.env.Repair(ctx))
		restore = func() { errs = append(errs, e.env.Restore(ctx)) }
	}
	if e.r.o.Keep {
		restore()
		e.end()
		return join(errs, e.left())
	}
	errs = append(errs, e.removePods(ctx))
	_, err := e.r.o.Sandbox.RemoveBases(ctx, control.RemoveRequest{Group: e.in.name})
	errs = append(errs, ignoreUnknown(err))
	restore() // last: it restarts the controllers, and these bases' Nodes need not come again
	e.end()
	if e.r.o.LeaveNamespaces {
		err = e.r.kube.Dynamic.Resource(services).Namespace(e.in.name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	} else {
		err = e.r.kube.Typed.CoreV1().Namespaces().Delete(ctx, e.in.name, metav1.DeleteOptions{})
	}
	if !apierrors.IsNotFound(err) {
		errs = append(errs, err)
	}
	return join(errs, "")
}

// left says what a run that is kept has left, and how to remove it.
func (e *execution) left() string {
	return fmt.Sprintf("kept: namespace %s and its bases; remove them with: kubectl --kubeconfig %s delete namespace %s && koupsandbox base remove --name %s --group %s",
		e.in.name, e.r.o.Sandbox.Kubeconfig, e.in.name, e.r.o.Sandbox.Name, e.in.name)
}

// end ends the watches of the run.
func (e *execution) end() {
	e.stop()
	e.ended.Wait()
}

// removePods takes the workloads and Pods of the run out of the API, at once:
// their bases go next, and nobody is to try an uninstall on a base that is gone.
func (e *execution) removePods(ctx context.Context) error {
	all, now := metav1.ListOptions{}, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
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

// ignoreUnknown drops the answer that there is nothing to remove.
func ignoreUnknown(err error) error {
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
