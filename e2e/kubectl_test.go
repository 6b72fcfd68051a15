package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// deployment is the name of the Deployment in the sample manifest.
const deployment = "test-module-deployment"

// Row is a command in docs/en/reference/kubectl.md: a row of the table, or a line of the block of commands that work as
// usual. A command with the verdict "refused" prints Sentence; if Waits is true, it then runs until Ctrl-C.
type Row struct {
	Command, Verdict, Sentence string
	Waits                      bool
}

var (
	cells   = regexp.MustCompile("(?m)^(?:(kubectl .+)|\\| `(kubectl [^`]+)` \\| ([^|]+) \\|(.*) \\|)$")
	quoted  = regexp.MustCompile("`([^`]+)`")
	chinese = map[string]string{"可用": "works", "不同": "differs", "拒绝": "refused"}
)

// rows returns the rows of the kubectl page in the given language.
func rows(t *testing.T, language string) (list []Row) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", language, "reference", "kubectl.md"))
	must(t, err)
	for _, m := range cells.FindAllStringSubmatch(string(page), -1) {
		r := Row{Command: cmp.Or(m[1], m[2]), Verdict: cmp.Or(chinese[m[3]], m[3], "works")}
		if sentence := quoted.FindStringSubmatch(m[4]); sentence != nil && r.Verdict == "refused" {
			r.Sentence, r.Waits = sentence[1], strings.Contains(m[4], "Ctrl-C")
		}
		list = append(list, r)
	}
	return list
}

// outputs contains a text that each command must print. If after is not empty, kubectl with the arguments in after
// must eventually print later.
var outputs = map[string]struct {
	text  string
	after []string
	later string
}{
	"kubectl get nodes -o wide":                  {text: "agent,base-1 "},
	"kubectl describe node NODE":                 {text: "InternalIP:   198.18."},
	"kubectl get pods -o wide":                   {text: "Running"},
	"kubectl wait --for=condition=Ready pod/POD": {text: "condition met"},
	"kubectl events":                             {text: "Successfully assigned"},
	"kubectl get module":                         {text: "Available"},
	"kubectl label pod POD a=b": {text: "labeled",
		after: []string{"get", "pod/POD", "-o", "jsonpath={.metadata.labels.a}"}, later: "b"},
	"kubectl annotate pod POD a=b": {text: "annotated",
		after: []string{"get", "pod/POD", "-o", "jsonpath={.metadata.annotations.a}"}, later: "b"},
	"kubectl label node NODE a=b": {text: "labeled",
		after: []string{"get", "node", "-l", "a=b", "-o", "name"}, later: "node/NODE"},
	"kubectl taint node NODE a=b:NoSchedule": {text: "tainted",
		after: []string{"get", "node/NODE", "-o", "jsonpath={.spec.taints[*].key}"},
		later: "schedule.koupleless.io/virtual-node"},
	"kubectl taint node NODE a-": {text: "untainted"},
	"kubectl scale deployment/DEPLOYMENT --replicas=2": {text: "scaled",
		after: []string{"get", "deployment/DEPLOYMENT", "-o", "jsonpath={.status.readyReplicas}"}, later: "2"},
	"kubectl rollout status deployment/DEPLOYMENT":  {text: "successfully rolled out"},
	"kubectl rollout history deployment/DEPLOYMENT": {text: "REVISION"},
	"kubectl cordon NODE": {text: "cordoned", after: []string{"get", "node/NODE"},
		later: "Ready,SchedulingDisabled"},
	"kubectl drain NODE": {text: "drained",
		after: []string{"get", "pods", "--field-selector", "spec.nodeName=NODE"}, later: "No resources found"},
	"kubectl uncordon NODE": {text: "uncordoned",
		after: []string{"get", "node/NODE", "-o", "jsonpath=[{.spec.unschedulable}]"}, later: "[]"},
	"kubectl edit deployment/DEPLOYMENT": {text: "edited",
		after: []string{"get", "pods", "-o", "jsonpath={.items[*].status.containerStatuses[*].containerID}"},
		later: ":biz1:0.0.2"},
	"kubectl rollout undo deployment/DEPLOYMENT": {text: "rolled back",
		after: []string{"get", "deployment/DEPLOYMENT", "-o",
			"jsonpath={.status.updatedReplicas}{.status.readyReplicas}{.status.replicas}"}, later: "222"},
	"kubectl rollout restart deployment/DEPLOYMENT": {text: "restarted",
		after: []string{"get", "pods", "-o", "jsonpath={.items[*].status.conditions[*].reason}"}, later: "Unchanged"},
	"kubectl logs POD":               {text: "is activated: STARTED"},
	"kubectl exec POD -- ark health": {text: "METASPACE USED"},
	"kubectl delete pod POD --force --grace-period=0": {text: "force deleted",
		after: []string{"get", "deployment/DEPLOYMENT", "-o", "jsonpath={.status.readyReplicas}"}, later: "2"},
	"kubectl set image deployment/DEPLOYMENT biz1=https://example.com/biz1-2-ark-biz.jar": {text: "image updated",
		after: []string{"get", "events"}, later: "SameVersionReplaced"},
}

