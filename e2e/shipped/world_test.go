package shipped

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/mochi"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/sandbox/bench"
)

// manifestEnv returns the environment of the controller in deployment.yaml. Variables from an optional Secret are
// unset, as in a cluster without that Secret.
func manifestEnv(t *testing.T, podName string) map[string]string {
	t.Helper()
	text, err := deploy.FS.ReadFile("deployment.yaml")
	must(t, err)
	objects, err := deploy.Parse(text)
	must(t, err)
	var d appsv1.Deployment
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, &d))
	env := map[string]string{}
	for _, v := range d.Spec.Template.Spec.Containers[0].Env {
		switch from := v.ValueFrom; {
		case from == nil:
			env[v.Name] = v.Value
		case from.FieldRef != nil:
			env[v.Name] = map[string]string{"metadata.name": podName, "metadata.namespace": namespace, "status.podIP": "127.0.0.1"}[from.FieldRef.FieldPath]
		}
	}
	return env
}

// process is a process that a test has started.
type process struct {
	id  string
	cmd *exec.Cmd
	log string // file with its output
	end func() // kills the process, and waits for its end
}

// start starts a program of the product with the given environment and nothing else.
func start(t *testing.T, id, program string, env map[string]string, args ...string) *process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), id+".log"))
	must(t, err)
	cmd := exec.Command(filepath.Join(programs, program), args...)
	cmd.Env = []string{}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	must(t, log.Close())
	p := &process{id: id, cmd: cmd, log: log.Name(), end: sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // the process may have ended
		_ = cmd.Wait()
	})}
	t.Cleanup(func() {
		p.end()
		if t.Failed() {
			lines := strings.Split(strings.TrimSpace(p.output()), "\n")
			t.Logf("the last lines of %s:\n%s", id, strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	})
	return p
}

func (p *process) output() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// logged returns the word that follows text in the log.
func (p *process) logged(text string) (string, error) {
	_, after, ok := strings.Cut(p.output(), text)
	if !ok || !strings.ContainsAny(after, " \n") {
		return "", fmt.Errorf("the log of %s does not have %q", p.id, text)
	}
	return strings.Fields(after)[0], nil
}

// controller starts a controller with the environment of the manifest. Only the settings that a process on this
// machine needs are different: the broker's address without TLS, the kubeconfig, and the listeners. set has
// further differences.
func controller(t *testing.T, id, brokerAddr string, set map[string]string) *process {
	t.Helper()
	env := manifestEnv(t, id)
	delete(env, "MQTT_CA_PATH")
	env["KUBECONFIG"], env["HEALTH_ADDR"], env["METRICS_ADDR"] = controllerKubeconfig, "127.0.0.1:0", "127.0.0.1:0"
	env["HTTP_TUNNEL_LISTEN_HOST"], env["HTTP_TUNNEL_LISTEN_PORT"] = "127.0.0.1", "0"
	if brokerAddr != "" {
		var err error
		env["MQTT_BROKER"], env["MQTT_PORT"], err = net.SplitHostPort(brokerAddr)
		must(t, err)
	}
	for name, value := range set {
		env[name] = value
	}
	return start(t, id, box.ControllerProgram, env)
}

func (p *process) ready(t *testing.T) {
	t.Helper()
	eventually(t, p.id+" is ready", func(ctx context.Context) error {
		_, err := p.ask(ctx, "health", "/readyz")
		return err
	})
}

// ask sends a GET to the listener for health or metrics. A status other than 200 is an error.
func (p *process) ask(ctx context.Context, listener, path string) ([]byte, error) {
	addr, err := p.logged("msg=serving what=" + listener + " addr=")
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	var body bytes.Buffer
	if _, err := body.ReadFrom(answer.Body); err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s to %s: %s", p.id, answer.Status, path, body.String())
	}
	return body.Bytes(), nil
}

