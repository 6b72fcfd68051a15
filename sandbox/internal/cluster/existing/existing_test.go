package existing

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/nodes"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

const (
	markPath   = "/api/v1/namespaces/kube-system/configmaps"
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
)

// fakeAPI is a fake API server for requests for the ownership marker, Nodes and Leases. It records all requests.
type fakeAPI struct {
	mu     sync.Mutex
	mark   *corev1.ConfigMap
	nodes  corev1.NodeList
	leases coordinationv1.LeaseList
	calls  []string
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, r.Method+" "+r.URL.Path)
	switch r.Method + " " + r.URL.Path {
	case "GET /version":
		reply(w, http.StatusOK, map[string]string{"gitVersion": "v1.33.1"})
	case "GET " + markPath + "/koupsandbox":
		if f.mark == nil {
			refuse(w, apierrors.NewNotFound(corev1.Resource("configmaps"), "koupsandbox"))
			return
		}
		reply(w, http.StatusOK, f.mark)
	case "POST " + markPath:
		f.mark = decode(r, &corev1.ConfigMap{})
		f.mark.TypeMeta = metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}
		f.mark.UID = "uid-of-the-mark"
		reply(w, http.StatusCreated, f.mark)
	case "DELETE " + markPath + "/koupsandbox":
		if p := decode(r, &metav1.DeleteOptions{}).Preconditions; p == nil || p.UID == nil || *p.UID != f.mark.UID {
			refuse(w, apierrors.NewConflict(corev1.Resource("configmaps"), "koupsandbox", errors.New("uid")))
			return
		}
		f.mark = nil
		reply(w, http.StatusOK, metav1.Status{Status: metav1.StatusSuccess})
	case "GET /api/v1/nodes":
		f.nodes.TypeMeta = metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}
		reply(w, http.StatusOK, f.nodes)
	case "GET " + leasesPath:
		f.leases.TypeMeta = metav1.TypeMeta{Kind: "LeaseList", APIVersion: "coordination.k8s.io/v1"}
		reply(w, http.StatusOK, f.leases)
	default:
		refuse(w, apierrors.NewBadRequest("the fake API does not implement "+r.URL.Path))
	}
}

func (f *fakeAPI) takeCalls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

// decode decodes a protobuf request body into the object into, and returns this object. If decoding fails, the object
// is unchanged.
func decode[T runtime.Object](r *http.Request, into T) T {
	if body, err := io.ReadAll(r.Body); err == nil {
		_, _, _ = scheme.Codecs.UniversalDeserializer().Decode(body, nil, into)
	}
	return into
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	reply(w, int(err.ErrStatus.Code), err.ErrStatus)
}

// kubeconfig writes a kubeconfig with two contexts: "laptop" uses server, and "production" uses a server that is
// unavailable. The current context is "production".
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	for name, host := range map[string]string{"laptop": server, "production": "http://127.0.0.1:1"} {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: host}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "token"}
	}
	config.CurrentContext = "production"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	check.Must(t, clientcmd.WriteToFile(*config, path))
	return path
}

func run(ctx context.Context, p *Provider) error {
	for _, step := range p.Steps().All() {
		if err := step.Run(ctx); err != nil {
			return err
		}
	}
	return nil
}

var (
	owner     = cluster.Owner{Sandbox: "demo", Place: "me@laptop:/home/me/.koupsandbox/demo"}
	ownLabels = map[string]string{"app.kubernetes.io/managed-by": "koupsandbox"}
	elsewhere = markOf(map[string]string{"sandbox": "demo", "place": "you@laptop:/home/you/.koupsandbox/demo"},
		ownLabels)
)

// mark returns the ownership marker of the sandbox with the given name and the Place of owner.
func mark(sandbox string, labels map[string]string) *corev1.ConfigMap {
	return markOf(map[string]string{"sandbox": sandbox, "place": owner.Place}, labels)
}

func markOf(data, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "koupsandbox", Namespace: "kube-system", UID: "uid-of-the-mark",
			Labels: labels},
		Data: data,
	}
}

