package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
)

const manyMistakes = `apiVersion: sandbox.koupleless.io/v1alpha1
kind: Sandbox
metadata:
  name: Bad_Name
spec:
  bases:
    count: 0
    activation: sometimes
  broker:
    port: 70000
    prot: 1
  wait: soon
`

// Whatever is wrong is said at once, in words that say what to do, before
// anything is started.
func TestMisuse(t *testing.T) {
	const (
		usage  = "see: koupsandbox up --help\n"
		cannot = "koupsandbox: the settings cannot be used:\n"
	)
	for name, c := range map[string]struct {
		args   []string
		status int
		says   string // HOME stands for the folder of sandboxes
	}{
		"several mistakes in a file": {
			args: []string{"up", "--config", "HOME/mistakes.yaml"}, status: 2,
			says: cannot +
				"HOME/mistakes.yaml:7: spec.bases.count: Invalid value: 0: must be between 1 and 20000, the most that one sandbox runs\n" +
				`HOME/mistakes.yaml:8: spec.bases.activation: Unsupported value: "sometimes": supported values: "newModule", "default", "multi"` + "\n" +
				"HOME/mistakes.yaml:10: spec.broker.port: Invalid value: 70000: must be between 0 and 65535; 0 is any free port\n" +
				"HOME/mistakes.yaml:11: spec.broker.prot: is not a field; the fields here are: caFile, certFile, consent, keyFile, passwordFile, port, tls, url, username\n" +
				`HOME/mistakes.yaml:12: spec.wait: "soon" cannot be read as a time with its unit, such as 90s or 2m` + "\n" + usage,
		},
		"no such file": {
			args: []string{"up", "--config", "HOME/missing.yaml"}, status: 1,
			says: "koupsandbox: reading the settings: open HOME/missing.yaml: no such file or directory\n",
		},
		"no bases": {
			args: []string{"up", "--bases", "0"}, status: 2,
			says: cannot + "--bases: Invalid value: 0: must be between 1 and 20000, the most that one sandbox runs\n" + usage,
		},
		"too many bases": {
			args: []string{"up", "--bases", "100000"}, status: 2,
			says: cannot + "--bases: Invalid value: 100000: must be between 1 and 20000, the most that one sandbox runs\n" + usage,
		},
		"bad name": {
			args: []string{"up", "--name", "Bad_Name"}, status: 2,
			says: cannot + `--name: Invalid value: "Bad_Name": must be a DNS label: at most 63 lower-case letters, digits and hyphens, ` +
				"with a letter or digit at both ends\n" + usage,
		},
		"a fleet without what it needs": {
			args: []string{"fleet", "up"}, status: 2,
			says: cannot +
				"--base-image: Required value: the nodes of a cluster of yours pull the image of bases: push that of make image-fakebase to where they can, and name it\n" +
				"--broker: Required value: the Pods of a cluster of yours cannot reach a broker on this machine: name one that they and this machine reach\n" +
				"--context: Required value: the provider existing needs the name of a context (see: kubectl config get-contexts)\n" +
				"--controller-image: Required value: the nodes of a cluster of yours pull the image of the controller: push that of make image-controller to where they can, and name it\n" +
				"see: koupsandbox fleet up --help\n",
		},
		"home below a file": {
			args: []string{"--home", "HOME/mistakes.yaml/home", "up"}, status: 1,
			says: "koupsandbox: making the folder for locks: mkdir HOME/mistakes.yaml: not a directory; choose another place with --home\n",
		},
		"not up": {
			args: []string{"status"}, status: 1,
			says: "koupsandbox: sandbox \"misused\" is not up; bring it up with: koupsandbox up --name misused\n",
		},
		"unknown command": {args: []string{"upp"}, status: 2, says: "koupsandbox: there is no command \"upp\"; did you mean up?\nsee: koupsandbox help\n"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &box.Box{Bin: programs, Home: t.TempDir(), Name: "misused"}
			must(t, os.WriteFile(filepath.Join(b.Home, "mistakes.yaml"), []byte(manyMistakes), 0o600))
			refused(t, b, c.args, c.status, c.says)
		})
	}
}

// A program that is missing is told by name, and where it is looked for.
func TestMissingProgram(t *testing.T) {
	b := &box.Box{Bin: t.TempDir(), Home: t.TempDir(), Name: "misused"}
	must(t, os.Symlink(filepath.Join(programs, box.Program), filepath.Join(b.Bin, box.Program)))
	must(t, copyFile(filepath.Join(programs, box.Program), filepath.Join(b.Bin, "copy"))) // a link leads back to its target's folder
	must(t, os.Rename(filepath.Join(b.Bin, "copy"), filepath.Join(b.Bin, box.Program)))
	must(t, os.Chmod(filepath.Join(b.Bin, box.Program), 0o700)) //nolint:gosec // a program must be executable
	t.Setenv("PATH", t.TempDir())
	refused(t, b, []string{"up"}, 1,
		"koupsandbox: the program koup-controlplane is missing: put it beside koupsandbox, or name its folder in $KOUPSANDBOX_BIN\n")
}

// refused runs a command that must start nothing, and compares all it says.
func refused(t *testing.T, b *box.Box, args []string, status int, says string) {
	t.Helper()
	resolved := make([]string, len(args))
	for i, a := range args {
		resolved[i] = strings.ReplaceAll(a, "HOME", b.Home)
	}
	got, err := b.Run(t.Context(), resolved...)
	must(t, err)
	got.Err = strings.ReplaceAll(got.Err, b.Home, "HOME")
	if diff := cmp.Diff(box.Result{Err: says, Status: status}, got); diff != "" {
		t.Errorf("koupsandbox %s (-want +got):\n%s", strings.Join(args, " "), diff)
	}
	if _, err := os.Stat(b.Folder()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder for the sandbox was made: %v", err)
	}
}

// Schedules would disturb a sandbox that somebody has brought up: there are none in it, and it stays.
func TestFuzzLeavesASandboxAlone(t *testing.T) {
	r, err := shared.Run(t.Context(), "fuzz", "--name", strings.TrimSuffix(shared.Name, firstOfFuzz), "--count", "1", "--corpus", t.TempDir())
	must(t, err)
	if want := "sandbox " + shared.Name + " exists already"; r.Status != 1 || !strings.Contains(r.Err, want) {
		t.Errorf("status %d, want 1 and %q:\n%s", r.Status, want, r.Err)
	}
	_, err = up.Status(t.Context(), false)
	must(t, err)
}
