package cli_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/cmd/koupsandbox/internal/cli"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// apiServer runs a fake API server with one Pod. It returns the path of a kubeconfig file with two contexts.
func apiServer(t *testing.T) string {
	t.Helper()
	answers := map[string]string{
		"/api/v1/namespaces/shop/pods/biz1": `{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "biz1", "namespace": "shop", "uid": "1",
			"labels": {"virtual-kubelet.koupleless.io/component": "module\u001b[2J"}}, "spec": {"tolerations": [{"key": "schedule.koupleless.io/virtual-node"}]}, "status": {"phase": "Pending"}}`,
		"/api/v1/nodes": `{"kind": "NodeList", "apiVersion": "v1", "items": []}`,
		"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases": `{"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "items": []}`,
		"/api/v1/namespaces/shop/events":                                 `{"kind": "EventList", "apiVersion": "v1", "items": []}`,
		"/api/v1/pods":                                                   `{"kind": "PodList", "apiVersion": "v1", "items": []}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("unexpected write: %s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		answer, found := answers[r.URL.Path]
		if !found {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`
		}
		_, _ = w.Write([]byte(answer)) // the client reports errors
	}))
	t.Cleanup(server.Close)
	config := `{"apiVersion": "v1", "kind": "Config", "current-context": "shop", "clusters": [{"name": "c", "cluster": {"server": "` + server.URL + `"}}],
		"contexts": [{"name": "shop", "context": {"cluster": "c", "namespace": "shop"}}, {"name": "plain", "context": {"cluster": "c"}}]}`
	file := filepath.Join(t.TempDir(), "config")
	check.Must(t, os.WriteFile(file, []byte(config), 0o600))
	return file
}

// TestWhy checks that why can query a cluster that does not belong to a sandbox, and that it escapes control
// characters from the cluster.
func TestWhy(t *testing.T) {
	file := apiServer(t)
	r := run(t, t.TempDir(), "why", "biz1", "--kubeconfig", file)
	want := result{0, `✗ the label virtual-kubelet.koupleless.io/component of the Pod is module\x1b[2J and not module, so the module controller ignores it.
→ label the Pod, or the metadata of its template, virtual-kubelet.koupleless.io/component: module.

ModuleLabelMissing of pod/biz1 in context shop
`, ""}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("as text (-want +got):\n%s", diff)
	}
	r = run(t, t.TempDir(), "why", "pod/biz1", "-n", "shop", "--context", "plain", "--kubeconfig", file, "-o", "json")
	var answer struct {
		Target   struct{ Kind, Namespace, Name string }
		Ready    bool
		Reason   string
		Evidence []struct{ About, Text string }
	}
	if err := json.Unmarshal([]byte(r.Out), &answer); err != nil || r.Code != 0 {
		t.Fatalf("as JSON: %v: %+v", err, r)
	}
	if answer.Reason != "ModuleLabelMissing" || answer.Target.Namespace != "shop" || answer.Target.Kind != "pod" ||
		answer.Evidence == nil {
		t.Errorf("as JSON: %s", r.Out)
	}
}

// TestWhyInSandbox checks that why reports the name of the sandbox, and that it prints a warning if KUBECONFIG selects
// another sandbox.
func TestWhyInSandbox(t *testing.T) {
	home, config := t.TempDir(), apiServer(t)
	text, err := os.ReadFile(config)
	check.Must(t, err)
	kubeconfig := map[string]string{}
	for _, name := range []string{"koup", "other"} {
		dir := state.Home(filepath.Join(home, ".koupsandbox")).Dir(name)
		check.Must(t, dir.Create())
		check.Must(t, os.WriteFile(dir.Kubeconfig(), text, 0o600))
		kubeconfig[name] = dir.Kubeconfig()
	}
	warning := `using sandbox "koup", not sandbox "other" of KUBECONFIG; ` +
		`to use it, add --kubeconfig "$KUBECONFIG"` + "\n"
	for _, tc := range []struct{ kubeconfig, flags, out, err string }{
		{kubeconfig["koup"], "", "ModuleLabelMissing of pod/biz1 in sandbox koup\n", ""},
		{config, "", "ModuleLabelMissing of pod/biz1 in sandbox koup\n", ""},
		{kubeconfig["other"], "", "ModuleLabelMissing of pod/biz1 in sandbox koup\n", warning},
		{kubeconfig["other"], " --name koup", "ModuleLabelMissing of pod/biz1 in sandbox koup\n", ""},
		{kubeconfig["other"], " -o json", `"sandbox": "koup"`, warning},
		{kubeconfig["koup"], " --language zh", "沙箱 koup 中 pod/biz1 的情形：ModuleLabelMissing\n", ""},
	} {
		r := runWith(t, home, map[string]string{"KUBECONFIG": tc.kubeconfig}, strings.Fields("why biz1"+tc.flags)...)
		if r.Code != 0 || !strings.Contains(r.Out, tc.out) || r.Err != tc.err {
			t.Errorf("why biz1%s with KUBECONFIG=%s: %+v; want %s%s", tc.flags, tc.kubeconfig, r, tc.out, tc.err)
		}
	}
}

