package kubectl

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
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

// make krew packs the program, and writes a manifest that krew can read; in the PATH as krew puts it
// there, it is a command of kubectl's.
func TestPlugin(t *testing.T) {
	folder := t.TempDir()
	pack := exec.CommandContext(t.Context(), "make", "-C", repository, "krew", "VERSION=v1.2.3", "URL=https://plugins.example/v1.2.3", "KREW="+folder,
		"PLATFORMS="+runtime.GOOS+"-"+runtime.GOARCH)
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("make krew: %v\n%s", err, out)
	}
	ours := valid(t, folder)
	link := filepath.Join(folder, "path", "kubectl-koup")
	check.Must(t, os.Mkdir(filepath.Dir(link), 0o755))
	unpack := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(folder, path.Base(ours.URI)), "-C", filepath.Dir(link))
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpacking: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(link), "LICENSE")); err != nil {
		t.Error(err)
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
func valid(t *testing.T, folder string) (ours Platform) {
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
	var packed []string
	for _, platform := range p.Spec.Platforms {
		name := platform.Selector.MatchLabels["os"] + "-" + platform.Selector.MatchLabels["arch"]
		packed = append(packed, name)
		archive := "koupsandbox-v1.2.3-" + name + ".tar.gz"
		if u, err := url.Parse(platform.URI); err != nil || u.String() != "https://plugins.example/v1.2.3/"+archive || platform.Bin != "koupsandbox" {
			t.Errorf("of %s it has %+v (%v)", name, platform, err)
		}
		if name != runtime.GOOS+"-"+runtime.GOARCH {
			if platform.SHA256 != "SHA256-"+name { // what make krew would replace
				t.Errorf("the checksum of %s is %s", name, platform.SHA256)
			}
			continue
		}
		ours = platform
		content, err := os.ReadFile(filepath.Join(folder, archive))
		check.Must(t, err)
		if diff := gocmp.Diff(fmt.Sprintf("%x", sha256.Sum256(content)), platform.SHA256); diff != "" {
			t.Errorf("checksum (-file +manifest):\n%s", diff)
		}
	}
	if diff := gocmp.Diff([]string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"}, packed); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
	if left := regexp.MustCompile(`\b(VERSION|URL)\b`).FindString(string(text)); left != "" {
		t.Errorf("%s was not filled in:\n%s", left, text)
	}
	return ours
}
