package realbase

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase/recording"
)

const timeout = check.Timeout

// tunnels lists the tunnels with which tests run. Each base uses one of them.
var tunnels = []recording.Tunnel{recording.MQTT, recording.HTTP}

var eventually = check.Soon

// must fails the test on an error.
var must = check.Must

// namespace creates a namespace and returns its name. The namespace is deleted when the test ends.
func namespace(t *testing.T) string {
	t.Helper()
	name := envconf.RandomName("real", 12)
	_, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		if err := client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	return name
}

// lastBase is the number of the last created base. Each base gets a unique IP address from its number.
var lastBase atomic.Uint32

// jvm is a running real base.
type jvm struct {
	*Base
	name string
	kill func() // kills the JVM and blocks until it has exited
}

// options returns the options of a new base with a unique name.
func options(t *testing.T, tunnel recording.Tunnel, settings recording.Settings) Options {
	t.Helper()
	if missing != nil {
		t.Skip(missing)
	}
	n := lastBase.Add(1)
	name := envconf.RandomName("base", 12)
	o := Options{Jar: filepath.Join(target, BaseJar), Log: filepath.Join(target, name+".log"),
		Identity: name, Name: name, Env: mqtt.Env, Settings: settings, IP: fmt.Sprintf("198.19.99.%d", n)}
	if tunnel == recording.HTTP {
		o.IP = fmt.Sprintf("127.99.0.%d", n) // the controller connects to this address
		o.Host, o.Controller = o.IP, heartbeatURL
	} else {
		o.Broker, o.Username, o.Password = mqtt.Addr, "base", mqtt.Passwords.Base
	}
	t.Cleanup(func() {
		if text, err := os.ReadFile(o.Log); err == nil && t.Failed() {
			t.Logf("last lines of the base's log:\n%s", text[max(0, len(text)-4000):])
		}
		if err := os.Remove(o.Log); err != nil {
			t.Errorf("deleting the base's log: %v", err)
		}
	})
	return o
}

// start runs a base until the test ends, and waits until its Node is Ready.
func start(t *testing.T, o Options) *jvm {
	t.Helper()
	base, err := New(o)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- base.Start(ctx) }()
	b := &jvm{Base: base, name: o.Name}
	b.kill = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("base %s: %v", o.Identity, err)
		}
	})
	t.Cleanup(b.kill)
	starting, stop := context.WithTimeout(t.Context(), timeout)
	defer stop()
	must(t, base.WaitReady(starting))
	eventually(t, "the Node is Ready", func(ctx context.Context) error {
		n, err := client.CoreV1().Nodes().Get(ctx, "vnode."+o.Identity, metav1.GetOptions{})
		if err == nil && !check.NodeReady(n) {
			err = fmt.Errorf("the Node's conditions are %+v", n.Status.Conditions)
		}
		return err
	})
	return b
}

// fileURL returns the file URL of a jar. serverURL returns its URL on the HTTP server jars.
func fileURL(jar string) string   { return "file://" + filepath.Join(target, jar) }
func serverURL(jar string) string { return jars + "/" + jar }

// shopTemplate returns a Pod template with a module. Only the given base matches its node selector.
func shopTemplate(b *jvm, name, version, url string) corev1.PodTemplateSpec {
	c := module.Container(name, version)
	c.Image = url
	t := module.Template(name, c)
	t.Spec.NodeSelector = map[string]string{module.LabelBaseName: b.name}
	return t
}

// describe returns the state of a Pod.
func describe(p *corev1.Pod) string {
	text := fmt.Sprintf("phase %q on node %q", p.Status.Phase, p.Spec.NodeName)
	for _, c := range p.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			text += fmt.Sprintf(", not %s (%s: %s)", c.Type, c.Reason, c.Message)
		}
	}
	return text
}

// waitReady waits until a Pod is Ready.
func waitReady(t *testing.T, ns, name string) {
	t.Helper()
	eventually(t, "Pod "+name+" is Ready", func(ctx context.Context) error {
		p, err := client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		if err == nil && !module.IsReady(p) {
			err = errors.New(describe(p))
		}
		return err
	})
}

// deletePod deletes a Pod and waits until it no longer exists.
func deletePod(t *testing.T, ns, name string) {
	t.Helper()
	must(t, client.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
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

// requestTimeout is the timeout of a request to a base's web server. It is longer than the base's own timeout for a
// forwarded request.
const requestTimeout = 30 * time.Second

// get sends a GET request to the base's web server and returns the response body. It returns an error unless the
// status is 200.
func (b *jvm) get(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.Web()+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // the body has been read
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

// waitModules waits until the base has exactly the given modules, each in the form "name:version state".
func (b *jvm) waitModules(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, "the base has its modules", func(ctx context.Context) error {
		list, err := b.Modules(ctx)
		if got := strings.Join(list, ", "); err == nil && got != strings.Join(want, ", ") {
			err = fmt.Errorf("the base has %s, want %s", got, strings.Join(want, ", "))
		}
		return err
	})
}
