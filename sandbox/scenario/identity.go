package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const (
	// scriptAccount is the name of the ServiceAccount that the scripts of a run use. It is also the name of the
	// RoleBinding that grants scriptRole to the ServiceAccount in the namespace of the run. The ServiceAccount has no
	// access to other namespaces.
	scriptAccount = "scripts"
	scriptRole    = "edit"
	// tokenLifetime is the lifetime of the ServiceAccount token. It is longer than any run.
	tokenLifetime = 24 * time.Hour
)

func (e *execution) hasScripts() (has bool) {
	e.in.EachStep(func(_ *field.Path, step *v1alpha1.Step) { has = has || step.Script != nil })
	return has
}

// prepareIdentity creates a private directory for the kubeconfig of scripts, and returns the path of the kubeconfig.
// It returns "" if the scenario has no scripts.
func (e *execution) prepareIdentity() (kubeconfig string, err error) {
	if !e.hasScripts() {
		return "", nil
	}
	e.privateDir, err = os.MkdirTemp("", "koup-run-")
	if err != nil {
		return "", fmt.Errorf("creating the directory for the kubeconfig of scripts: %w", err)
	}
	return filepath.Join(e.privateDir, "kubeconfig"), nil
}

// removeIdentity removes the kubeconfig of scripts. The ServiceAccount is deleted together with the namespace.
func (e *execution) removeIdentity() error {
	if e.privateDir == "" {
		return nil
	}
	return os.RemoveAll(e.privateDir)
}

// createIdentity creates a ServiceAccount for scripts in the namespace of the run, waits until its permissions are
// effective, and writes the kubeconfig.
func (e *execution) createIdentity(ctx context.Context, kubeconfig string) error {
	if kubeconfig == "" {
		return nil
	}
	at := metav1.ObjectMeta{Namespace: e.in.name, Name: scriptAccount}
	client := e.r.kube.Typed
	_, err := client.CoreV1().ServiceAccounts(e.in.name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: at},
		metav1.CreateOptions{})
	if err == nil {
		_, err = client.RbacV1().RoleBindings(e.in.name).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: at,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: scriptRole},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: e.in.name, Name: scriptAccount}},
		}, metav1.CreateOptions{})
	}
	var token *authenticationv1.TokenRequest
	if err == nil {
		token, err = client.CoreV1().ServiceAccounts(e.in.name).CreateToken(ctx, scriptAccount,
			&authenticationv1.TokenRequest{
				Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenLifetime.Seconds()))},
			}, metav1.CreateOptions{})
	}
	if err == nil {
		err = e.waitForBinding(ctx)
	}
	if err == nil {
		err = writeKubeconfig(kubeconfig, e.r.o.Sandbox.Kubeconfig, e.in.name, token.Status.Token)
	}
	if err != nil {
		return fmt.Errorf("creating the ServiceAccount and the kubeconfig for scripts: %w", err)
	}
	return nil
}

// waitForBinding blocks until the API server applies the permissions of the RoleBinding.
func (e *execution) waitForBinding(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		review, err := e.r.kube.Typed.AuthorizationV1().LocalSubjectAccessReviews(e.in.name).Create(ctx,
			&authorizationv1.LocalSubjectAccessReview{
				ObjectMeta: metav1.ObjectMeta{Namespace: e.in.name},
				Spec: authorizationv1.SubjectAccessReviewSpec{
					User: "system:serviceaccount:" + e.in.name + ":" + scriptAccount,
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: e.in.name, Verb: "create",
						Resource: "pods"},
				},
			}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	})
}

// writeKubeconfig writes a kubeconfig with a token and a default namespace. It copies the current cluster from
// another kubeconfig.
func writeKubeconfig(path, of, namespace, token string) error {
	admin, err := clientcmd.LoadFromFile(of)
	if err != nil {
		return err
	}
	if err := clientcmd.ResolveLocalPaths(admin); err != nil {
		return err
	}
	current := admin.Contexts[admin.CurrentContext]
	if current == nil || admin.Clusters[current.Cluster] == nil {
		return fmt.Errorf("kubeconfig %q has no current context with a cluster", of)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[current.Cluster] = admin.Clusters[current.Cluster]
	config.AuthInfos[scriptAccount] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[namespace] = &clientcmdapi.Context{Cluster: current.Cluster, AuthInfo: scriptAccount,
		Namespace: namespace}
	config.CurrentContext = namespace
	return clientcmd.WriteToFile(*config, path) // 0600
}
