package kind

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kind/pkg/cluster"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	sandbox "github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
	"github.com/koupleless/koupsandbox/sandbox/internal/engine/enginetest"
)

// fakeCluster installs a fake engine with one kind cluster, whose API returns the given ownership marker, or none if
// it is nil. It returns the path of a file in which the fake engine records the commands that change the cluster.
func fakeCluster(t *testing.T, mark *corev1.ConfigMap) (changes string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method != http.MethodGet:
			t.Errorf("unexpected request %s %s", r.Method, r.URL.Path)
			http.Error(w, "no", http.StatusForbidden)
		case mark != nil && strings.HasSuffix(r.URL.Path, "/configmaps/"+sandbox.MarkName):
			if err := json.NewEncoder(w).Encode(mark); err != nil {
				t.Error(err)
			}
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
	}))
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	check.Must(t, err)
	ca := base64.StdEncoding.EncodeToString(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	changes = filepath.Join(t.TempDir(), "changes")
	enginetest.Fake(t, "docker", fmt.Sprintf(`
case "$*" in
info*) echo '{"ServerVersion":"27.5.1","CgroupVersion":"2","Architecture":"x86_64","MemTotal":8000000000}';;
ps*) echo koup-demo-control-plane;;
inspect*role*) echo control-plane;;
inspect*desktop*) echo;;
inspect*) printf '%s\t%s\n';;
exec*admin.conf) cat <<'KUBECONFIG'
apiVersion: v1
kind: Config
clusters:
- name: koup-demo
  cluster: {server: "https://koup-demo-control-plane:6443", certificate-authority-data: %s}
contexts:
- name: admin@koup-demo
  context: {cluster: koup-demo, user: admin}
users:
- name: admin
  user: {token: secret}
current-context: admin@koup-demo
KUBECONFIG
;;
start*|rm*) echo "$*" >>%s;;
*) echo "unexpected: $*" >&2; exit 1;;
esac
`, host, port, ca, changes))
	return changes
}

var owner = sandbox.Owner{Sandbox: "demo", Place: "me@laptop:/home/me/.koupsandbox/demo"}

// marked returns the ownership marker of the named sandbox. Its Place is place, or the Place of owner if place is not
// given.
func marked(sandboxName string, place ...string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: sandbox.MarkName,
			Labels: map[string]string{sandbox.ManagedBy: sandbox.MarkName}},
		Data: map[string]string{"sandbox": sandboxName, "place": append(place, owner.Place)[0]},
	}
}

func TestCheckOwner(t *testing.T) {
	const started, removed = "start koup-demo-control-plane\n", "rm -f -v koup-demo-control-plane\n"
	for name, tc := range map[string]struct {
		mark    *corev1.ConfigMap
		note    *ownership
		adopt   bool
		changes string
		err     string
	}{
		"own marker": {mark: marked("demo"), adopt: true},
		"own marker and record": {mark: marked("demo"),
			note: &ownership{"koup-demo", "docker", true}, adopt: true, changes: started},
		"incomplete cluster": {note: &ownership{"koup-demo", "docker", false}, changes: removed},
		"other sandbox":      {mark: marked("other"), err: `"other" of me@laptop:/home/me/.koupsandbox/demo;`},
		"sandbox with the same name in another place": {mark: marked("demo", "me@laptop:/tmp/demo"),
			err: `"demo" of me@laptop:/tmp/demo;`},
		"no marker, no record": {err: "kind delete cluster --name koup-demo"},
		"record, no marker": {note: &ownership{"koup-demo", "docker", true}, changes: started,
			err: "koupsandbox down"},
	} {
		t.Run(name, func(t *testing.T) {
			changes := fakeCluster(t, tc.mark)
			dir := t.TempDir()
			if tc.note != nil {
				text, err := json.Marshal(tc.note)
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, ownershipFile), text, 0o600)
				}
				check.Must(t, err)
			}
			p, err := New(Options{Owner: owner, Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), LogDir: dir})
			check.Must(t, err)
			p.engine, p.kind = &engine.Engine{Command: "docker"}, cluster.NewProvider(cluster.ProviderWithDocker())
			err = p.checkOwner(t.Context())
			if tc.err == "" && err != nil ||
				tc.err != "" &&
					(err == nil || !strings.Contains(err.Error(), "koup-demo") ||
						!strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v\n want %s", err, tc.err)
			}
			if p.adopt != tc.adopt {
				t.Errorf("adopted %t, want %t", p.adopt, tc.adopt)
			}
			text, err := os.ReadFile(changes)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.changes, string(text)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClusterInAnotherEngine checks that the engine of the existing cluster is used, even if another engine is