func TestNewFails(t *testing.T) {
	path := kubeconfig(t, "http://127.0.0.1:1")
	for name, tc := range map[string]struct {
		o    Options
		want string
	}{
		"no context": {Options{Owner: owner, Kubeconfig: path}, path + ": laptop, production"},
		"unknown context": {Options{Owner: owner, Kubeconfig: path, Context: "lab"},
			`"lab" does not exist; contexts in kubeconfig ` + path + ": laptop, production"},
		"no kubeconfig": {Options{Owner: owner, Kubeconfig: path + ".not", Context: "laptop"}, path + ".not"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(tc.o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New: %v, want %q", err, tc.want)
			}
		})
	}
}

func TestSteps(t *testing.T) {
	earlier := markOf(map[string]string{"sandbox": "demo"}, ownLabels)
	read := []string{"GET /version", "GET " + markPath + "/koupsandbox"}
	unused := []string{"GET " + leasesPath, "GET /api/v1/nodes"}
	again := slices.Concat(read, unused, read[1:], unused)
	for name, tc := range map[string]struct {
		mark    *corev1.ConfigMap
		consent bool
		check   func(error) bool
		want    *corev1.ConfigMap
		calls   []string
	}{
		"no marker, no consent": {
			check: func(err error) bool { return errors.Is(err, ErrConsent) }, calls: read,
		},
		"no marker, consent": {
			consent: true, check: isNil, want: mark("demo", ownLabels),
			calls: slices.Concat(again, []string{"POST " + markPath}),
		},
		"own marker needs no consent": {
			mark: mark("demo", ownLabels), check: isNil, want: mark("demo", ownLabels),
			calls: again,
		},
		"marker of an earlier version without a place": {
			mark: earlier, check: isNil, want: earlier, calls: again,
		},
		"sandbox with the same name in another place, consent": {
			mark: elsewhere, consent: true, want: elsewhere, calls: read, check: func(err error) bool {
				return belongsTo("demo")(err) &&
					strings.Contains(err.Error(), "you@laptop:/home/you/.koupsandbox/demo;")
			},
		},
		"other sandbox, consent": {
			mark: mark("other", ownLabels), consent: true, check: belongsTo("other"), want: mark("other", ownLabels),
			calls: read,
		},
		"ConfigMap without the label, consent": {
			mark: mark("demo", nil), consent: true, check: belongsTo(""), want: mark("demo", nil), calls: read,
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := &fakeAPI{mark: tc.mark}
			server := httptest.NewServer(api)
			defer server.Close()
			p, err := New(Options{Owner: owner, Kubeconfig: kubeconfig(t, server.URL), Context: "laptop",
				Consent: tc.consent, Dir: state.Dir(t.TempDir())})
			check.Must(t, err)
			if err := run(t.Context(), p); !tc.check(err) {
				t.Errorf("Steps: %v", err)
			}
			if diff := cmp.Diff(tc.want, api.mark); diff != "" {
				t.Errorf("marker (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.calls, api.takeCalls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStepsRejectUsedEnvironment checks that the Steps fail before the first write if another user uses the
// environment, even if the cluster has the ownership marker of this sandbox. The Steps must accept controllers and
// bases of this sandbox.
func TestStepsRejectUsedEnvironment(t *testing.T) {
	dir := state.Dir(t.TempDir())
	prefix, err := dir.ClientIDPrefix()
	check.Must(t, err)
	check.Must(t, dir.AddBase("recorded"))
	node := func(name, holder string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels:      map[string]string{labels.Component: labels.Vnode, labels.Env: "dev"},
			Annotations: map[string]string{labels.Holder: holder, labels.Fence: "1"}}}
	}
	lease := func(holder string) coordinationv1.Lease {
		return coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "module-controller.dev." + holder,
			Namespace: corev1.NamespaceNodeLease,
			Labels:    map[string]string{labels.Component: labels.ControllerLease, labels.Env: "dev"}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	}
	for name, tc := range map[string]struct {
		mark   *corev1.ConfigMap
		nodes  []corev1.Node
		leases []coordinationv1.Lease
		want   string
	}{
		"a Lease of another controller": {leases: []coordinationv1.Lease{lease("mc-0")},
			want: "Lease kube-node-lease/module-controller.dev.mc-0"},
		"a Node of another controller": {nodes: []corev1.Node{node("vnode.theirs", "mc-0")},
			want: "Node vnode.theirs"},
		"a Lease in a cluster with the marker of the sandbox": {mark: mark("demo", ownLabels),
			leases: []coordinationv1.Lease{lease("mc-0")}, want: "held by \"mc-0\""},
		"only Nodes and Leases of this sandbox": {mark: mark("demo", ownLabels),
			nodes:  []corev1.Node{node("vnode.x", prefix+"1"), node("vnode.recorded", "")},
			leases: []coordinationv1.Lease{lease(prefix + "1")}},
	} {
		t.Run(name, func(t *testing.T) {
			api := &fakeAPI{mark: tc.mark, nodes: corev1.NodeList{Items: tc.nodes},
				leases: coordinationv1.LeaseList{Items: tc.leases}}
			server := httptest.NewServer(api)
			defer server.Close()
			p, err := New(Options{Owner: owner, Kubeconfig: kubeconfig(t, server.URL), Context: "laptop", Consent: true,
				Env: "dev", Dir: dir})
			check.Must(t, err)
			for _, step := range p.Steps().All()[:2] { // each step has the check
				err := step.Run(t.Context())
				var inUse *nodes.InUseError
				if refused := errors.As(err, &inUse); refused != (tc.want != "") ||
					refused && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: %v, want %q", step.Name, err, tc.want)
				}
			}
			if diff := cmp.Diff(tc.mark, api.mark); diff != "" {
				t.Errorf("marker (-want +got):\n%s", diff)
			}
		})
	}
}

func isNil(err error) bool { return err == nil }

func belongsTo(sandbox string) func(error) bool {
	return func(err error) bool {
		var other *cluster.OtherSandboxError
		return errors.As(err, &other) && other.Owner.Sandbox == sandbox
	}
}

// TestRemoveLeftovers checks that RemoveLeftovers removes only the Nodes of bases that a killed daemon of this
// sandbox started.
func TestRemoveLeftovers(t *testing.T) {
	dir := state.Dir(t.TempDir())
	prefix, err := dir.ClientIDPrefix()
	check.Must(t, err)
	p, err := New(Options{Owner: owner, Kubeconfig: kubeconfig(t, "http://127.0.0.1:1"), Context: "laptop", Env: "dev",
		Dir: dir})
	check.Must(t, err)
	node := func(name, holder string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels:      map[string]string{labels.Component: labels.Vnode, labels.Env: "dev"},
			Annotations: map[string]string{labels.Holder: holder, labels.Fence: "1"}}}
	}
	client := fake.NewClientset(node("vnode.ownLabels", prefix+"1"), node("vnode.theirs", "mc-0"))
	p.client = client
	check.Must(t, p.RemoveLeftovers(t.Context()))
	left, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].Name != "vnode.theirs" {
		t.Errorf("Nodes after RemoveLeftovers: %v, %v", left, err)
	}
}

