package existing

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// TestTokenRenewal checks that the token is renewed long before it expires, and that a failed renewal is retried.
func TestTokenRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := state.Dir(t.TempDir())
		p, err := New(Options{Owner: owner, Kubeconfig: kubeconfig(t, "http://127.0.0.1:1"), Context: "laptop",
			Dir: dir})
		check.Must(t, err)
		client := fake.NewClientset()
		p.client = client
		var failing atomic.Bool
		issued := 0
		client.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.GetSubresource() != "token" || failing.Load() {
				return true, nil, fmt.Errorf("%s/%s is unavailable", a.GetResource().Resource, a.GetSubresource())
			}
			issued++ // the clock of the API server is ahead
			return true, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
				ExpirationSeconds: ptr.To(int64(3600))}, Status: authenticationv1.TokenRequestStatus{
				Token: fmt.Sprint("token-", issued), ExpirationTimestamp: metav1.NewTime(time.Now().Add(9 * time.Hour)),
			}}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Maintain(ctx) }()
		token := func() string {
			synctest.Wait()
			text, err := os.ReadFile(dir.ControllerToken())
			if err != nil {
				return "none"
			}
			return string(text)
		}
		got := []string{token()}
		time.Sleep(time.Hour) // no account yet
		got = append(got, token())
		check.Must(t, p.renewToken(ctx, "account"))
		got = append(got, token())
		time.Sleep(19 * time.Minute)
		got = append(got, token())
		time.Sleep(2 * time.Minute)
		got = append(got, token())
		failing.Store(true)
		time.Sleep(25 * time.Minute)
		got = append(got, token())
		failing.Store(false)
		time.Sleep(time.Minute)
		got = append(got, token())
		if diff := cmp.Diff([]string{"none", "none", "token-1", "token-1", "token-2", "token-2", "token-3"},
			got); diff != "" {
			t.Errorf("tokens (-want +got):\n%s", diff)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestAccountObjects checks that the objects of two sandboxes have different names, and that each sandbox binds its
// ServiceAccount to its own roles.
func TestAccountObjects(t *testing.T) {
	objects, err := accountObjects("demo-1")
	check.Must(t, err)
	var got []string
	for _, o := range objects {
		role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		got = append(got, fmt.Sprint(o.GetKind(), " ", o.GetNamespace(), "/", o.GetName(), " ", role, " ", subjects))
	}
	want := []string{
		"ServiceAccount kube-system/koupsandbox-demo-1  []", "CustomResourceDefinition /modules.koupleless.io  []",
		"ClusterRole /koupsandbox-demo-1  []", "Role kube-node-lease/koupsandbox-demo-1  []",
		"ClusterRoleBinding /koupsandbox-demo-1 koupsandbox-demo-1 [map[kind:ServiceAccount name:koupsandbox-demo-1 " +
			"namespace:kube-system]]",
		"RoleBinding kube-node-lease/koupsandbox-demo-1 koupsandbox-demo-1 [map[kind:ServiceAccount " +
			"name:koupsandbox-demo-1 namespace:kube-system]]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// TestControllerKubeconfig checks that the controller kubeconfig contains the cluster from the selected context, but
// not the user's credentials.
func TestControllerKubeconfig(t *testing.T) {
	dir := state.Dir(t.TempDir())
	p, err := New(Options{Owner: owner, Kubeconfig: kubeconfig(t, "https://10.0.0.1"), Context: "laptop", Dir: dir})
	check.Must(t, err)
	check.Must(t, p.writeKubeconfig(t.Context()))
	check.Must(t, state.WriteFile(dir.ControllerToken(), []byte("t")))
	check.Must(t, p.writeControllerKubeconfig())
	config, err := clientcmd.BuildConfigFromFlags("", p.o.Dir.ControllerKubeconfig())
	check.Must(t, err)
	if config.Host != "https://10.0.0.1" || config.BearerToken != "t" ||
		config.BearerTokenFile != dir.ControllerToken() {
		t.Errorf("host %q, token %q, file %q", config.Host, config.BearerToken, config.BearerTokenFile)
	}
	if info, err := os.Stat(p.o.Dir.ControllerKubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file info: %v, %v", info, err)
	}
}
