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
	// SandboxLabel is a label of objects of a sandbox in a cluster with other users. Its value is
	// state.Dir.Label.
	SandboxLabel = "koupsandbox.io/sandbox"
)

// The entries of the mark's data.
const (
	sandboxKey = "sandbox"
	placeKey   = "place"
)

// Owner is a sandbox, as the one that a cluster belongs to.
type Owner struct {
	// Sandbox is its name.
	Sandbox string
	// Place tells it from others of its name, on other machines and in other directories: state.Dir.Place. Marks of
	// earlier versions have none, and belong to every sandbox of their name.
	Place string
}

// OtherSandboxError says that the cluster belongs to another sandbox, or bears a ConfigMap of the
// mark's name that no sandbox wrote.
type OtherSandboxError struct {
	// Owner of the cluster; zero if the ConfigMap is not a mark.
	Owner Owner
}

// Error says whose the cluster is and what to do.
func (e *OtherSandboxError) Error() string {
	switch e.Owner {
	case Owner{}:
		return fmt.Sprintf("ConfigMap %s/%s is there, but no sandbox wrote it; rename it or choose another cluster",
			MarkNamespace, MarkName)
	case Owner{Sandbox: e.Owner.Sandbox}:
		return fmt.Sprintf("the cluster belongs to sandbox %q; take that one down first or choose another cluster",
			e.Owner.Sandbox)
	default:
		return fmt.Sprintf("the cluster belongs to sandbox %q of %s; take that one down first or choose another cluster; if that folder is gone, "+
			"delete ConfigMap %s/%s in the cluster", e.Owner.Sandbox, e.Owner.Place, MarkNamespace, MarkName)
	}
}

// Mark makes the cluster have the ownership marker of owner. A cluster that bears it already is left as it
// is; one that belongs to another sandbox gives an *OtherSandboxError.
func Mark(ctx context.Context, client kubernetes.Interface, owner Owner) error {
	mark := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: MarkName, Namespace: MarkNamespace,
			Labels: map[string]string{ManagedBy: MarkName}},
		Data: map[string]string{sandboxKey: owner.Sandbox, placeKey: owner.Place},
	}
	_, err := client.CoreV1().ConfigMaps(MarkNamespace).Create(ctx, mark, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = Marked(ctx, client, owner)
		return err
	}
	if err != nil {
		return fmt.Errorf("marking the cluster as that of sandbox %q: %w", owner.Sandbox, err)
	}
	return nil
}

// Marked reports whether the cluster has the ownership marker of owner. It only reads. A cluster of another
// sandbox gives an *OtherSandboxError.
func Marked(ctx context.Context, client kubernetes.Interface, owner Owner) (bool, error) {
	mark, err := readMark(ctx, client, owner)
	return mark != nil, err
}

// readMark returns the mark of owner, or nil if the cluster bears none.
func readMark(ctx context.Context, client kubernetes.Interface, owner Owner) (*corev1.ConfigMap, error) {
	mark, err := client.CoreV1().ConfigMaps(MarkNamespace).Get(ctx, MarkName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking for the mark of sandbox %q: %w", owner.Sandbox, err)
	case mark.Labels[ManagedBy] != MarkName:
		return nil, &OtherSandboxError{}
	}
	has := Owner{Sandbox: mark.Data[sandboxKey], Place: mark.Data[placeKey]}
	if has != owner && has != (Owner{Sandbox: owner.Sandbox}) {
		return nil, &OtherSandboxError{Owner: has}
	}
	return mark, nil
}

// Unmark removes the mark of owner and nothing else. A cluster without a mark is fine; the mark
// of another sandbox stays and gives an *OtherSandboxError.
func Unmark(ctx context.Context, client kubernetes.Interface, owner Owner) error {
	mark, err := readMark(ctx, client, owner)
	if err != nil || mark == nil {
		return err
	}
	err = client.CoreV1().ConfigMaps(MarkNamespace).Delete(ctx, MarkName, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(mark.UID)), // not a mark that was written since
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing the mark of sandbox %q: %w", owner.Sandbox, err)
	}
	return nil
}