// TestKubectl runs the commands of the kubectl page in order, and checks their output. POD, NODE and DEPLOYMENT in a
// command stand for existing objects.
func TestKubectl(t *testing.T) {
	page := rows(t, "en")
	var named []string
	for _, r := range page {
		if r.Verdict != "refused" {
			named = append(named, r.Command)
		}
	}
	slices.Sort(named)
	if diff := gocmp.Diff(slices.Sorted(maps.Keys(outputs)), named); diff != "" {
		t.Fatalf("commands with the verdict works or differs (-test +page):\n%s", diff)
	}
	file, err := filepath.Abs("../controller/deploy/samples/module-deployment.yaml")
	must(t, err)
	status, out := runKubectl(t.Context(), t, "apply", "-f", file)
	if status == 0 {
		status, out = runKubectl(t.Context(), t, "rollout", "status", "deployment/"+deployment)
	}
	if status != 0 {
		t.Fatal(out)
	}
	var cordoned func([]string) []string
	for _, r := range page {
		t.Run(r.Command, func(t *testing.T) {
			resolve := nameResolver(t)
			switch r.Command {
			case "kubectl cordon NODE":
				cordoned = resolve
			case "kubectl drain NODE", "kubectl uncordon NODE":
				resolve = cordoned // the same Node, although the Pods may now be on another one
			case "kubectl rollout restart deployment/DEPLOYMENT":
				cordonOtherNodes(t)
			}
			args := resolve(strings.Fields(r.Command)[1:])
			if r.Verdict == "refused" {
				requireRefused(t, args, r)
				return
			}
			want := outputs[r.Command]
			status, out := runKubectl(t.Context(), t, args...)
			if status != 0 || !strings.Contains(out, want.text) {
				t.Fatalf("exit status %d, and the output does not contain %q:\n%s", status, want.text, out)
			}
			if want.after == nil {
				return
			}
			later := resolve([]string{want.later})[0]
			eventually(t, strings.Join(want.after, " ")+" prints "+later, func(ctx context.Context) error {
				if status, out := runKubectl(ctx, t, resolve(want.after)...); status != 0 ||
					!strings.Contains(out, later) {
					return fmt.Errorf("exit status %d: %s", status, out)
				}
				return nil
			})
		})
	}
}

// TestChinesePage checks that the Chinese kubectl page contains the same commands and sentences as the English page.
func TestChinesePage(t *testing.T) {
	if diff := gocmp.Diff(rows(t, "en"), rows(t, "zh")); diff != "" {
		t.Errorf("rows (-en +zh):\n%s", diff)
	}
}

// nameResolver returns a function that replaces POD, NODE and DEPLOYMENT with the names of a Ready Pod, its Node and
// its Deployment.
func nameResolver(t *testing.T) func([]string) []string {
	t.Helper()
	var names *strings.Replacer
	eventually(t, "a Pod is Ready", func(ctx context.Context) error {
		_, all := runKubectl(ctx, t, "get", "pods", "-l", "app="+deployment, "-o",
			`jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName} {.status.conditions[?(@.type=="Ready")].status} {.metadata.deletionTimestamp}{"\n"}{end}`)
		for line := range strings.Lines(all) {
			if f := strings.Fields(line); len(f) == 3 && f[2] == "True" {
				names = strings.NewReplacer("POD", f[0], "NODE", f[1], "DEPLOYMENT", deployment)
				return nil
			}
		}
		return fmt.Errorf("Pods:\n%s", all)
	})
	return func(words []string) []string {
		var list []string
		for _, w := range words {
			list = append(list, names.Replace(w))
		}
		return list
	}
}

