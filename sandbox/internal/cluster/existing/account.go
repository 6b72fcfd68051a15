package existing

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

const (
	// accountNamespace is the namespace of the controllers' ServiceAccount.
	accountNamespace = cluster.MarkNamespace
	// tokenLifetime is the lifetime to request for a ServiceAccount token. The token is renewed after a third of this
	// time.
	tokenLifetime = time.Hour
	// tokenCheck is the interval between checks whether the token must be renewed.
	tokenCheck = 30 * time.Second
	// permissionPoll is the interval between checks whether the ServiceAccount has its permissions.
	permissionPoll = 100 * time.Millisecond
)

// accountName returns the name of the ServiceAccount for controllers on this machine. The roles and bindings of the
// ServiceAccount have the same name, which is unique to the sandbox.
func accountName(label string) string { return "koupsandbox-" + label }

// accountObjects returns the ServiceAccount with its roles and bindings. The permissions are the same as in the
// controller manifests.
func accountObjects(label string) ([]*unstructured.Unstructured, error) {
	objects, err := deploy.Objects()
	if err != nil {
		return nil, err
	}
	name := accountName(label)
	account := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": rbacv1.ServiceAccountKind}}
	account.SetName(name)
	account.SetNamespace(accountNamespace)
	for _, o := range objects {
		switch o.GetKind() {
		case "ClusterRole", "Role":
			o.SetName(name)
		case "ClusterRoleBinding", "RoleBinding":
			o.SetName(name)
			if err := unstructured.SetNestedField(o.Object, name, "roleRef", "name"); err != nil {
				return nil, err
			}
			o.Object["subjects"] = []any{
				map[string]any{"kind": rbacv1.ServiceAccountKind, "name": name, "namespace": accountNamespace}}
		}
	}
	return append([]*unstructured.Unstructured{account}, objects...), nil
}

// AuthorizeController creates a ServiceAccount with the permissions of a module controller, and a kubeconfig that
// contains a ServiceAccount token. It blocks until the API server accepts the token.
func (p *Provider) AuthorizeController(ctx context.Context) error {
	label, err := p.o.Dir.Label()
	if err != nil {
		return err
	}
	objects, err := accountObjects(label)
	if err != nil {
		return err
	}
	if err := cluster.Grant(ctx, p.Cluster(), objects, label); err != nil {
		return err
	}
	if err := p.renewToken(ctx, accountName(label)); err != nil {
		return err
	}
	if err := p.writeControllerKubeconfig(); err != nil {
		return err
	}
	return p.waitForPermissions(ctx)
}

// renewToken writes a new ServiceAccount token to a file. Clients reread the file every minute.
func (p *Provider) renewToken(ctx context.Context, account string) error {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tokenLifetime.Seconds()))}}
	response, err := p.client.CoreV1().ServiceAccounts(accountNamespace).CreateToken(ctx, account, request,
		metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("requesting a token for ServiceAccount %s/%s: %w", accountNamespace, account, err)
	}
	if err := state.WriteFile(p.o.Dir.ControllerToken(), []byte(response.Status.Token)); err != nil {
		return fmt.Errorf("writing the token of ServiceAccount %s/%s: %w", accountNamespace, account, err)
	}
	// The API server can shorten the lifetime. ExpirationTimestamp is not used, because the clocks may differ.
	lifetime := time.Duration(ptr.Deref(response.Spec.ExpirationSeconds, 0)) * time.Second
	now := time.Now().Round(0) // without the monotonic clock, which stops while the machine sleeps
	p.mu.Lock()
	defer p.mu.Unlock()
	p.account, p.renewAt = account, now.Add(lifetime/3)
	return nil
}

// Maintain renews the controllers' ServiceAccount token until ctx ends.
func (p *Provider) Maintain(ctx context.Context) error {
	ticker := time.NewTicker(tokenCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		p.mu.Lock()
		account, due := p.account, p.account != "" && time.Now().Round(0).After(p.renewAt)
		p.mu.Unlock()
		if !due {
			continue
		}
		if err := p.renewToken(ctx, account); err != nil && ctx.Err() == nil {
			p.o.Logger.Warn("could not renew the token of the controllers", "err", err)
		}
	}
}

// writeControllerKubeconfig writes a kubeconfig with the cluster from the selected context and a reference to the
// token file.
func (p *Provider) writeControllerKubeconfig() error {
	raw, err := clientcmd.LoadFromFile(p.o.Dir.Kubeconfig())
	if err == nil {
		err = clientcmdapi.MinifyConfig(raw)
	}
	if err != nil {
		return fmt.Errorf("copying context %q for the controllers: %w", p.o.Context, err)
	}
	raw.AuthInfos = map[string]*clientcmdapi.AuthInfo{
		raw.Contexts[raw.CurrentContext].AuthInfo: {TokenFile: p.o.Dir.ControllerToken()}}
	for _, c := range raw.Clusters { // the controllers do not inherit HTTPS_PROXY
		request, err := http.NewRequest(http.MethodGet, c.Server, nil)
		if err != nil {
			return fmt.Errorf("context %q: parsing the address of the API server: %w", p.o.Context, err)
		}
		if proxy, err := http.ProxyFromEnvironment(request); err == nil && proxy != nil && c.ProxyURL == "" {
			c.ProxyURL = proxy.String()
		}
	}
	if err := clientcmd.WriteToFile(*raw, p.o.Dir.ControllerKubeconfig()); err != nil {
		return fmt.Errorf("writing the kubeconfig of the controllers: %w", err)
	}
	return os.Chmod(p.o.Dir.ControllerKubeconfig(), 0o600)
}

// waitForPermissions sends requests with the controller kubeconfig until the API server allows them. It returns an
// error if ctx ends first.
func (p *Provider) waitForPermissions(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", p.o.Dir.ControllerKubeconfig())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the controllers: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for the cluster: %w", err)
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, permissionPoll, true, func(ctx context.Context) (bool, error) {
		_, last = client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsForbidden(last) { // the authorizer of the API server reads the bindings from a cache
			return false, nil
		}
		return true, last
	})
	switch {
	case apierrors.IsUnauthorized(last):
		return fmt.Errorf("the API server of context %q rejects ServiceAccount tokens (%w); run the "+
			"controllers in the cluster, with koupsandbox fleet up", p.o.Context, last)
	case last != nil:
		err = last
	}
	if err != nil {
		return fmt.Errorf("waiting for the permissions of ServiceAccount %s/%s: %w", accountNamespace, p.account, err)
	}
	return nil
}
