package lint_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/lint"
)

var update = flag.Bool("update", false, "write the golden files anew")

// lines returns the findings of a file, as they are printed.
func lines(t *testing.T, file string) ([]lint.Finding, string) {
	t.Helper()
	text, err := os.ReadFile(file)
	check.Must(t, err)
	findings := lint.Lint([]lint.Input{{Name: filepath.Base(file), Text: text}}, lint.Options{Env: "dev"}).Findings
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintln(&b, f)
	}
	return findings, b.String()
}

// Each testdata/x.yaml gives exactly the lines of x.txt, and together they show every rule.
func TestFindings(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files found: %v", err)
	}
	shown := map[string]bool{}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			findings, got := lines(t, file)
			for _, f := range findings {
				shown[f.Rule] = true
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				check.Must(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			check.Must(t, err)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("findings; write them anew with -update (-want +got):\n%s", diff)
			}
		})
	}
	for _, rule := range lint.Rules() {
		if !shown[rule.ID] && !strings.HasPrefix(rule.ID, "live-") { // those take a cluster: TestLive
			t.Errorf("no file shows the rule %s", rule.ID)
		}
	}
}

// The four mistakes of the documents' own examples are found.
func TestDocuments(t *testing.T) {
	for file, want := range map[string][]string{
		"document-release": {"selector-mismatch", "toleration-env", "label-older"},
		"document-peer":    {"toleration-env", "label-older", "topology-zone"},
		"document-pod":     {"node-label-older", "toleration-other-env"},
	} {
		findings, _ := lines(t, "testdata/"+file+".yaml")
		for _, rule := range want {
			if !slices.ContainsFunc(findings, func(f lint.Finding) bool { return f.Rule == rule && f.Line > 0 }) {
				t.Errorf("%s: %s is not found", file, rule)
			}
		}
	}
}

// The corrected examples have nothing wrong with them.
func TestSamples(t *testing.T) {
	for _, name := range []string{"module-deployment", "module-deployment-peer", "module-pod"} {
		text, err := deploy.Samples.ReadFile("samples/" + name + ".yaml")
		check.Must(t, err)
		if got := lint.Lint([]lint.Input{{Name: name, Text: text}}, lint.Options{Env: "dev"}).Findings; len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// NodeLabels agrees with the sample of a Node of a base.
func TestNodeLabels(t *testing.T) {
	text, err := deploy.Samples.ReadFile("samples/vnode.yaml")
	check.Must(t, err)
	objects, err := deploy.Parse(text)
	check.Must(t, err)
	var missing []string
	for key := range objects[0].GetLabels() {
		if !labels.IsNodeLabel(key) {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		t.Errorf("the Node of a base has labels that lint does not know: %q", missing)
	}
	// The sample is of a base that reports no host name, no cluster name and no port.
	optional := []string{labels.BaseCluster, labels.BaseHost, labels.TunnelPort, corev1.LabelHostname,
		"kubernetes.io/role", "type"}
	for _, key := range labels.NodeLabels {
		if _, has := objects[0].GetLabels()[key]; !has && !slices.Contains(optional, key) {
			t.Errorf("lint knows the label %s, which the Node of a base does not have", key)
		}
	}
}

// What one file releases, another must not release again as another jar.
func TestAcrossFiles(t *testing.T) {
	pod := func(image string) []byte {
		return []byte(`apiVersion: v1
kind: Pod
metadata: {name: p, labels: {virtual-kubelet.koupleless.io/component: module}}
spec:
  nodeSelector: {base.koupleless.io/name: base}
  tolerations: [{operator: Exists}]
  containers: [{name: biz1, image: "` + image + `", env: [{name: BIZ_VERSION, value: 1.0.0}]}]
`)
	}
	got := lint.Lint([]lint.Input{
		{Name: "z.yaml", Text: pod("https://a/biz1-1.0.0-ark-biz.jar")},
		{Name: "a.yaml", Text: pod("https://b/biz1-1.0.0-ark-biz.jar")},
	}, lint.Options{}).Findings
	want := []lint.Finding{{Rule: "version-again", Level: lint.Error, File: "a.yaml", Line: 7, Object: "Pod/p"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(lint.Finding{}, "Message", "Fix")); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	check.ContainsWords(t, got[0].Message, "biz1 1.0.0 https://b/biz1-1.0.0-ark-biz.jar https://a/biz1-1.0.0-ark-biz.jar Pod/p")
}

// Every rule says what is right, why, and is in order, so that it is found.
func TestRules(t *testing.T) {
	rules := lint.Rules()
	if !slices.IsSortedFunc(rules, func(a, b lint.Rule) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("the rules are not sorted by their ids")
	}
	for _, r := range rules {
		if r.Title == "" || r.Explanation == "" ||
			!slices.Contains([]lint.Level{lint.Error, lint.Warning, lint.Info}, r.Level) {
			t.Errorf("%+v is not whole", r)
		}
	}
}

func FuzzLint(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		lint.Lint([]lint.Input{{Name: "f", Text: text}}, lint.Options{Env: "dev"})
	})
}

// The excerpt of a long line is left out.
func TestLongLine(t *testing.T) {
	for _, n := range []int{10, 10000} {
		text := "a: {" + strings.Repeat("b, ", n) + "]"
		findings := lint.Lint([]lint.Input{{Name: "a.yaml", Text: []byte(text)}}, lint.Options{}).Findings
		if len(findings) == 0 || (findings[0].Excerpt == "") != (n > 10) {
			t.Errorf("a line of %d bytes: %.300v", len(text), findings)
		}
	}
}

// Patches of a Kustomization are not checked as objects, and a finding states that.
func TestKustomize(t *testing.T) {
	patch := []byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: stock}\nspec: {template: {spec: " +
		"{containers: [{name: stock, env: [{name: BIZ_VERSION, value: 2.0.0}]}]}}}\n")
	kustomization := []byte("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\npatches: [{path: " +
		"patch.yaml}]\n" +
		"patchesStrategicMerge: [../merge.yaml]\npatchesJson6902: [{path: json.yaml}]\n")
	report := lint.Lint([]lint.Input{
		{Name: "shop/dev/json.yaml", Text: []byte("- {op: remove, path: /spec}\n")},
		{Name: "shop/dev/kustomization.yaml", Text: kustomization},
		{Name: "shop/dev/patch.yaml", Text: patch}, {Name: "shop/merge.yaml", Text: patch},
	}, lint.Options{})
	if f := report.Findings; len(f) != 1 || f[0].Rule != lint.NotChecked ||
		!strings.Contains(f[0].Fix, "kubectl kustomize") {
		t.Errorf("findings: %v", f)
	}
}
