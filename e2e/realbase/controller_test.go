package realbase

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// TestInstallAndUninstall checks that the module of a Pod is installed from a file or over HTTP, answers requests,
// and is uninstalled when the Pod is deleted.
func TestInstallAndUninstall(t *testing.T) {
	t.Parallel()
	for tunnel, url := range map[recording.Tunnel]func(string) string{recording.MQTT: fileURL,
		recording.HTTP: serverURL} {
		t.Run(string(tunnel), func(t *testing.T) {
			t.Parallel()
			b, ns := start(t, options(t, tunnel, recording.Settings{})), namespace(t)
			pod := module.Pod(ns, "shop", shopTemplate(b, "shop", "1.0.0", url(ShopJar1)))
			_, err := client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
			must(t, err)
			waitReady(t, ns, "shop")
			b.waitModules(t, "shop:1.0.0 activated")
			if got, err := b.get(t.Context(), "/shop-1.0.0/version"); got != "1.0.0" || err != nil {
				t.Errorf("the module answers %q, %v", got, err)
			}
			deletePod(t, ns, "shop")
			b.waitModules(t)
			if got, err := b.get(t.Context(), "/shop-1.0.0/version"); err == nil {
				t.Errorf("the module answers %q after its uninstall", got)
			}
		})
	}
}

// TestRollingUpdate checks that a rolling update loses no requests. Over MQTT, the base must set
// activate.new.module=true. Over HTTP, the base needs no flags, because the controller sends switchBiz.
func TestRollingUpdate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tunnel   recording.Tunnel
		settings recording.Settings
	}{
		"MQTT, base activates the new version": {recording.MQTT, recording.Settings{Activation: "new"}},
		"HTTP, controller switches versions":   {recording.HTTP, recording.Settings{}},
		"HTTP, base activates the new version": {recording.HTTP, recording.Settings{Activation: "new"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, ns := start(t, options(t, c.tunnel, c.settings)), namespace(t)
			spec := shopTemplate(b, "shop", "1.0.0", fileURL(ShopJar1))
			module.OnePerBase(&spec)
			_, err := client.AppsV1().Deployments(ns).Create(t.Context(), module.Deployment(ns, "shop", 1, spec),
				metav1.CreateOptions{})
			must(t, err)
			waitRolledOut(t, ns, b, "1.0.0")
			load := startLoad(t, b, "/front/shop/version")
			patch := fmt.Appendf(nil,
				`{"spec":{"template":{"spec":{"containers":[{"name":"shop","image":%q,"env":[{"name":%q,"value":"2.0.0"}]}]}}}}`,
				fileURL(ShopJar2), module.EnvVersion)
			_, err = client.AppsV1().Deployments(ns).Patch(t.Context(), "shop", types.StrategicMergePatchType, patch,
				metav1.PatchOptions{})
			must(t, err)
			waitRolledOut(t, ns, b, "2.0.0")
			load.requireLossless(t)
		})
	}
}

// TestForwardedRequestsDoNotBlockServer checks that a web server with one thread answers concurrent requests. The
// threads of the web server must not block while a base forwards requests to its module.
func TestForwardedRequestsDoNotBlockServer(t *testing.T) {
	t.Parallel()
	o := options(t, recording.HTTP, recording.Settings{})
	o.JVM = []string{"-Dserver.tomcat.threads.max=1", "-Dserver.tomcat.threads.min-spare=1"}
	b := start(t, o)
	b.install(t, "1.0.0", ShopJar1)
	var requests sync.WaitGroup
	for range 10 {
		requests.Go(func() {
			if got, err := b.get(t.Context(), "/front/shop/version"); got != "1.0.0" || err != nil {
				t.Errorf("the module answers %q, %v", got, err)
			}
		})
	}
	requests.Wait()
}

// install installs a version of the module shop directly, without the controller.
func (b *jvm) install(t *testing.T, version, jar string) {
	t.Helper()
	answer, err := b.Command(t.Context(), "installBiz",
		fmt.Sprintf(`{"bizName":"shop","bizVersion":%q,"bizUrl":%q}`, version, fileURL(jar)))
	if err != nil || !strings.HasPrefix(answer, `{"code":"SUCCESS"`) {
		t.Fatalf("installing version %s: %s, %v", version, answer, err)
	}
}

// waitRolledOut waits until the rollout of the Deployment is complete, and the base has only the given version.
func waitRolledOut(t *testing.T, ns string, b *jvm, version string) {
	t.Helper()
	eventually(t, "the Pod has "+version, func(ctx context.Context) error {
		d, err := client.AppsV1().Deployments(ns).Get(ctx, "shop", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != 1 || s.Replicas != 1 ||
			s.AvailableReplicas != 1 {
			return fmt.Errorf("status of the Deployment: %+v, Pods: %s", s, describePods(ctx, ns))
		}
		return nil
	})
	b.waitModules(t, "shop:"+version+" activated")
}

// describePods returns the states of all Pods in a namespace, for use in messages.
func describePods(ctx context.Context, ns string) string {
	list, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var all []string
	for i := range list.Items {
		all = append(all, describe(&list.Items[i]))
	}
	return strings.Join(all, "; ")
}

// load is an open-loop load generator: it sends requests at a fixed rate, independently of the responses.
type load struct {
	stop func()

	mu      sync.Mutex
	answers map[string]int
	bad     []string
}

// requestInterval is the time between the starts of two requests.
const requestInterval = 10 * time.Millisecond

// startLoad starts to send requests in the background. It sends them until stop is called or the test ends.
func startLoad(t *testing.T, b *jvm, path string) *load {
	t.Helper()
	l := &load{answers: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(requestInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				running.Go(func() {
					answer, err := b.get(context.WithoutCancel(ctx), path)
					l.mu.Lock()
					defer l.mu.Unlock()
					if err != nil {
						l.bad = append(l.bad, err.Error())
					}
					l.answers[answer]++
				})
			}
		}
	})
	l.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(l.stop)
	return l
}

