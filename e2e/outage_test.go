package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	basefault "github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
)

// The broker restarts: bases and controller come back by themselves, no Node is
// lost for it, and modules can be installed and uninstalled as before.
func TestBrokerRestart(t *testing.T) {
	const before, after = "older", "newer"
	var nodes map[string]types.UID
	f := features.New("broker restart").
		Setup(step(func(ctx context.Context, t *testing.T, ns string) {
			_, err := client.AppsV1().DaemonSets(ns).Create(ctx, module.DaemonSet(ns, before, template(before, "1.0.0")), metav1.CreateOptions{})
			must(t, err)
			eventually(ctx, t, "every base has a module", func(ctx context.Context) error { return serves(ctx, client, up, ns, sharedBases) })
			nodes, err = uids(ctx)
			must(t, err)
			must(t, up.Act(ctx, sandbox.ActRequest{Component: "broker", Action: "restart"}))
		})).
		Assess("bases come back to the same Nodes", step(func(ctx context.Context, t *testing.T, _ string) {
			eventually(ctx, t, "all is well", func(ctx context.Context) error { return well(ctx) })
			now, err := uids(ctx)
			must(t, err)
			if diff := cmp.Diff(nodes, now); diff != "" {
				t.Errorf("Nodes (-before +after):\n%s", diff)
			}
		})).
		Assess("another module is installed beside the one from before", step(func(ctx context.Context, t *testing.T, ns string) {
			_, err := client.AppsV1().DaemonSets(ns).Create(ctx, module.DaemonSet(ns, after, template(after, "1.0.0")), metav1.CreateOptions{})
			must(t, err)
			eventually(ctx, t, "every base has both modules", func(ctx context.Context) error { return serves(ctx, client, up, ns, 2*sharedBases) })
		})).
		Assess("the one from before is uninstalled", step(func(ctx context.Context, t *testing.T, ns string) {
			must(t, client.AppsV1().DaemonSets(ns).Delete(ctx, before, metav1.DeleteOptions{}))
			eventually(ctx, t, "it is on no base", func(ctx context.Context) error { return spread(ctx, before, 0) })
		}))
	testenv.Test(t, f.Feature())
}

func uids(ctx context.Context) (map[string]types.UID, error) {
	nodes, err := vnodes(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]types.UID{}
	for name, n := range nodes {
		found[name] = n.UID
	}
	return found, nil
}

// well checks that the shared sandbox has nothing to complain about.
func well(ctx context.Context) error {
	r, err := shared.Run(ctx, "status")
	if err == nil && r.Status != 0 {
		err = fmt.Errorf("koupsandbox status:\n%s%s", r.Out, r.Err)
	}
	return err
}

// The controller restarts while modules are being installed: the next one goes
// on where it was, and no base installs anything twice.
func TestControllerRestart(t *testing.T) {
	const modules = 6
	containers := make([]corev1.Container, modules)
	for i := range containers {
		containers[i] = module.Container(fmt.Sprintf("part-%d", i), "1.0.0")
	}
	f := features.New("controller restart").
		Setup(step(func(ctx context.Context, t *testing.T, ns string) {
			list, err := bases(ctx, up)
			must(t, err)
			clearFaults := func() {
				for _, b := range list {
					must(t, up.ClearFaults(context.WithoutCancel(ctx), sandbox.FaultSelector{Bases: []string{b.HostName}}))
				}
			}
			t.Cleanup(clearFaults)
			for _, b := range list { // so that there is a middle
				_, err := up.SetFault(ctx, fault.Injection{Bases: []string{b.HostName}, Fault: v1alpha1.FaultOf(basefault.Fault{
					Kind: basefault.KindLatency, Delay: basefault.Delay{Min: basefault.Duration(time.Hour)}, Match: basefault.Match{Commands: []string{"installBiz"}},
				})})
				must(t, err)
			}
			_, err = client.AppsV1().DaemonSets(ns).Create(ctx, module.DaemonSet(ns, "parts", module.Template("parts", containers...)), metav1.CreateOptions{})
			must(t, err)
			eventually(ctx, t, "all Pods are on their bases and none is Ready", func(ctx context.Context) error { return underWay(ctx, ns) })
			must(t, up.Act(ctx, sandbox.ActRequest{Component: "module-controller", Action: "restart"}))
			must(t, underWay(ctx, ns)) // otherwise it was not in the middle
			clearFaults()
		})).
		Assess("all modules are installed in the end", step(func(ctx context.Context, t *testing.T, ns string) {
			eventually(ctx, t, "every base has all modules", func(ctx context.Context) error { return serves(ctx, client, up, ns, sharedBases) })
		})).
		Assess("none was installed twice", step(func(_ context.Context, t *testing.T, _ string) {
			want, got := map[string]int{}, installs(t, "part-")
			for _, c := range containers {
				want[c.Name+":1.0.0"] = sharedBases
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("installs, on all bases together (-want +got):\n%s", diff)
			}
		}))
	testenv.Test(t, f.Feature())
}

// underWay checks that every base has its Pod and that no Pod is Ready.
func underWay(ctx context.Context, namespace string) error {
	list, err := pods(ctx, client, namespace)
	if err != nil {
		return err
	}
	bound := 0
	for _, p := range list {
		if module.IsReady(&p) {
			return fmt.Errorf("pod %s is Ready already", p.Name)
		}
		if p.Spec.NodeName != "" {
			bound++
		}
	}
	if bound != sharedBases {
		return fmt.Errorf("%d of %d Pods are on a base", bound, sharedBases)
	}
	return nil
}

// installs counts what the bases say that they installed, by module.
func installs(t *testing.T, prefix string) map[string]int {
	t.Helper()
	log, err := os.Open(shared.Log("daemon"))
	must(t, err)
	defer func() { _ = log.Close() }() // it was only read
	counts := map[string]int{}
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if !strings.Contains(lines.Text(), `msg="biz installed"`) {
			continue
		}
		_, rest, _ := strings.Cut(lines.Text(), " biz=")
		if biz, _, _ := strings.Cut(rest, " "); strings.HasPrefix(biz, prefix) {
			counts[biz]++
		}
	}
	must(t, lines.Err())
	return counts
}