func TestDownRemovesOnlyOwnMarker(t *testing.T) {
	for name, tc := range map[string]struct {
		mark, want *corev1.ConfigMap
		check      func(error) bool
	}{
		"own marker":    {mark("demo", ownLabels), nil, isNil},
		"no marker":     {nil, nil, isNil},
		"other sandbox": {mark("other", ownLabels), mark("other", ownLabels), belongsTo("other")},
		"other place":   {elsewhere, elsewhere, belongsTo("demo")},
	} {
		t.Run(name, func(t *testing.T) {
			api := &fakeAPI{mark: tc.mark}
			server := httptest.NewServer(api)
			defer server.Close()
			p, err := New(Options{Owner: owner, Kubeconfig: kubeconfig(t, server.URL), Context: "laptop"})
			check.Must(t, err)
			if err := p.Down(t.Context()); !tc.check(err) {
				t.Errorf("Down: %v", err)
			}
			if diff := cmp.Diff(tc.want, api.mark); diff != "" {
				t.Errorf("marker (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClusterUsesNamedContext(t *testing.T) {
	server := httptest.NewServer(&fakeAPI{})
	defer server.Close()
	path := kubeconfig(t, server.URL)
	p, err := New(Options{Owner: owner, Kubeconfig: path, Context: "laptop", Consent: true,
		Dir: state.Dir(t.TempDir())})
	check.Must(t, err)
	check.Must(t, run(t.Context(), p))
	c := p.Cluster()
	if diff := cmp.Diff([]string{path, server.URL, "v1.33.1"},
		[]string{c.Kubeconfig, c.Config.Host, c.Version}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