// cordonOtherNodes cordons the Nodes that run no Pod of the Deployment, until the test ends.
func cordonOtherNodes(t *testing.T) {
	t.Helper()
	_, all := runKubectl(t.Context(), t, "get", "pods", "-l", "app="+deployment, "-o",
		`jsonpath={range .items[*]}{.spec.nodeName} {.metadata.deletionTimestamp}{"\n"}{end}`)
	var used []string
	for line := range strings.Lines(all) {
		if f := strings.Fields(line); len(f) == 1 { // the Pod is not being deleted
			used = append(used, f[0])
		}
	}
	_, nodes := runKubectl(t.Context(), t, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")
	for _, n := range strings.Fields(nodes) {
		if slices.Contains(used, n) {
			continue
		}
		if status, out := runKubectl(t.Context(), t, "cordon", n); status != 0 {
			t.Fatal(out)
		}
		t.Cleanup(func() {
			if status, out := runKubectl(context.WithoutCancel(t.Context()), t, "uncordon", n); status != 0 {
				t.Error(out)
			}
		})
	}
}

func kubectl(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Dir = shared.Home // kubectl cp writes there
	cmd.Env = append(cmd.Environ(), "KUBECONFIG="+filepath.Join(shared.Dir(), "kubeconfig"),
		"KUBE_EDITOR=sed -i s/0.0.1-SNAPSHOT/0.0.2/g")
	return cmd
}

// runKubectl runs kubectl, and returns its exit status and its combined output.
func runKubectl(ctx context.Context, t *testing.T, args ...string) (status int, out string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, check.Timeout)
	defer cancel()
	cmd := kubectl(ctx, args...)
	text, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// requireRefused runs a command, and fails the test unless the command prints r.Sentence and exits with an error. If
// r.Waits is true, requireRefused kills the command after the sentence.
func requireRefused(t *testing.T, args []string, r Row) {
	t.Helper()
	if r.Sentence == "" {
		t.Fatal("the row of the page has no sentence in backticks")
	}
	ctx, cancel := context.WithTimeout(t.Context(), check.Timeout)
	defer cancel()
	w := &sentenceWriter{sentence: r.Sentence, found: func() {}}
	if r.Waits {
		w.found = cancel
	}
	cmd := kubectl(ctx, args...)
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Run(); err == nil || !strings.Contains(w.text.String(), r.Sentence) || !r.Waits && ctx.Err() != nil {
		t.Errorf("error %v, and the output does not contain %q:\n%s", err, r.Sentence, w.text.String())
	}
}

// sentenceWriter collects text, and calls found when the text contains sentence.
type sentenceWriter struct {
	text     bytes.Buffer
	sentence string
	found    func()
}

// Write implements io.Writer. os/exec never calls Write concurrently, because the same writer is both Stdout and
// Stderr of the command.
func (w *sentenceWriter) Write(p []byte) (int, error) {
	n, err := w.text.Write(p)
	if strings.Contains(w.text.String(), w.sentence) {
		w.found()
	}
	return n, err
}

// TestPlugin checks that koupsandbox works as a kubectl plugin if the PATH contains it as kubectl-koupsandbox.
func TestPlugin(t *testing.T) {
	folder := t.TempDir()
	binary, err := filepath.Abs(filepath.Join(shared.Bin, "koupsandbox"))
	must(t, err)
	must(t, os.Symlink(binary, filepath.Join(folder, "kubectl-koupsandbox")))
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	for command, want := range map[string]string{
		"koupsandbox why node/base-1":             "✓",
		"koupsandbox why pod/nobody -n kube-node": "koupsandbox: pod/nobody is not found in namespace kube-node",
		"koupsandbox why node/base-1 --context x": `koupsandbox: the kubeconfig has no context "x"`,
	} {
		if _, out := runKubectl(t.Context(), t, strings.Fields(command)...); !strings.HasPrefix(out, want) {
			t.Errorf("kubectl %s: the output does not begin with %q:\n%s", command, want, out)
		}
	}
}
