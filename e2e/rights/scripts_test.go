package rights

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// scripted is a scenario whose script tells the test where its kubeconfig is, and waits for the test.
const scripted = `apiVersion: sandbox.koupleless.io/v1alpha1
kind: Scenario
metadata: {name: scripted}
spec:
  description: A script waits.
  vars: {folder: /nowhere}
  steps:
    - script:
        content: |
          printf '%s\n%s\n' "$KUBECONFIG" "$NAMESPACE" > "$FOLDER/new"
          mv "$FOLDER/new" "$FOLDER/told"
          until [ -e "$FOLDER/done" ]; do sleep 0.1; done
        env: {FOLDER: "${{ vars.folder }}"}
      timeout: 3m
`

// What a script step is given lets it edit the namespace of its run, and nothing else, for as long as the
// run goes on; nobody else reads it. Reports tell nothing of it.
func TestScripts(t *testing.T) {
	folder, private, reports := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "reports")
	file := filepath.Join(folder, "scripted.yaml")
	must(t, os.WriteFile(file, []byte(scripted), 0o600))
	must(t, os.Chmod(private, 0o700)) //nolint:gosec // a folder
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
	var told []string
	eventually(t, "the script runs", func(context.Context) error {
		select {
		case err := <-ended:
			t.Fatalf("the run has ended (%v):\n%s", err, out.String())
		default:
		}
		text, err := os.ReadFile(filepath.Join(folder, "told"))
		told = strings.Fields(string(text))
		return err
	})
	kubeconfig, ns := told[0], told[1]
	if !strings.HasPrefix(kubeconfig, private) || check.Private(t, private) < 3 {
		t.Errorf("the kubeconfig of scripts is not in %s: %s", private, kubeconfig)
	}
	given, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	scripts, err := kubernetes.NewForConfig(given)
	must(t, err)
	t.Run("may", func(t *testing.T) { mayEdit(t, scripts, ns) })
	t.Run("may not", func(t *testing.T) { mayNothingElse(t, scripts, ns) })

	must(t, os.WriteFile(filepath.Join(folder, "done"), nil, 0o600))
	must(t, <-ended)
	left, err := os.ReadDir(private)
	must(t, err)
	if len(left) > 0 {
		t.Errorf("the run has left %v", left)
	}
	eventually(t, "the identity is no more", func(ctx context.Context) error {
		if _, err := scripts.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			return errors.Join(errors.New("it is answered"), err)
		}
		return nil
	})
	shown(t, reports, given.BearerToken)
}

// mayEdit does what scripts do.
func mayEdit(t *testing.T, scripts kubernetes.Interface, ns string) {
	t.Helper()
	core, ctx := scripts.CoreV1(), t.Context()
	meta := metav1.ObjectMeta{Name: "scripts-own"}
	_, err := core.ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
	must(t, err)
	_, err = core.Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{})
	must(t, err)
	_, err = core.Secrets(ns).Get(ctx, meta.Name, metav1.GetOptions{})
	must(t, err)
	_, err = scripts.AppsV1().Deployments(ns).Create(ctx, module.Deployment(ns, meta.Name, 0, module.Template(meta.Name, module.Container(meta.Name, "1.0.0"))), metav1.CreateOptions{})
	must(t, err)
	_, err = scripts.AppsV1().Deployments(ns).Patch(ctx, meta.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	must(t, err)
	_, err = core.Pods(ns).List(ctx, metav1.ListOptions{})
	must(t, err)
	must(t, scripts.AppsV1().Deployments(ns).Delete(ctx, meta.Name, metav1.DeleteOptions{}))
}

// mayNothingElse tries what would lead a script out of its namespace, or to more rights in it.
func mayNothingElse(t *testing.T, scripts kubernetes.Interface, ns string) {
	t.Helper()
	core, ctx, list, create := scripts.CoreV1(), t.Context(), metav1.ListOptions{}, metav1.CreateOptions{}
	meta := metav1.ObjectMeta{Name: "scripts-own"}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "more"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "scripts"}},
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, list)
	must(t, err)
	for what, do := range map[string]func() error{
		"secrets of kube-system": func() error { _, err := core.Secrets(metav1.NamespaceSystem).List(ctx, list); return err },
		"secrets everywhere":     func() error { _, err := core.Secrets("").List(ctx, list); return err },
		"pods everywhere":        func() error { _, err := core.Pods("").List(ctx, list); return err },
		"a Deployment elsewhere": func() error {
			_, err := scripts.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{ObjectMeta: meta}, create)
			return err
		},
		"leases of nodes": func() error {
			_, err := scripts.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, list)
			return err
		},
		"nodes":  func() error { _, err := core.Nodes().List(ctx, list); return err },
		"a node": func() error { _, err := core.Nodes().Get(ctx, nodes.Items[0].Name, metav1.GetOptions{}); return err },
		"a node's labels": func() error {
			_, err := core.Nodes().Patch(ctx, nodes.Items[0].Name, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
			return err
		},
		"namespaces": func() error { _, err := core.Namespaces().List(ctx, list); return err },
		"a new namespace": func() error {
			_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta}, create)
			return err
		},
		"the end of its own one": func() error { return core.Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}) },
		"a binding to more":      func() error { _, err := scripts.RbacV1().RoleBindings(ns).Create(ctx, binding, create); return err },
		"its own binding": func() error {
			return scripts.RbacV1().RoleBindings(ns).Delete(ctx, "scripts", metav1.DeleteOptions{})
		},
		"a role": func() error {
			_, err := scripts.RbacV1().Roles(ns).Create(ctx, &rbacv1.Role{ObjectMeta: meta}, create)
			return err
		},
		"a binding for all": func() error {
			_, err := scripts.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: binding.RoleRef}, create)
			return err
		},
		"a token of another namespace": func() error {
			_, err := core.ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
			return err
		},
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: answered %v, want that it is forbidden", what, err)
		}
	}
}

// shown looks for what is secret in what is made to be shown.
func shown(t *testing.T, folder, token string) {
	t.Helper()
	secrets := map[string]string{"a private key": "PRIVATE KEY-----", "a key of a kubeconfig": "client-key-data", "the token of scripts": token}
	broker, err := shared.Broker()
	must(t, err)
	secrets["the broker's password of the controller"], secrets["the broker's password of bases"] = broker.Passwords.Controller, broker.Passwords.Base
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
				return errors.New("nobody knows " + what)
			case bytes.Contains(text, []byte(secret)):
				t.Errorf("%s has %s", path, what)
			}
		}
		return nil
	}))
	if files != 4 {
		t.Errorf("there are %d reports, want 4", files)
	}
	text, err := os.ReadFile(filepath.Join(folder, "report.json"))
	must(t, err)
	var r struct {
		Runs []struct{ Verdict scenario.Verdict }
	}
	must(t, json.Unmarshal(text, &r))
	if len(r.Runs) != 1 || r.Runs[0].Verdict != scenario.Passed {
		t.Errorf("the report tells of %+v", r.Runs)
	}
}
