package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The mark is a ConfigMap of this name and namespace, with the label ManagedBy=MarkName.
const (
	MarkNamespace = "kube-system"
	MarkName      = "koupsandbox"
	ManagedBy     = "app.kubernetes.io/managed-by"
)

// sandboxKey is the entry of the mark's data that names the sandbox.
const sandboxKey = "sandbox"

// OtherSandboxError says that the cluster belongs to another sandbox, or bears a ConfigMap of the
// mark's name that no sandbox wrote.
type OtherSandboxError struct {
	// Sandbox that the cluster belongs to; empty if the ConfigMap is not a mark.
	Sandbox string
}

// Error says whose the cluster is and what to do.
func (e *OtherSandboxError) Error() string {
	if e.Sandbox == "" {
		return fmt.Sprintf("ConfigMap %s/%s is there, but no sandbox wrote it; rename it or choose another cluster", MarkNamespace, MarkName)
	}
	return fmt.Sprintf("the cluster belongs to sandbox %q; take that one down first or choose another cluster", e.Sandbox)
}

// Mark makes the cluster bear the mark of sandbox. A cluster that bears it already is left as it
// is; one that belongs to another sandbox gives an *OtherSandboxError.
func Mark(ctx context.Context, client kubernetes.Interface, sandbox string) error {
	mark := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: MarkName, Namespace: MarkNamespace, Labels: map[string]string{ManagedBy: MarkName}},
		Data:       map[string]string{sandboxKey: sandbox},
	}
	_, err := client.CoreV1().ConfigMaps(MarkNamespace).Create(ctx, mark, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = Marked(ctx, client, sandbox)
		return err
	}
	if err != nil {
		return fmt.Errorf("marking the cluster as that of sandbox %q: %w", sandbox, err)
	}
	return nil
}

// Marked tells whether the cluster bears the mark of sandbox. It only reads. A cluster of another
// sandbox gives an *OtherSandboxError.
func Marked(ctx context.Context, client kubernetes.Interface, sandbox string) (bool, error) {
	mark, err := readMark(ctx, client, sandbox)
	return mark != nil, err
}

// readMark returns the mark of sandbox, or nil if the cluster bears none.
func readMark(ctx context.Context, client kubernetes.Interface, sandbox string) (*corev1.ConfigMap, error) {
	mark, err := client.CoreV1().ConfigMaps(MarkNamespace).Get(ctx, MarkName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking for the mark of sandbox %q: %w", sandbox, err)
	case mark.Labels[ManagedBy] != MarkName:
		return nil, &OtherSandboxError{}
	case mark.Data[sandboxKey] != sandbox:
		return nil, &OtherSandboxError{Sandbox: mark.Data[sandboxKey]}
	}
	return mark, nil
}

// Unmark removes the mark of sandbox and nothing else. A cluster without a mark is fine; the mark
// of another sandbox stays and gives an *OtherSandboxError.
func Unmark(ctx context.Context, client kubernetes.Interface, sandbox string) error {
	mark, err := readMark(ctx, client, sandbox)
	if err != nil || mark == nil {
		return err
	}
	err = client.CoreV1().ConfigMaps(MarkNamespace).Delete(ctx, MarkName, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(mark.UID)), // not a mark that was written since
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the mark of sandbox %q: %w", sandbox, err)
	}
	return nil
}
