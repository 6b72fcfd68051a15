package shipped

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const (
	patience = check.Patience
	// namespace is where the manifests put the controller.
	namespace = "koupleless-system"
	// account is the ServiceAccount of the manifests.
	account = "module-controller"
	// userContext is the context in userKubeconfig.
	userContext = "cluster"
)

// State that all tests share; bringUp sets it.
var (
	programs string // directory of the built binaries
	home     string // short path for the state of sandboxes
	cluster  *box.Box
	config   *rest.Config // the permissions of an administrator
	client   kubernetes.Interface
	// userKubeconfig is the file that a user passes to koupsandbox; controllerKubeconfig has the permissions of the manifests.
	userKubeconfig, controllerKubeconfig string

	must = check.Must
)

// atOnce is the number of tests that run in parallel. The tests wait most of the time. TestCoexistence runs alone.
const atOnce = 5

func TestMain(m *testing.M) { os.Exit(box.Main(m, "shipped", atOnce, bringUp)) }

// bringUp starts an embedded cluster and removes its ownership marker, so that koupsandbox treats it as an existing
// cluster. The cluster's own controller and base use an environment that no test uses.
func bringUp(ctx context.Context, b *box.Box) error {
	programs, home, cluster = b.Bin, b.Home, b
	one := 1
	if err := cluster.Up(ctx, v1alpha1.Spec{Env: "unused", Bases: v1alpha1.Bases{Count: &one}}); err != nil {
		return err
	}
	var err error
	if config, err = cluster.REST(); err != nil {
		return err
	}
	if client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(ctx, "koupsandbox", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("removing the ownership marker: %w", err)
	}
	return errors.Join(apply(ctx), writeKubeconfigs(ctx))
}

// apply creates the objects of the manifests that give the controller its permissions.
func apply(ctx context.Context) error {
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, file := range []string{"namespace.yaml", "crd.yaml", "clusterrole.yaml", "role.yaml", "serviceaccount.yaml", "bindings.yaml"} {
		text, err := deploy.FS.ReadFile(file)
		if err != nil {
			return err
		}
		objects, err := deploy.Parse(text)
		if err != nil {
			return err
		}
		for _, object := range objects {
			resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
			var target dynamic.ResourceInterface = dynamicClient.Resource(resource)
			if ns := object.GetNamespace(); ns != "" {
				target = dynamicClient.Resource(resource).Namespace(ns)
			}
			_, err := target.Create(ctx, object, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				err = adopt(ctx, target, object)
			}
			if err != nil {
				return fmt.Errorf("applying %s: %w", file, err)
			}
		}
	}
	return nil
}

// adopt makes the user the owner of an object in the embedded cluster: it removes the label of the sandbox, and
// adds the subjects in the manifest to a binding.
func adopt(ctx context.Context, target dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	live, err := target.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	live.SetLabels(object.GetLabels())
	if subjects, ok, _ := unstructured.NestedSlice(object.Object, "subjects"); ok {
		old, _, _ := unstructured.NestedSlice(live.Object, "subjects")
		if err := unstructured.SetNestedSlice(live.Object, append(old, subjects...), "subjects"); err != nil {
			return err
		}
	}
	_, err = target.Update(ctx, live, metav1.UpdateOptions{})
	return err
}

// writeKubeconfigs writes userKubeconfig and controllerKubeconfig.
func writeKubeconfigs(ctx context.Context) error {
	raw, err := clientcmd.LoadFromFile(filepath.Join(cluster.Folder(), "kubeconfig"))
	if err != nil {
		return err
	}
	if err := clientcmdapi.MinifyConfig(raw); err != nil {
		return err
	}
	now := raw.Contexts[raw.CurrentContext]
	raw.Contexts = map[string]*clientcmdapi.Context{userContext: now}
	raw.CurrentContext = ""
	userKubeconfig, controllerKubeconfig = filepath.Join(home, "user.kubeconfig"), filepath.Join(home, "controller.kubeconfig")
	if err := clientcmd.WriteToFile(*raw, userKubeconfig); err != nil {
		return err
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("requesting a token for the controller: %w", err)
	}
	raw.AuthInfos[now.AuthInfo] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	raw.CurrentContext = userContext
	return clientcmd.WriteToFile(*raw, controllerKubeconfig)
}

var eventually = check.Soon
