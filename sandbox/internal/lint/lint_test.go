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
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
	"github.com/koupleless/koupsandbox/sandbox/internal/lint"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// findings returns the findings for a file, and the same findings as text in the language l.
func findings(t *testing.T, file string, l language.Language) ([]lint.Finding, string) {
	t.Helper()
	text, err := os.ReadFile(file)
	check.Must(t, err)
	inputs := []lint.Input{{Name: filepath.Base(file), Text: text}}
	found := lint.Lint(inputs, lint.Options{Env: "dev", Language: l}).Findings
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintln(&b, f)
	}
	return found, b.String()
}

// TestFindings compares the English findings for each testdata/x.yaml with testdata/x.txt, and the Chinese findings
// with testdata/x.zh.txt. Together, the files must cause a finding of every rule.
func TestFindings(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files found: %v", err)
	}
	shown := map[string]bool{}
	for _, file := range files {
		for l, extension := range map[language.Language]string{language.English: ".txt", language.Chinese: ".zh.txt"} {
			t.Run(filepath.Base(file)+"/"+string(l), func(t *testing.T) {
				found, got := findings(t, file, l)
				for _, f := range found {
					shown[f.Rule] = true
				}
				golden := strings.TrimSuffix(file, ".yaml") + extension
				if *update {
					check.Must(t, os.WriteFile(golden, []byte(got), 0o644))
				}
				want, err := os.ReadFile(golden)
				check.Must(t, err)
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("findings differ; rewrite the file with -update (-want +got):\n%s", diff)
				}
			})
		}
	}
	for _, rule := range lint.Rules() {
		if !shown[rule.ID] && !strings.HasPrefix(rule.ID, "live-") { // TestLive covers the rules that need a cluster
			t.Errorf("no file has a finding of the rule %s", rule.ID)
		}
	}
}

// TestLintFindsMistakesOfDocumentation checks that Lint reports the known mistakes in the examples of the Koupleless
// documentation.
func TestLintFindsMistakesOfDocumentation(t *testing.T) {
	for file, want := range map[string][]string{
		"document-release": {"selector-mismatch", "toleration-env", "label-older"},
		"document-peer":    {"toleration-env", "label-older", "topology-zone"},
		"document-pod":     {"node-label-older", "toleration-other-env"},
	} {
		found, _ := findings(t, "testdata/"+file+".yaml", language.English)
		for _, rule := range want {
			if !slices.ContainsFunc(found, func(f lint.Finding) bool { return f.Rule == rule && f.Line > 0 }) {
				t.Errorf("%s: no finding of the rule %s", file, rule)
			}
		}
	}
}

func TestSamplesHaveNoFindings(t *testing.T) {
	for _, name := range []string{"module-deployment", "module-deployment-peer", "module-pod"} {
		text, err := deploy.Samples.ReadFile("samples/" + name + ".yaml")
		check.Must(t, err)
		if got := lint.Lint([]lint.Input{{Name: name, Text: text}}, lint.Options{Env: "dev"}).Findings; len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestNodeLabels checks that package labels knows all labels of a sample Node of a base.
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
		t.Errorf("labels.NodeLabels lacks labels of the sample: %q", missing)
	}
	// The sample is of a base that reports no host name, no cluster name and no port.
	optional := []string{labels.BaseCluster, labels.BaseHost, labels.TunnelPort, corev1.LabelHostname,
		"kubernetes.io/role", "type"}
	for _, key := range labels.NodeLabels {
		if _, has := objects[0].GetLabels()[key]; !has && !slices.Contains(optional, key) {
			t.Errorf("labels.NodeLabels has %s, which the sample does not have", key)
		}
	}
}

func TestSameVersionWithOtherJarInAnotherFile(t *testing.T) {
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
	check.ContainsWords(t, got[0].Message,
		"biz1 1.0.0 https://b/biz1-1.0.0-ark-biz.jar https://a/biz1-1.0.0-ark-biz.jar Pod/p")
}

// TestRules checks that every rule is complete and that the rules are sorted, as the binary search requires.
func TestRules(t *testing.T) {
	rules := lint.Rules()
	if !slices.IsSortedFunc(rules, func(a, b lint.Rule) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("rules are not sorted by ID")
	}
	for _, r := range rules {
		if r.Title == "" || r.Explanation == "" ||
			!slices.Contains([]lint.Level{lint.Error, lint.Warning, lint.Info}, r.Level) {
			t.Errorf("rule is incomplete: %+v", r)
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

func TestExcerptOfLongLineIsOmitted(t *testing.T) {
	for _, n := range []int{10, 10000} {
		text := "a: {" + strings.Repeat("b, ", n) + "]"
		found := lint.Lint([]lint.Input{{Name: "a.yaml", Text: []byte(text)}}, lint.Options{}).Findings
		if len(found) == 0 || (found[0].Excerpt == "") != (n > 10) {
			t.Errorf("findings of a line of %d bytes: %.300v", len(text), found)
		}
	}
}

// TestKustomizePatchesAreNotChecked checks that Lint skips files that a Kustomization lists as patches, and that it
// reports the Kustomization as not checked.
func TestKustomizePatchesAreNotChecked(t *testing.T) {
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
