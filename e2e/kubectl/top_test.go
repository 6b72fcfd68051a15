package kubectl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// registered asks for whoever serves metrics.k8s.io.
var registered = []string{"get", "apiservice", "v1beta1.metrics.k8s.io", "-o", "jsonpath={.spec.service.name}"}

// usage is a row of kubectl top node: the name, the MiB and the percent of memory.
var usage = regexp.MustCompile(`(?m)^(vnode\.\S+) +0m +0% +(\d+Mi) +(\d+)% *$`)

// Nothing is registered in a sandbox that does not ask for it. In one that does, kubectl top node shows
// of the Node of each base what its capacity and allocatable memory say, and kubectl top pod says the
// sentence of the page. What a crash has left registered in a durable cluster, the next up removes.
func TestTop(t *testing.T) {
	if status, out := typed(t.Context(), t, registered...); status == 0 || !strings.Contains(out, "NotFound") {
		t.Errorf("without the option, somebody serves metrics.k8s.io: %s", out)
	}
	home, err := os.MkdirTemp("", "koup-e2e-") // as in TestMain
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) }) // a folder for temporary files
	b := &box.Box{Bin: program.Bin, Home: home, Name: envconf.RandomName("top", 12)}
	t.Cleanup(func() { check.Must(t, b.Down(context.Background())) })
	one, two := 1, 2
	spec := v1alpha1.Spec{Durable: true, Bases: v1alpha1.Bases{Count: &one}, Controller: v1alpha1.Controller{MetricsAPI: true, Replicas: &two}}
	check.Must(t, b.Up(t.Context(), spec))
	check.Eventually(t.Context(), t, patience, "kubectl top node shows what the Nodes say", func(ctx context.Context) error {
		_, nodes := typedInto(ctx, t, b, "get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.capacity.memory} {.status.allocatable.memory}{"\n"}{end}`)
		want := map[string]string{}
		for line := range strings.Lines(nodes) {
			if f := strings.Fields(line); len(f) == 3 {
				used := resource.MustParse(f[1])
				used.Sub(resource.MustParse(f[2]))
				allocatable := resource.MustParse(f[2])
				want[f[0]] = fmt.Sprintf("%s %d", used.String(), used.Value()*100/allocatable.Value())
			}
		}
		status, out := typedInto(ctx, t, b, "top", "node")
		got := map[string]string{}
		for _, m := range usage.FindAllStringSubmatch(out, -1) {
			got[m[1]] = m[2] + " " + m[3]
		}
		if diff := gocmp.Diff(want, got); diff != "" || status != 0 || len(want) != one {
			return fmt.Errorf("ended with %d and printed (-Nodes +top):\n%s\n%s", status, diff, out)
		}
		return nil
	})
	page, err := os.ReadFile(filepath.Join(repository, "docs", "en", "reference", "kubectl.md"))
	check.Must(t, err)
	_, sentence, _ := strings.Cut(string(page), "`kubectl top pod` then says: `")
	sentence, _, _ = strings.Cut(sentence, "`")
	if status, out := typedInto(t.Context(), t, b, "top", "pod"); status == 0 || sentence == "" || !strings.Contains(out, sentence) {
		t.Errorf("kubectl top pod ended with %d and printed, without %q:\n%s", status, sentence, out)
	}
	processes, err := b.Processes(t.Context())
	check.Must(t, err)
	for _, p := range processes {
		check.Must(t, p.Kill(t.Context()))
	}
	spec.Controller.MetricsAPI = false
	check.Must(t, b.Up(t.Context(), spec))
	if status, out := typedInto(t.Context(), t, b, registered...); status == 0 || !strings.Contains(out, "NotFound") {
		t.Errorf("after a crash and an up without the option, somebody serves metrics.k8s.io: %s", out)
	}
}
