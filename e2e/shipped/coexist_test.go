package shipped

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// The environment of the manifests. Only TestCoexistence uses it.
const shippedEnv = "dev"

// A cluster already has two replicas of the shipped Deployment, with bases, modules and clients. A sandbox that
// uses the cluster changes no Pod, Node or Lease of the first environment, and no request fails. After down, no
// object of the sandbox is left.
func TestCoexistence(t *testing.T) {
	broker := startBroker(t, "127.0.0.1:0")
	controllers := []*process{controller(t, "module-controller-first", broker.addr, nil), controller(t, "module-controller-second", broker.addr, nil)}
	for _, c := range controllers {
		c.ready(t)
	}
	bases := map[string]*process{}
	for i := range 2 {
		ip := fmt.Sprintf("198.18.77.%d", i+1)
		bases[ip] = start(t, fmt.Sprintf("shop-%d", i+1), "fakebase", nil, "--mqtt", "tcp://"+broker.addr, "--identity", fmt.Sprintf("shop-%d", i+1),
			"--ip", ip, "--name", "shop", "--activation", "new", "--web")
	}
	eventually(t, "the bases are Ready", func(ctx context.Context) error { return allReady(ctx, shippedEnv, len(bases)) })
	ns, _ := deployModule(t, shippedEnv, "orders", int32(len(bases))) //nolint:gosec // a handful
	webAddr := map[string]string{}
	for ip, p := range bases {
		addr, err := p.logged("web " + p.id + " ")
		must(t, err)
		webAddr[ip] = addr
	}
	clients := sendRequests(t, ns, "orders", webAddr)
	clients.noneLost(t, "before the sandbox comes")
	settled(t, len(bases))
	changed := watchChanges(t, ns, shippedEnv)
	before, err := inventory(t.Context())
	must(t, err)

	for name, flags := range map[string][]string{"defaults": nil, "two controllers": {"--controllers", "2"}} {
		t.Run(name, func(t *testing.T) {
			sandbox := existing(t)
			must(t, sandbox.Must(t.Context(), upArgs(flags...)...))
			clients.noneLost(t, "when the sandbox is up")
			broker, err := sandbox.Broker()
			must(t, err)
			if broker.Env == shippedEnv {
				t.Errorf("the sandbox uses the environment %s, which has a controller", broker.Env)
			}
			_, remove := deployModule(t, broker.Env, "basket", 3)
			clients.noneLost(t, "when the sandbox has a module")
			remove()
			must(t, sandbox.Must(t.Context(), "down"))
			clients.noneLost(t, "when the sandbox is gone")
			changed.none(t, "while a sandbox came and went")
			sameInventory(t, before)
		})
	}
	t.Run("the same environment", func(t *testing.T) {
		sandbox := existing(t)
		r, err := sandbox.Run(t.Context(), upArgs("--env", shippedEnv)...)
		must(t, err)
		said := r.Out + r.Err
		if r.Status == 0 || !strings.Contains(said, controllers[0].id) && !strings.Contains(said, controllers[1].id) {
			t.Errorf("up ended with status %d and did not name the controller that has the environment:\n%s", r.Status, said)
		}
		clients.noneLost(t, "after up with the same environment")
		changed.none(t, "after up with the same environment")
		sameInventory(t, before)
	})
}

// existing is a sandbox that uses the cluster. It is taken down when the test ends.
func existing(t *testing.T) *box.Box {
	t.Helper()
	b := &box.Box{Bin: programs, Home: home, Name: environment(), Provider: v1alpha1.ProviderExisting}
	t.Cleanup(func() { must(t, b.Down(context.Background())) })
	return b
}

func upArgs(flags ...string) []string {
	return append([]string{"up", "--provider", "existing", "--kubeconfig", userKubeconfig, "--context", userContext, "--i-know-what-i-do"}, flags...)
}

// settled waits until the Nodes of the bases have a holder and do not change between two polls.
func settled(t *testing.T, n int) {
	t.Helper()
	last := ""
	eventually(t, "the Nodes are settled", func(ctx context.Context) error {
		list, err := nodes(ctx, shippedEnv)
		if err != nil {
			return err
		}
		now := ""
		for _, node := range list {
			now += fmt.Sprintf("%s %v %v\n", node.Name, node.Annotations, node.Spec)
		}
		if len(list) != n || now != last {
			last = now
			return fmt.Errorf("the Nodes were %s", now)
		}
		return nil
	})
}