func (p *process) metrics(ctx context.Context) (bench.Metrics, error) {
	text, err := p.ask(ctx, "metrics", "/metrics")
	if err != nil {
		return nil, err
	}
	return bench.ParseMetrics(bytes.NewReader(text))
}

// mqttBroker is a broker that a test can stop and start again at the same address.
type mqttBroker struct {
	addr string
	stop func()
}

func startBroker(t *testing.T, addr string) *mqttBroker {
	t.Helper()
	var l net.Listener
	eventually(t, "the broker's port is free", func(ctx context.Context) (err error) {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		return err
	})
	end, err := mochi.Serve(l)
	must(t, err)
	b := &mqttBroker{addr: l.Addr().String(), stop: sync.OnceFunc(func() {
		if err := end(); err != nil {
			t.Errorf("stopping the broker: %v", err)
		}
	})}
	t.Cleanup(b.stop)
	return b
}

// environment returns an environment that no other test uses.
func environment() string { return envconf.RandomName("env", 10) }

// nodes returns the Nodes of the bases of an environment.
func nodes(ctx context.Context, env string) ([]corev1.Node, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.Env + "=" + env})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// allReady reports an error unless an environment has n Nodes, all of them Ready.
func allReady(ctx context.Context, env string, n int) error {
	list, err := nodes(ctx, env)
	if err != nil {
		return err
	}
	var errs []error
	for i := range list {
		if !check.NodeReady(&list[i]) {
			errs = append(errs, fmt.Errorf("node %s is not Ready: %+v", list[i].Name, list[i].Status.Conditions))
		}
	}
	if len(list) != n {
		errs = append(errs, fmt.Errorf("there are %d Nodes, not %d", len(list), n))
	}
	return errors.Join(errs...)
}

// nodeReady reports an error unless a Node is Ready.
func nodeReady(ctx context.Context, name string) error {
	n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err == nil && !check.NodeReady(n) {
		err = fmt.Errorf("node %s is not Ready: %+v", name, n.Status.Conditions)
	}
	return err
}

// deployModule creates a namespace with a Deployment of a module for the bases of an environment, and waits until all
// replicas are Ready. remove deletes the namespace.
func deployModule(t *testing.T, env, name string, replicas int32) (ns string, remove func()) {
	t.Helper()
	return deployModuleOn(t, env, name, "", replicas)
}

// deployModuleOn does the same for the bases of one name.
func deployModuleOn(t *testing.T, env, name, baseName string, replicas int32) (ns string, remove func()) {
	t.Helper()
	ns = envconf.RandomName("modules", 14)
	ctx := context.WithoutCancel(t.Context())
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
	must(t, err)
	remove = sync.OnceFunc(func() {
		if err := client.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	t.Cleanup(remove)
	template := module.Template(name, module.Container(name, "1.0.0"))
	template.Spec.NodeSelector[labels.Env] = env
	if baseName != "" {
		template.Spec.NodeSelector[labels.BaseName] = baseName
	}
	module.OnePerBase(&template)
	_, err = client.AppsV1().Deployments(ns).Create(ctx, module.Deployment(ns, name, replicas, template), metav1.CreateOptions{})
	must(t, err)
	eventually(t, "the Pods of "+name+" are Ready", func(ctx context.Context) error {
		d, err := client.AppsV1().Deployments(ns).Get(ctx, name, metav1.GetOptions{})
		if err == nil && d.Status.ReadyReplicas != replicas {
			err = fmt.Errorf("%d of %d are", d.Status.ReadyReplicas, replicas)
		}
		return err
	})
	return ns, remove
}

// counted reports an error unless a counter with some labels has reached n.
func (p *process) counted(ctx context.Context, name string, with map[string]string, n float64) error {
	m, err := p.metrics(ctx)
	if err != nil {
		return err
	}
	have := m.Sum(name, func(labels map[string]string) bool {
		for label, value := range with {
			if labels[label] != value {
				return false
			}
		}
		return true
	})
	if have < n {
		return fmt.Errorf("%s %v is %v, not %v", name, with, have, n)
	}
	return nil
}
