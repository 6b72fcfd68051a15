package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

const timeout = check.Timeout

var eventually = check.Soon

// must fails the test on an error.
var must = check.Must

// diffError returns an error that contains the difference between want and got, or nil if they are equal.
func diffError(want, got any) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("(-want +got):\n%s", diff)
	}
	return nil
}

// namespace creates a namespace and returns its name. The namespace is deleted when the test ends.
func namespace(t *testing.T) string {
	t.Helper()
	name := envconf.RandomName("rule", 12)
	_, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last lines of the controller's log:\n%s", tail(shared.Log("module-controller"), 30))
		}
		if err := client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	return name
}

// tail returns the last lines of a file. If the file cannot be read, it returns the text of the error.
func tail(file string, lines int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(string(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// base is a simulated base in the process of the test. It records its events.
type base struct {
	*fakebase.Base
	ip   string
	stop func() // stops the base and blocks until it has exited

	mu     sync.Mutex
	events []fakebase.Event
}

// lastBase is the number of the last created base. Each base gets a unique IP address from its number. Addresses of
// MQTT bases receive no connections; the addresses of HTTP bases are in the loopback network.
var lastBase atomic.Uint32

// nextAddress returns the last two bytes of an unused address.
func nextAddress() (high, low uint32) {
	n := lastBase.Add(1)
	return n / 250, n%250 + 1
}

// overMQTT starts a base that connects to the broker of the sandbox.
func overMQTT(t *testing.T, o fakebase.Options) *base {
	t.Helper()
	return overMQTTAt(t, mqtt.Env, &fakebase.MQTTOptions{
		Broker: "tcp://" + mqtt.Addr, Username: "base", Password: mqtt.Passwords.Base, ClientPrefix: mqtt.ClientPrefix,
	}, o)
}

func overMQTTAt(t *testing.T, env string, at *fakebase.MQTTOptions, o fakebase.Options) *base {
	t.Helper()
	high, low := nextAddress()
	o.IP, o.MQTT, o.Env = fmt.Sprintf("198.19.%d.%d", 200+high, low), at, env
	return start(t, o)
}

// startHTTPBase starts a base that sends heartbeats to the shared controller over HTTP.
func startHTTPBase(t *testing.T, o fakebase.Options) *base {
	t.Helper()
	high, low := nextAddress()
	o.IP = fmt.Sprintf("127.77.%d.%d", high, low)
	o.HTTP = &fakebase.HTTPOptions{Addr: net.JoinHostPort(o.IP, "0"), HeartbeatEndpoint: heartbeatURL}
	return start(t, o)
}

func start(t *testing.T, o fakebase.Options) *base {
	t.Helper()
	if o.Identity == "" {
		o.Identity = envconf.RandomName("b", 16)
	}
	o.Catalogue = withoutFetch(o.Catalogue)
	fake, err := fakebase.New(o)
	must(t, err)
	b := &base{Base: fake, ip: o.IP}
	b.Watch(func(e fakebase.Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, e)
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fake.Start(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("base %s: %v", o.Identity, err)
		}
	})
	t.Cleanup(b.stop)
	return b
}

// withoutFetch returns the catalogue, or an empty one, with downloads of jars disabled.
func withoutFetch(c *fakebase.Catalogue) *fakebase.Catalogue {
	if c == nil {
		c = &fakebase.Catalogue{}
	}
	c.Fetch = fakebase.FetchNever
	return c
}

func (b *base) node() string { return "vnode." + b.Identity() }

func (b *base) inject(t *testing.T, f fault.Fault) string {
	t.Helper()
	id, err := b.Inject(f)
	must(t, err)
	return id
}

// history returns the recorded events.
func (b *base) history() []fakebase.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.events)
}

// modules returns the installed modules as "name:version STATE", sorted.
func (b *base) modules() []string {
	list := []string{}
	for _, m := range b.Status().Biz {
		list = append(list, m.Name+":"+m.Version+" "+strings.ToUpper(string(m.State)))
	}
	slices.Sort(list)
	return list
}

