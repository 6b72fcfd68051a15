package release

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// docker runs docker, and returns its output without surrounding spaces.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "docker", args...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s%s", strings.Join(args, " "), err, out, problems.String())
	}
	return strings.TrimSpace(string(out))
}

// TestImage checks that the container image runs a demo, runs scenarios from a mounted directory, and runs a sandbox
// that is reachable from the host and stops on SIGTERM.
func TestImage(t *testing.T) {
	if exec.CommandContext(t.Context(), "docker", "ps").Run() != nil {
		t.Skip("docker does not answer")
	}
	images, builds, name := t.TempDir(), "dist/image-test", "koupsandbox/koupsandbox:test"
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(repository, builds)) })
	copyBinary(t, filepath.Join(repository, "bin/koup-controlplane"),
		filepath.Join(repository, builds, "linux_"+runtime.GOARCH, "koup-controlplane"))
	build(t.Context(), t, repository, "image-sandbox", "ARCHES="+runtime.GOARCH, "IMAGES="+images, "BUILDS="+builds,
		"SANDBOX_IMAGE="+name)
	t.Run("up", func(t *testing.T) { imageUp(t, name) })
	t.Run("scenario run", func(t *testing.T) { imageScenarios(t, name) })
	t.Run("demo", func(t *testing.T) {
		if out := docker(t, "run", "--rm", name, "demo"); !strings.Contains(out, "lost") {
			t.Errorf("the output of the demo has no requests:\n%s", out)
		}
	})
}

// imageScenarios runs a scenario from a mounted directory that only its owner can write to. The container runs as
// this owner.
func imageScenarios(t *testing.T, name string) {
	folder := t.TempDir()
	check.Must(t, os.CopyFS(folder, os.DirFS(filepath.Join(repository, "examples/module"))))
	owner := fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	docker(t, "run", "--rm", "--user", owner, "-v", folder+":/work", name, "scenario", "run", "--up", "--report-dir",
		"reports", "scenarios/release.yaml")
	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
	}
	check.Must(t, xml.Unmarshal([]byte(read(t, folder, "reports/junit.xml")), &suites))
	if suites.Tests < 1 || suites.Failures != 0 {
		t.Errorf("the report in the mounted directory has %d tests and %d failures", suites.Tests, suites.Failures)
	}
}

// imageUp runs a sandbox in a container, connects to its Kubernetes API, and checks that SIGTERM stops the sandbox.
func imageUp(t *testing.T, name string) {
	box := docker(t, "run", "-d", "-p", "127.0.0.1::8443", name, "up", "--bases", "2")
	t.Cleanup(func() { docker(t, "rm", "-f", box) })
	check.Soon(t, "the sandbox is up", func(ctx context.Context) error {
		return exec.CommandContext(ctx, "docker", "exec", box, "/koupsandbox", "status").Run()
	})
	text := docker(t, "exec", box, "/koupsandbox", "kubeconfig")
	text = regexp.MustCompile(`https://127\.0\.0\.1:8443`).ReplaceAllString(text,
		"https://"+docker(t, "port", box, "8443/tcp"))
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	check.Must(t, err)
	nodes, err := kubernetes.NewForConfigOrDie(config).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	check.Must(t, err)
	if len(nodes.Items) != 2 {
		t.Errorf("%d Nodes, want 2", len(nodes.Items))
	}
	if user := docker(t, "inspect", "--format", "{{.Config.User}}", box); user != "65532:65532" {
		t.Errorf("the container runs as user %s", user)
	}
	docker(t, "stop", "--time", "60", box)
	if status := docker(t, "inspect", "--format", "{{.State.ExitCode}}", box); status != "0" {
		t.Errorf("exit status %s after SIGTERM, want 0", status)
	}
}
