package containers

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// release is a Deployment that has a module on each of the bases.
type release struct {
	namespace, module string
}

// template is a Pod with a version of the module, on the bases in containers only.
func (r release) template(version string) corev1.PodTemplateSpec {
	t := module.Template(r.module, module.Container(r.module, version))
	t.Spec.NodeSelector = map[string]string{module.LabelBaseName: baseName}
	module.OnePerBase(&t)
	return t
}

// deploy installs a module on every base, until the test ends.
func deploy(t *testing.T, name, version string) release {
	t.Helper()
	r := release{envconf.RandomName("containers", 20), name}
	_, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}, metav1.CreateOptions{})
	must(t, err)
	_, err = kube.AppsV1().Deployments(r.namespace).Create(t.Context(), module.Deployment(r.namespace, name, bases, r.template(version)), metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { // the bases go on to the next test without the module
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := kube.CoreV1().Namespaces().Delete(ctx, r.namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "every base serves the module", func(ctx context.Context) error { return r.wellEverywhere(ctx, version) })
	return r
}

// wellEverywhere checks every base.
func (r release) wellEverywhere(ctx context.Context, version string) error {
	for _, b := range all.bases {
		if err := r.well(ctx, b, version); err != nil {
			return err
		}
	}
	return nil
}

// well checks that a base serves the module, and that the API says so: its Node, and the one Pod
// there.
func (r release) well(ctx context.Context, b *base, version string) error {
	got, err := b.version(ctx, r.module)
	if err == nil && got != version {
		err = fmt.Errorf("%s serves version %q of %s, not %s", b.name, got, r.module, version)
	}
	if err == nil {
		err = nodeIs(ctx, b, true)
	}
	if err == nil {
		err = r.podIs(ctx, b, true)
	}
	return err
}

// nodeIs checks whether the Node of a base is Ready.
func nodeIs(ctx context.Context, b *base, ready bool) error {
	node, err := kube.CoreV1().Nodes().Get(ctx, "vnode."+b.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	status := corev1.ConditionStatus("not said")
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			status = c.Status
		}
	}
	if (status == corev1.ConditionTrue) != ready {
		return fmt.Errorf("the Node of %s is Ready: %s", b.name, status)
	}
	return nil
}

// isUnobserved checks that the Node of a base says that the controller hears nothing.
func isUnobserved(ctx context.Context, b *base) error {
	node, err := kube.CoreV1().Nodes().Get(ctx, "vnode."+b.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == "Observed" && c.Status == corev1.ConditionFalse && c.Reason == "TunnelDown" {
			return nil
		}
	}
	return fmt.Errorf("the Node of %s has the conditions %v", b.name, node.Status.Conditions)
}

// nodeIsGone checks that a base has no Node.
func nodeIsGone(ctx context.Context, b *base) error {
	_, err := kube.CoreV1().Nodes().Get(ctx, "vnode."+b.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%s still has a Node", b.name)
	}
	return err
}

// pods are those on a base that are to stay.
func (r release) pods(ctx context.Context, b *base) ([]corev1.Pod, error) {
	list, err := kube.CoreV1().Pods(r.namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=vnode." + b.name})
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			pods = append(pods, p)
		}
	}
	return pods, nil
}

// podIs checks whether the one Pod on a base is Ready.
func (r release) podIs(ctx context.Context, b *base, ready bool) error {
	pods, err := r.pods(ctx, b)
	if err != nil {
		return err
	}
	if len(pods) != 1 {
		return fmt.Errorf("%s has %d Pods of %s", b.name, len(pods), r.module)
	}
	if module.IsReady(&pods[0]) != ready {
		return fmt.Errorf("Pod %s on %s is Ready: %t", pods[0].Name, b.name, !ready)
	}
	return nil
}
