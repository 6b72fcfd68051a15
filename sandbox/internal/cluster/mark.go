package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The ownership marker is a ConfigMap with this namespace and name and with the label ManagedBy=MarkName.
const (
	MarkNamespace = "kube-system"
	MarkName      = "koupsandbox"
	ManagedBy     = "app.kubernetes.io/managed-by"
	// SandboxLabel is the label of all objects that a sandbox creates in a shared cluster. Its value is the result of
	// state.Dir.Label.
	SandboxLabel = "koupsandbox.io/sandbox"
)

// The keys of the ownership marker's data.
const (
	sandboxKey = "sandbox"
	placeKey   = "place"
)

// Owner identifies the sandbox that owns a cluster.
type Owner struct {
	// Sandbox is the name of the sandbox.
	Sandbox string
	// Place distinguishes sandboxes with the same name on different machines or in different directories; see
	// state.Dir.Location. Ownership markers from earlier versions have no Place and match every sandbox with the same
	// name.
	Place string
}

// OtherSandboxError means that the cluster belongs to another sandbox, or that another ConfigMap has the name of the
// ownership marker.
type OtherSandboxError struct {
	// Owner is the owner of the cluster. It is the zero value if the ConfigMap is not an ownership marker.
	Owner Owner
}

// Error returns a message that names the owner of the cluster and suggests a fix.
func (e *OtherSandboxError) Error() string {
	switch e.Owner {
	case Owner{}:
		return fmt.Sprintf("ConfigMap %s/%s exists, but is not an ownership marker of a sandbox; rename it, or choose "+
			"another cluster",
			MarkNamespace, MarkName)
	case Owner{Sandbox: e.Owner.Sandbox}:
		return fmt.Sprintf("the cluster belongs to sandbox %q; stop that sandbox first, or choose another cluster",
			e.Owner.Sandbox)
	default:
		return fmt.Sprintf("the cluster belongs to sandbox %q of %s; stop that sandbox first, or choose another "+
			"cluster; if that directory no longer exists, delete ConfigMap %s/%s in the cluster",
			e.Owner.Sandbox, e.Owner.Place, MarkNamespace, MarkName)
	}
}

// Mark creates the ownership marker of owner. It does nothing if this marker already exists. If the cluster belongs
// to another sandbox, Mark returns an *OtherSandboxError.
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
		return fmt.Errorf("creating the ownership marker of sandbox %q: %w", owner.Sandbox, err)
	}
	return nil
}

// Marked reports whether the cluster has the ownership marker of owner. It does not change the cluster. If the
// cluster belongs to another sandbox, Marked returns an *OtherSandboxError.
func Marked(ctx context.Context, client kubernetes.Interface, owner Owner) (bool, error) {
	mark, err := readMark(ctx, client, owner)
	return mark != nil, err
}

// readMark returns the ownership marker of owner, or nil if the cluster has no ownership marker.
func readMark(ctx context.Context, client kubernetes.Interface, owner Owner) (*corev1.ConfigMap, error) {
	mark, err := client.CoreV1().ConfigMaps(MarkNamespace).Get(ctx, MarkName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the ownership marker of sandbox %q: %w", owner.Sandbox, err)
	case mark.Labels[ManagedBy] != MarkName:
		return nil, &OtherSandboxError{}
	}
	has := Owner{Sandbox: mark.Data[sandboxKey], Place: mark.Data[placeKey]}
	if has != owner && has != (Owner{Sandbox: owner.Sandbox}) {
		return nil, &OtherSandboxError{Owner: has}
	}
	return mark, nil
}

// Unmark deletes the ownership marker of owner. A missing marker is not an error. Unmark keeps the marker of another
// sandbox and returns an *OtherSandboxError.
func Unmark(ctx context.Context, client kubernetes.Interface, owner Owner) error {
	mark, err := readMark(ctx, client, owner)
	if err != nil || mark == nil {
		return err
	}
	err = client.CoreV1().ConfigMaps(MarkNamespace).Delete(ctx, MarkName, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(mark.UID)), // not a marker that was created in the meantime
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the ownership marker of sandbox %q: %w", owner.Sandbox, err)
	}
	return nil
}