// requireLossless stops the load. It fails the test unless all requests were answered, and each of the two versions
// answered some of them.
func (l *load) requireLossless(t *testing.T) {
	t.Helper()
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("requests by version: %v, lost: %d", l.answers, len(l.bad))
	if len(l.bad) > 0 || l.answers["1.0.0"] == 0 || l.answers["2.0.0"] == 0 {
		t.Errorf("requests by version: %v; lost: %d, the first error: %v", l.answers, len(l.bad),
			l.bad[:min(1, len(l.bad))])
	}
}

// TestFailures checks that the Ready condition of a Pod contains the error code of a real base after a failed
// install.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, tunnel := range tunnels {
		t.Run(string(tunnel), func(t *testing.T) {
			t.Parallel()
			b, ns := start(t, options(t, tunnel, recording.Settings{Activation: "new"})), namespace(t)
			for _, c := range []struct{ pod, name, version, url, want string }{
				{"first", "shop", "1.0.0", fileURL(ShopJar1), ""},
				{"throwing", "throwing", "1.0.0", fileURL("throwing.jar"),
					"User.InstallModuleFailed: User.InstallBizUserError"},
				{"missing", "missing", "1.0.0", serverURL("missing.jar"),
					"Arklet.InstallModuleFailed: Arklet.PullBizError"},
				{"no-jar", "none", "1.0.0", serverURL("?list"),
					"Arklet.InstallModuleFailed: Arklet.InstallationRequirementNotMet"},
				{"same-path", "shop", "2.0.0", fileURL("same-path.jar"),
					"User.InstallModuleFailed: User.InstallBizUserError"},
			} {
				_, err := client.CoreV1().Pods(ns).Create(t.Context(),
					module.Pod(ns, c.pod, shopTemplate(b, c.name, c.version, c.url)), metav1.CreateOptions{})
				must(t, err)
				if c.want == "" {
					waitReady(t, ns, c.pod)
					continue
				}
				eventually(t, "the Ready condition of Pod "+c.pod+" contains "+c.want, func(ctx context.Context) error {
					p, err := client.CoreV1().Pods(ns).Get(ctx, c.pod, metav1.GetOptions{})
					if err == nil && !notReadyWith(p, c.want) {
						err = errors.New(describe(p))
					}
					return err
				})
				deletePod(t, ns, c.pod)
			}
			b.waitModules(t, "shop:1.0.0 activated") // the failed installs do not affect this module
			deletePod(t, ns, "first")
		})
	}
}

// notReadyWith reports whether the Pod's Ready condition is not True and its message contains text.
func notReadyWith(p *corev1.Pod, text string) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && strings.Contains(c.Message, text) {
			return true
		}
	}
	return false
}

// waitBaseline waits until the controller has answered the baseline query of a base with the given number of modules.
func waitBaseline(t *testing.T, identity string, modules int) {
	t.Helper()
	want := fmt.Sprintf(`msg="a base queried its baseline" base=%s modules=%d`, identity, modules)
	eventually(t, "the controller answers with a baseline", func(context.Context) error {
		log, err := os.ReadFile(shared.Log(box.ControllerBinary))
		if err == nil && !strings.Contains(string(log), want) {
			err = fmt.Errorf("the log of the controller does not contain %s", want)
		}
		return err
	})
}

// TestRestart checks that the modules of a base are installed again after the base crashes. Over MQTT, the base
// queries its baseline. Over HTTP, the controller sends install commands.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, tunnel := range tunnels {
		t.Run(string(tunnel), func(t *testing.T) {
			t.Parallel()
			o := options(t, tunnel, recording.Settings{})
			b, ns := start(t, o), namespace(t)
			set := module.DaemonSet(ns, "shop", shopTemplate(b, "shop", "1.0.0", fileURL(ShopJar1)))
			_, err := client.AppsV1().DaemonSets(ns).Create(t.Context(), set, metav1.CreateOptions{})
			must(t, err)
			b.waitModules(t, "shop:1.0.0 activated")
			b.kill()
			b = start(t, o)
			if tunnel == recording.MQTT {
				waitBaseline(t, o.Identity, 1)
			}
			b.waitModules(t, "shop:1.0.0 activated")
			eventually(t, "the Pod is Ready", func(ctx context.Context) error {
				s, err := client.AppsV1().DaemonSets(ns).Get(ctx, "shop", metav1.GetOptions{})
				if err == nil && s.Status.NumberReady != 1 {
					err = fmt.Errorf("status of the DaemonSet: %+v, Pods: %s", s.Status, describePods(ctx, ns))
				}
				return err
			})
			if got, err := b.get(t.Context(), "/shop-1.0.0/version"); got != "1.0.0" || err != nil {
				t.Errorf("the module answers %q, %v", got, err)
			}
		})
	}
}
