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

const patience = check.Patience

// The tunnels; a test's base has one of them.
var tunnels = []recording.Tunnel{recording.MQTT, recording.HTTP}

var eventually = check.Soon

// must fails the test on an error.
var must = check.Must

// namespace makes a namespace that goes with the test.
func namespace(t *testing.T) string {
	t.Helper()
	name := envconf.RandomName("real", 12)
	_, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		if err := client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("removing the namespace: %v", err)
		}
	})
	return name
}

// numbers tell bases apart by their addresses.
var numbers atomic.Uint32

// jvm is a real base of a test.
type jvm struct {
	*Base
	name string
	kill func() // as kill -9; waits until it is gone
}

// options returns options for a new base with a unique name.
func options(t *testing.T, tunnel recording.Tunnel, settings recording.Settings) Options {
	t.Helper()
	if missing != nil {
		t.Skip(missing)
	}
	n := numbers.Add(1)
	name := envconf.RandomName("base", 12)
	o := Options{Jar: filepath.Join(target, BaseJar), Log: filepath.Join(target, name+".log"),
		Identity: name, Name: name, Env: mqtt.Env, Settings: settings, IP: fmt.Sprintf("198.19.99.%d", n)}
	if tunnel == recording.HTTP {
		o.IP = fmt.Sprintf("127.99.0.%d", n) // the controller dials it
		o.Host, o.Controller = o.IP, heart
	} else {
		o.Broker, o.Username, o.Password = mqtt.Addr, "base", mqtt.Passwords.Base
	}
	t.Cleanup(func() {
		if text, err := os.ReadFile(o.Log); err == nil && t.Failed() {
			t.Logf("the base's log ends:\n%s", text[max(0, len(text)-4000):])
		}
		if err := os.Remove(o.Log); err != nil {
			t.Errorf("removing the base's log: %v", err)
		}
	})
	return o
}

// start runs a base until the test ends, and waits until its Node is Ready.
func start(t *testing.T, o Options) *jvm {
	t.Helper()
	made, err := New(o)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- made.Start(ctx) }()
	b := &jvm{Base: made, name: o.Name}
	b.kill = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("base %s: %v", o.Identity, err)
		}
	})
	t.Cleanup(b.kill)
	starting, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	must(t, made.WaitReady(starting))
	eventually(t, "the Node is Ready", func(ctx context.Context) error {
		n, err := client.CoreV1().Nodes().Get(ctx, "vnode."+o.Identity, metav1.GetOptions{})
		if err == nil && !check.NodeReady(n) {
			err = fmt.Errorf("the Node's conditions are %+v", n.Status.Conditions)
		}
		return err
	})
	return b
}

// fileURL and serverURL are where a jar is.
func fileURL(jar string) string   { return "file://" + filepath.Join(target, jar) }
func serverURL(jar string) string { return jars + "/" + jar }

// shop is a Pod with the module, for the bases of a name.
func shop(b *jvm, name, version, url string) corev1.PodTemplateSpec {
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

// ready waits until a Pod is Ready.
func ready(t *testing.T, ns, name string) {
	t.Helper()
	eventually(t, "Pod "+name+" is Ready", func(ctx context.Context) error {
		p, err := client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		if err == nil && !module.IsReady(p) {
			err = errors.New(describe(p))
		}
		return err
	})
}

// remove deletes a Pod and waits until it is gone.
func remove(t *testing.T, ns, name string) {
	t.Helper()
	must(t, client.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
	eventually(t, "Pod "+name+" is gone", func(ctx context.Context) error {
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

// answerTime bounds one request to a base's web server. It is longer than a base takes to give a
// request up.
const answerTime = 30 * time.Second

// get asks the base's web server.
func (b *jvm) get(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.Web()+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // what counts has been read
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}

// has waits until the base has exactly these modules, as name:version state.
func (b *jvm) has(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, "the base has its modules", func(ctx context.Context) error {
		list, err := b.Modules(ctx)
		if got := strings.Join(list, ", "); err == nil && got != strings.Join(want, ", ") {
			err = fmt.Errorf("it has %s, not %s", got, strings.Join(want, ", "))
		}
		return err
	})
}