// countChanges returns how often a module, given as name:version, has changed to the given state.
func (b *base) countChanges(id string, to fakebase.State) int {
	n := 0
	for _, e := range b.history() {
		if e.Kind == fakebase.EventBiz && e.Biz+":"+e.Version == id && e.To == to {
			n++
		}
	}
	return n
}

// uniqueName returns a name for bases or an environment that no other test uses.
func uniqueName() string { return envconf.RandomName("kind", 12) }

// nodesReady waits until the Nodes of bases are Ready.
func nodesReady(t *testing.T, bases ...*base) {
	t.Helper()
	eventually(t, "the Nodes are Ready", func(ctx context.Context) error {
		for _, b := range bases {
			if err := nodeIs(ctx, b, corev1.NodeReady, corev1.ConditionTrue); err != nil {
				return err
			}
		}
		return nil
	})
}

func nodeIs(ctx context.Context, b *base, t corev1.NodeConditionType, want corev1.ConditionStatus) error {
	n, err := client.CoreV1().Nodes().Get(ctx, b.node(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == t && c.Status == want {
			return nil
		}
	}
	return fmt.Errorf("condition %s of Node %s is not %s: %+v", t, n.Name, want, n.Status.Conditions)
}

// template returns a Pod template with modules for bases with the given name.
func template(app, baseName string, containers ...corev1.Container) corev1.PodTemplateSpec {
	t := module.Template(app, containers...)
	t.Spec.NodeSelector = map[string]string{module.LabelBaseName: baseName}
	return t
}

// singleModule returns a Pod template with one module.
func singleModule(app, version, baseName string) corev1.PodTemplateSpec {
	return template(app, baseName, module.Container(app, version))
}

// createPod creates a Pod that no workload owns.
func createPod(t *testing.T, ns, name string, spec corev1.PodTemplateSpec) {
	t.Helper()
	_, err := client.CoreV1().Pods(ns).Create(t.Context(), module.Pod(ns, name, spec), metav1.CreateOptions{})
	must(t, err)
}

// readyPod waits until a Pod is Ready and returns it.
func readyPod(t *testing.T, ns, name string) *corev1.Pod {
	t.Helper()
	var p *corev1.Pod
	eventually(t, "Pod "+name+" is Ready", func(ctx context.Context) (err error) {
		p, err = client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		if err == nil && !module.IsReady(p) {
			err = fmt.Errorf("pod %s: %s", name, describe(p))
		}
		return err
	})
	return p
}

// waitModules waits until a base has exactly these modules.
func waitModules(t *testing.T, b *base, want ...string) {
	t.Helper()
	want = append([]string{}, want...)
	eventually(t, "base "+b.Identity()+" has its modules",
		func(context.Context) error { return diffError(want, b.modules()) })
}

// describe returns the state of a Pod in one line.
func describe(p *corev1.Pod) string {
	text := fmt.Sprintf("phase %q on node %q", p.Status.Phase, p.Spec.NodeName)
	for _, c := range p.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			text += fmt.Sprintf(", not %s (%s: %s)", c.Type, c.Reason, c.Message)
		}
	}
	return text
}

// waitDeleted waits until a Pod no longer exists.
func waitDeleted(t *testing.T, ns, name string) {
	t.Helper()
	eventually(t, "Pod "+name+" is deleted", func(ctx context.Context) error {
		p, err := client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New(describe(p))
	})
}

func deletePod(t *testing.T, ns, name string) {
	t.Helper()
	must(t, client.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// nodeDeleted returns an error if the Node exists.
func nodeDeleted(ctx context.Context, name string) error {
	_, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("Node %s exists", name)
	}
	return err
}

// getOK sends a GET request to the URL, and returns an error unless the response has status 200.
func getOK(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the body has been read
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return err
}
