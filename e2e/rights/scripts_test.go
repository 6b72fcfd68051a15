package rights

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// scripted is a scenario with a script step. The script writes the path of its kubeconfig to a file, and waits until
// the test creates another file.
const scripted = `apiVersion: sandbox.koupleless.io/v1alpha1
kind: Scenario
metadata: {name: scripted}
spec:
  description: A script waits for the test.
  vars: {folder: /nowhere}
  steps:
    - script:
        content: |
          printf '%s\n%s\n' "$KUBECONFIG" "$NAMESPACE" > "$FOLDER/new"
          mv "$FOLDER/new" "$FOLDER/started"
          until [ -e "$FOLDER/done" ]; do sleep 0.1; done
        env: {FOLDER: "${{ vars.folder }}"}
      timeout: 3m
`

// TestScripts checks that a script step can edit only the namespace of its run, and only until the run ends. It also
// checks that only the user can read the kubeconfig of the script, and that reports do not contain its token.
func TestScripts(t *testing.T) {
	folder, private, reports := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "reports")
	file := filepath.Join(folder, "scripted.yaml")
	must(t, os.WriteFile(file, []byte(scripted), 0o600))
	must(t, os.Chmod(private, 0o700)) //nolint:gosec // a directory
	cmd := shared.Command(t.Context(), "scenario", "run", "--var", "folder="+folder, "--report-dir", reports, file)
	cmd.Env = append(cmd.Env, "TMPDIR="+private)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	umask := syscall.Umask(0)
	err := cmd.Start()
	syscall.Umask(umask)
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var fields []string
	eventually(t, "the script runs", func(context.Context) error {
		select {
		case err := <-ended:
			t.Fatalf("the run ended before the script started (%v):\n%s", err, out.String())
		default:
		}
		text, err := os.ReadFile(filepath.Join(folder, "started"))
		fields = strings.Fields(string(text))
		return err
	})
	kubeconfig, ns := fields[0], fields[1]
	if !strings.HasPrefix(kubeconfig, private) || check.Private(t, private) < 3 {
		t.Errorf("the kubeconfig of scripts is not in %s: %s", private, kubeconfig)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	scripts, err := kubernetes.NewForConfig(config)
	must(t, err)
	requireAllowed(t, scripts, ns, "create configmaps", "create secrets", "get secrets", "create deployments.apps",
		"patch deployments.apps", "delete deployments.apps", "list pods")
	requireForbidden(t, scripts, ns, "create roles.rbac.authorization.k8s.io",
		"create rolebindings.rbac.authorization.k8s.io",
		"delete rolebindings.rbac.authorization.k8s.io")
	requireForbidden(t, scripts, metav1.NamespaceDefault, "list secrets", "create deployments.apps",
		"get serviceaccounts")
	requireForbidden(t, scripts, corev1.NamespaceNodeLease, "list leases.coordination.k8s.io")
	requireForbidden(t, scripts, "", "list secrets", "list pods", "list nodes", "get nodes", "patch nodes",
		"list namespaces",
		"create namespaces", "delete namespaces",
		"create clusterrolebindings.rbac.authorization.k8s.io")

	must(t, os.WriteFile(filepath.Join(folder, "done"), nil, 0o600))
	must(t, <-ended)
	left, err := os.ReadDir(private)
	must(t, err)
	if len(left) > 0 {
		t.Errorf("files after the run: %v", left)
	}
	eventually(t, "the token is invalid", func(ctx context.Context) error {
		if _, err := scripts.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("listing Pods: %w", err)
		}
		return nil
	})
	requireNoSecrets(t, reports, config.BearerToken)
}

// requireAllowed checks that a client has the permissions in a namespace, or in the whole cluster if namespace is
// empty. A permission consists of a verb and a resource, for example "create deployments.apps".
func requireAllowed(t *testing.T, c kubernetes.Interface, namespace string, permissions ...string) {
	t.Helper()
	requireDecision(t, c, namespace, true, permissions)
}

// requireForbidden checks that a client has none of the permissions in a namespace, or in the whole cluster if
// namespace is empty.
func requireForbidden(t *testing.T, c kubernetes.Interface, namespace string, permissions ...string) {
	t.Helper()
	requireDecision(t, c, namespace, false, permissions)
}

// requireDecision checks that the API server allows all of the permissions if want is true, and none of them if want
// is false.
func requireDecision(t *testing.T, c kubernetes.Interface, namespace string, want bool, permissions []string) {
	t.Helper()
	for _, permission := range permissions {
		verb, resource, _ := strings.Cut(permission, " ")
		resource, group, _ := strings.Cut(resource, ".")
		review, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb,
						Group: group, Resource: resource}},
			}, metav1.CreateOptions{})
		must(t, err)
		if review.Status.Allowed != want {
			t.Errorf("%s in namespace %q: allowed %t, want %t", permission, namespace, review.Status.Allowed, want)
		}
	}
}

// requireNoSecrets fails the test if a report contains a secret, or if the run did not pass.
func requireNoSecrets(t *testing.T, folder, token string) {
	t.Helper()
	secrets := map[string]string{"a private key": "PRIVATE KEY-----", "a key of a kubeconfig": "client-key-data",
		"the token of scripts": token}
	broker, err := shared.Broker()
	must(t, err)
	secrets["the broker's password of "+
		"the controller"], secrets["the broker's password of bases"] = broker.Passwords.Controller,
		broker.Passwords.Base
	files := 0
	must(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for what, secret := range secrets {
			switch {
			case secret == "":
				return errors.New("unknown: " + what)
			case bytes.Contains(text, []byte(secret)):
				t.Errorf("%s contains %s", path, what)
			}
		}
		return nil
	}))
	if files != 4 {
		t.Errorf("%d reports, want 4", files)
	}
	text, err := os.ReadFile(filepath.Join(folder, "report.json"))
	must(t, err)
	var r struct {
		Runs []struct {
			Result scenario.Result `json:"verdict"`
		}
	}
	must(t, json.Unmarshal(text, &r))
	if len(r.Runs) != 1 || r.Runs[0].Result != scenario.Passed {
		t.Errorf("runs in the report: %+v, want one passed run", r.Runs)
	}
}