// TestWhyAsPlugin checks that why, run as a kubectl plugin, queries the current cluster of kubectl.
func TestWhyAsPlugin(t *testing.T) {
	t.Setenv("KUBECONFIG", apiServer(t))
	var out, errOut bytes.Buffer
	code := cli.Run(t.Context(), cli.Streams{Out: &out, Err: &errOut, UserHome: t.TempDir()},
		[]string{"/usr/local/bin/kubectl-koupsandbox", "why", "biz1"})
	if code != 0 || !strings.Contains(out.String(), "ModuleLabelMissing of pod/biz1") {
		t.Errorf("exit status %d: %s%s", code, out.String(), errOut.String())
	}
}

// TestLintLive checks that lint --live can compare a manifest with a cluster that does not belong to a sandbox. The
// cluster in the test contains one Pod and no bases.
func TestLintLive(t *testing.T) {
	file, manifest := apiServer(t), filepath.Join(t.TempDir(), "biz1.yaml")
	write := func(text string) {
		check.Must(t, os.WriteFile(manifest, []byte(text), 0o600))
	}
	write(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "biz1", "labels": {"virtual-kubelet.koupleless.io/component": "module"}}, "spec": {
		"nodeSelector": {"base.koupleless.io/name": "base"}, "tolerations": [{"operator": "Exists"}],
		"containers": [{"name": "biz1", "image": "https://a/biz1-1.0.0-ark-biz.jar", "env": [{"name": "BIZ_VERSION", "value": "1.0.0"}]}]}}`)
	r := run(t, t.TempDir(), "scenario", "lint", manifest)
	if diff := cmp.Diff(result{}, r); diff != "" {
		t.Errorf("without a cluster (-want +got):\n%s", diff)
	}
	r = run(t, t.TempDir(), "scenario", "lint", "--live", "--kubeconfig", file, manifest)
	if lines := strings.Split(r.Out, "\n"); r.Code != 1 || r.Err != "" || len(lines) != 3 ||
		!strings.HasPrefix(lines[0], manifest+":1: Pod/biz1: error: ") ||
		!strings.HasSuffix(lines[0], " [live-nowhere]") ||
		!strings.HasPrefix(lines[1], manifest+":1: Pod/biz1: warning: ") ||
		!strings.HasSuffix(lines[1], " [live-unready]") || !strings.Contains(lines[1], `module\x1b[2J`) {
		t.Errorf("with a cluster: %+v", r)
	}
	r = run(t, t.TempDir(), "scenario", "lint", "--live", "--kubeconfig", file, "-n", "other", manifest, "-o", "json")
	if r.Code != 1 || strings.Contains(r.Out, "live-unready") || !strings.Contains(r.Out, "live-nowhere") {
		t.Errorf("in a namespace without the Pod: %+v", r)
	}
	for line, names := range map[string]string{
		"scenario lint M --context shop":              "--context --live",
		"scenario lint M --live --context x --name y": "--name --context --kubeconfig",
	} {
		run(t, t.TempDir(), strings.Fields(strings.ReplaceAll(line, "M", manifest))...).expect(t, 2,
			seeHelp("scenario lint"),
			names)
	}
	run(t, t.TempDir(), "scenario", "lint", manifest, "--live").expect(t, 1, "--context\n",
		`"koup" koupsandbox up --name koup`)
	write("apiVersion: sandbox.koupleless.io/v1alpha1\nkind: Scenario\n")
	r = run(t, t.TempDir(), "scenario", "lint", "--live", "--kubeconfig", file, manifest)
	r.expect(t, 2, seeHelp("scenario lint"), "scenarios")
}

// TestWhyErrors checks that each invalid command line prints one error message.
func TestWhyErrors(t *testing.T) {
	file := apiServer(t)
	for _, tc := range []struct {
		line       string
		code       int
		end, names string
	}{
		{"why", 2, seeHelp("why"), "Pod KIND/NAME"},
		{"why biz1", 1, "--context\n", `"koup" koupsandbox up --name koup`},
		{"why biz1 --name x --context shop", 2, seeHelp("why"), "--name --context --kubeconfig"},
		{"why bis1 --kubeconfig FILE", 1, "kubectl get pods -A\n", "pod/bis1 shop"},
		{"why biz1 --kubeconfig FILE --context plain", 1, "kubectl get pods -A\n", "pod/biz1 default"},
		{"why sevice/biz1 --kubeconfig FILE", 2, seeHelp("why"),
			`"sevice" pod, node, deployment, daemonset, statefulset`},
		{"why biz1 --kubeconfig FILE -o xml", 2, seeHelp("why"), `--output "xml" text, json`},
		{"why biz1 --kubeconfig FILE --context plane", 1, "plain?\n", `"plane"`},
	} {
		run(t, t.TempDir(), strings.Fields(strings.ReplaceAll(tc.line, "FILE", file))...).expect(t, tc.code, tc.end,
			tc.names)
	}
}
