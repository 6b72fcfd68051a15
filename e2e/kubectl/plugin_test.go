package kubectl

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// Plugin is a krew manifest (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest), with what
// krew wants to have a value.
type Plugin struct {
	APIVersion string                `json:"apiVersion"`
	Kind       string                `json:"kind"`
	Metadata   struct{ Name string } `json:"metadata"`
	Spec       struct {
		Version, Homepage, ShortDescription, Description string
		Platforms                                        []Platform
	} `json:"spec"`
}

// Platform is one archive of a plugin.
type Platform struct {
	Selector         struct{ MatchLabels map[string]string }
	URI, SHA256, Bin string
}

// A release has a manifest that krew can read; in the PATH as krew puts it there, the program of its archive is a
// command of kubectl's.
func TestPlugin(t *testing.T) {
	folder, here := t.TempDir(), runtime.GOOS+"-"+runtime.GOARCH
	built := filepath.Join(folder, "build", runtime.GOOS+"_"+runtime.GOARCH, "koup-controlplane")
	text, err := os.ReadFile(filepath.Join(repository, "bin/fakebase")) // Kubernetes takes minutes to compile; the plugin has no use for it
	check.Must(t, err)
	check.Must(t, os.MkdirAll(filepath.Dir(built), 0o755))
	check.Must(t, os.WriteFile(built, text, 0o755))
	pack := exec.CommandContext(t.Context(), "make", "-C", repository, "release", "VERSION=v1.2.3", "URL=https://plugins.example/VERSION", "RELEASE="+folder+"/out",
		"BUILDS="+folder+"/build", "PLATFORMS="+here)
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("make release: %v\n%s", err, out)
	}
	ours := valid(t, filepath.Join(folder, "out"))
	link := filepath.Join(folder, "path", "kubectl-koup")
	check.Must(t, os.Mkdir(filepath.Dir(link), 0o755))
	unpack := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(folder, "out", path.Base(ours.URI)), "-C", filepath.Dir(link))
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpacking: %v\n%s", err, out)
	}
	check.Must(t, os.Symlink(filepath.Join(filepath.Dir(link), ours.Bin), link))

	t.Setenv("PATH", filepath.Dir(link)+string(os.PathListSeparator)+os.Getenv("PATH"))
	for command, want := range map[string]string{
		"koup why node/base-1":             "✓",
		"koup why pod/nobody -n kube-node": "koupsandbox: pod/nobody is not found in namespace kube-node",
		"koup why node/base-1 --context x": `koupsandbox: the kubeconfig has no context "x"`,
	} {
		if _, out := typed(t.Context(), t, strings.Fields(command)...); !strings.HasPrefix(out, want) {
			t.Errorf("kubectl %s printed, without %q:\n%s", command, want, out)
		}
	}
}

// valid checks the manifest by krew's rules, and returns the platform that is packed.
func valid(t *testing.T, folder string) Platform {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "koup.yaml"))
	check.Must(t, err)
	var p Plugin
	check.Must(t, yaml.UnmarshalStrict(text, &p))
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || p.Metadata.Name != "koup" || p.Spec.Version != "v1.2.3" {
		t.Errorf("it is no manifest of koup v1.2.3:\n%s", text)
	}
	if p.Spec.Homepage == "" || p.Spec.ShortDescription == "" || len(p.Spec.ShortDescription) > 50 || p.Spec.Description == "" {
		t.Errorf("it does not say what the plugin is, in 50 letters at first:\n%s", text)
	}
	archive := "koupsandbox_v1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH
	content, err := os.ReadFile(filepath.Join(folder, archive+".tar.gz"))
	check.Must(t, err)
	want := []Platform{{
		URI: "https://plugins.example/v1.2.3/" + archive + ".tar.gz", SHA256: fmt.Sprintf("%x", sha256.Sum256(content)), Bin: archive + "/koupsandbox",
	}}
	want[0].Selector.MatchLabels = map[string]string{"os": runtime.GOOS, "arch": runtime.GOARCH}
	if diff := gocmp.Diff(want, p.Spec.Platforms); diff != "" {
		t.Fatalf("platforms (-want +got):\n%s", diff)
	}
	return p.Spec.Platforms[0]
}
