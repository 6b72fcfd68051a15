package kind

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	kinderrors "sigs.k8s.io/kind/pkg/errors"
	"sigs.k8s.io/kind/pkg/exec"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// TestComponentsBeforeClusterExists checks that Components returns a component that is not ready, with a reason,
// before the cluster exists. The daemon may call Components while the steps create the cluster.
func TestComponentsBeforeClusterExists(t *testing.T) {
	got := (&Provider{}).ComponentSet().Components(t.Context())
	if len(got) != 1 || got[0].Ready || got[0].State != supervise.Exited || got[0].Reason == "" {
		t.Errorf("components before the cluster exists: %+v", got)
	}
}

func TestClusterConfig(t *testing.T) {
	p := &Provider{o: Options{Nodes: 3}, image: "a:1", engine: &engine.Engine{CgroupV1: true}}
	c := p.clusterConfig()
	node := func(role v1alpha4.NodeRole) v1alpha4.Node { return v1alpha4.Node{Role: role, Image: "a:1"} }
	want := []v1alpha4.Node{node(v1alpha4.ControlPlaneRole), node(v1alpha4.WorkerRole), node(v1alpha4.WorkerRole)}
	if diff := cmp.Diff(want, c.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	type m = map[string]any
	got := m{}
	for _, text := range c.KubeadmConfigPatches {
		var patch m
		if err := yaml.Unmarshal([]byte(text), &patch); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		key := fmt.Sprint(patch["kind"], " ", patch["apiVersion"])
		delete(patch, "kind")
		delete(patch, "apiVersion")
		got[key] = patch
	}
	list := func(pairs ...string) m {
		var args []any
		for i := 0; i < len(pairs); i += 2 {
			args = append(args, m{"name": pairs[i], "value": pairs[i+1]})
		}
		return m{"extraArgs": args}
	}
	dictionary := func(pairs ...string) m {
		args := m{}
		for i := 0; i < len(pairs); i += 2 {
			args[pairs[i]] = pairs[i+1]
		}
		return m{"extraArgs": args}
	}
	types := []string{"kubelet-preferred-address-types", "InternalDNS,InternalIP,ExternalIP,Hostname"}
	rates := []string{"kube-api-qps", "1000", "kube-api-burst", "2000", "leader-elect", "false"}
	if diff := cmp.Diff(m{
		"ClusterConfiguration kubeadm.k8s.io/v1beta4": m{
			"apiServer": list(types...), "controllerManager": list(rates...), "scheduler": list(rates...),
			"etcd": m{"local": list("unsafe-no-fsync", "true")}, "encryptionAlgorithm": "ECDSA-P256"},
		"ClusterConfiguration kubeadm.k8s.io/v1beta3": m{
			"apiServer": dictionary(types...), "controllerManager": dictionary(rates...),
			"scheduler": dictionary(rates...),
			"etcd":      m{"local": dictionary("unsafe-no-fsync", "true")}},
		"KubeletConfiguration <nil>": m{"failCgroupV1": false},
	}, got); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
}

func TestDurableEtcdSyncs(t *testing.T) {
	p := &Provider{o: Options{Nodes: 1, Durable: true}, image: "a:1", engine: &engine.Engine{}}
	if patches := strings.Join(p.clusterConfig().KubeadmConfigPatches, " "); strings.Contains(patches, "etcd") {
		t.Errorf("patches: %s", patches)
	}
}

// TestRestartPeriodRequiresVersion checks that the limit for the back-off of container restarts is set only for
// Kubernetes versions that support it. A kubelet does not start if its configuration contains an unknown field.
func TestRestartPeriodRequiresVersion(t *testing.T) {
	for image, want := range map[string]bool{
		"kindest/node:v1.37.0@sha256:0123": true, "koupsandbox/node:v1.35.0": true, "kindest/node:v1.34.9": false,
		"localhost:5000/node": false, "node:latest": false,
	} {
		p := &Provider{o: Options{Nodes: 1}, image: image, engine: &engine.Engine{}}
		got := slices.ContainsFunc(p.clusterConfig().KubeadmConfigPatches,
			func(patch string) bool { return strings.Contains(patch, "maxContainerRestartPeriod") })
		if got != want {
			t.Errorf("%s: %t, want %t", image, got, want)
		}
	}
}

func TestShortError(t *testing.T) {
	failed := func(output string) error {
		return kinderrors.Wrap(
			&exec.RunError{Command: []string{"docker"}, Output: []byte(output), Inner: errors.New("exit status 1")},
			"failed to init node")
	}
	for name, tc := range map[string]struct {
		err  error
		want string // prefix of the error message
	}{
		"other error": {errors.New("a: b: c"), "a: b: c"},
		"last line":   {failed("first\nlast\n"), "failed to init node: last"},
		"kubeadm error before a stack trace": {failed(
			"x\nerror: failed while waiting for the kubelet\nmain.main\n\tproc.go:250"),
			"failed to init node: failed while waiting for the kubelet"},
		"full disk in an earlier line": {failed("write: no space left on device\nlast"),
			"failed to init node: no space left on device: "},
	} {
		if got := shortError(tc.err).Error(); !strings.HasPrefix(got, tc.want) ||
			!strings.Contains(tc.want, "space") && got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestNameLength(t *testing.T) {
	o := Options{Owner: cluster.Owner{Sandbox: "a-name-of-46-characters-which-is-one-more-than-"}, Dir: "d",
		Kubeconfig: "k", LogDir: "l"}
	o.Owner.Sandbox = o.Owner.Sandbox[:45]
	if _, err := New(o); err != nil {
		t.Errorf("name of 45 characters: %v", err)
	}
	o.Owner.Sandbox += "x"
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), strconv.Quote(o.Owner.Sandbox)) ||
		!strings.Contains(err.Error(), "45") {
		t.Errorf("name of 46 characters: %v", err)
	}
}