// configured.
func TestClusterInAnotherEngine(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ownershipFile),
		[]byte(`{"cluster":"koup-demo","engine":"docker","complete":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for engine, want := range map[string]int{"podman": 2, "docker": 1, "": 1} {
		fakeCluster(t, marked("demo"))
		var notes []string
		p, err := New(Options{Owner: owner, Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), LogDir: dir,
			Engine: engine,
			Notify: func(text string) { notes = append(notes, text) }})
		if err == nil {
			err = p.prepare(t.Context())
		}
		check.Must(t, err)
		text := strings.Join(notes, "\n")
		if len(notes) != want || strings.Count(text, "koup-demo") != want ||
			strings.Contains(text, "podman") != (engine == "podman") {
			t.Errorf("engine %q: notes %q", engine, notes)
		}
	}
	enginetest.Fake(t, "podman", `echo '{"version":{"Version":"5.4.0"}}'`)
	p, err := New(Options{Owner: owner, Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), LogDir: dir})
	check.Must(t, err)
	if err := p.prepare(t.Context()); !errors.Is(err, engine.ErrNoEngine) ||
		!strings.Contains(err.Error(), "docker is not installed") {
		t.Errorf("without the engine of the cluster: %v", err)
	}
}

// TestDeleteKillsInPodman checks that, with podman, the containers are killed before they are removed. Otherwise,
// podman would wait for them to stop.
func TestDeleteKillsInPodman(t *testing.T) {
	changes := filepath.Join(t.TempDir(), "changes")
	enginetest.Fake(t, "podman", `case "$1" in
ps) echo koup-demo-control-plane;;
--version|-v) echo podman version 4.3.1;;
kill|rm) echo "$*" >>`+changes+`;;
esac`)
	dir := t.TempDir()
	p, err := New(Options{Owner: owner, Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), LogDir: dir})
	check.Must(t, err)
	p.engine, p.kind = &engine.Engine{Command: engine.Podman}, cluster.NewProvider(cluster.ProviderWithPodman())
	check.Must(t, p.delete(t.Context()))
	text, err := os.ReadFile(changes)
	check.Must(t, err)
	if diff := cmp.Diff("kill koup-demo-control-plane\nrm -f -v koup-demo-control-plane\n", string(text)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestCleanUpDeletesOnlyOwnCluster(t *testing.T) {
	const removed = "rm -f -v koup-demo-control-plane\n"
	for name, tc := range map[string]struct {
		mark    *corev1.ConfigMap
		note    bool
		changes string
	}{
		"record":        {note: true, changes: removed},
		"marker":        {mark: marked("demo"), changes: removed},
		"other sandbox": {mark: marked("other")},
		"other place":   {mark: marked("demo", "me@laptop:/tmp/demo")},
		"no marker":     {},
	} {
		t.Run(name, func(t *testing.T) {
			changes := fakeCluster(t, tc.mark)
			dir := t.TempDir()
			if tc.note {
				if err := os.WriteFile(filepath.Join(dir, ownershipFile),
					[]byte(`{"cluster":"koup-demo","engine":"docker"}`), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := CleanUp(t.Context(),
				Options{Owner: owner, Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), LogDir: dir})
			check.Must(t, err)
			text, err := os.ReadFile(changes)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.changes, string(text)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
