package daemon

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
)

// TestResolveLocation checks that the controller runs in the cluster by default, and on this machine if it cannot run
// in the cluster, with a note that gives the reason. A configured location must not change.
func TestResolveLocation(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	header := elf.Header64{Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB),
		byte(elf.EV_CURRENT)}, Version: uint32(elf.EV_CURRENT)}
	var text bytes.Buffer
	err := binary.Write(&text, binary.LittleEndian, header)
	if err == nil {
		err = os.WriteFile(program, text.Bytes(), 0o755)
	}
	check.Must(t, err)
	for name, tc := range map[string]struct {
		given   v1alpha1.Location
		host    string
		program string
		want    v1alpha1.Location
		note    string
	}{
		"default":     {host: "172.18.0.1", program: program, want: v1alpha1.LocationCluster},
		"unreachable": {program: program, want: v1alpha1.LocationHost, note: "cannot reach each other"},
		"binary of another system": {host: "172.18.0.1", program: "topology_test.go", want: v1alpha1.LocationHost,
			note: "it is not a Linux binary"},
		"host configured": {given: v1alpha1.LocationHost, host: "172.18.0.1", program: program,
			want: v1alpha1.LocationHost},
		// fails later, with advice
		"cluster configured": {given: v1alpha1.LocationCluster, program: program, want: v1alpha1.LocationCluster},
	} {
		t.Run(name, func(t *testing.T) {
			config := &v1alpha1.Sandbox{
				Spec: v1alpha1.Spec{Provider: v1alpha1.ProviderKind,
					Controller: v1alpha1.Controller{Location: tc.given}}}
			v1alpha1.SetDefaults(config)
			var notes []string
			resolved := resolveLocation(config, cluster.Properties{Host: tc.host}, tc.program,
				func(note string) { notes = append(notes, note) })
			got := resolved.Spec
			if got.Controller.Location != tc.want || got.Broker.TLS != (tc.want == v1alpha1.LocationCluster) {
				t.Errorf("location %q, TLS %t; want %q", got.Controller.Location, got.Broker.TLS, tc.want)
			}
			if text := strings.Join(notes, "; "); !strings.Contains(text, tc.note) || tc.note == "" && text != "" {
				t.Errorf("notes %q, want %q", text, tc.note)
			}
			if other := changedSettings(resolved, config); len(other) > 0 {
				t.Errorf("the next up treats resolved fields as changed settings: %v", other)
			}
		})
	}
}

func TestChangedSettings(t *testing.T) {
	before, again := &v1alpha1.Sandbox{}, &v1alpha1.Sandbox{}
	again.Spec.Bases.Count, again.Spec.Wait = ptr.To(7), &metav1.Duration{Duration: time.Minute}
	for _, c := range []*v1alpha1.Sandbox{before, again} {
		v1alpha1.SetDefaults(c)
	}
	if other := changedSettings(before, again); len(other) > 0 {
		t.Errorf("changed settings with another number of bases and another timeout: %v", other)
	}
	again.Spec.Bases.Version, again.Spec.Bases.Runtime, again.Spec.Speed = "2.0.0", v1alpha1.RuntimeCluster, 5
	if diff := cmp.Diff([]string{"spec.bases.runtime", "spec.bases.version", "spec.speed"},
		changedSettings(before, again)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// TestBrokerHost checks that BrokerHost returns an address that all users of the broker can reach, or an error that
// suggests a fix.
func TestBrokerHost(t *testing.T) {
	for name, tc := range map[string]struct {
		location v1alpha1.Location
		runtime  v1alpha1.BaseRuntime
		host     string
		want     string
	}{
		"all local":              {v1alpha1.LocationHost, v1alpha1.RuntimeProcess, "172.18.0.1", "127.0.0.1"},
		"all local, unreachable": {v1alpha1.LocationHost, v1alpha1.RuntimeProcess, "", "127.0.0.1"},
		"controller remote": {v1alpha1.LocationCluster, v1alpha1.RuntimeProcess, "172.18.0.1",
			"172.18.0.1"},
		"bases remote":                   {v1alpha1.LocationHost, v1alpha1.RuntimeCluster, "172.18.0.1", "172.18.0.1"},
		"controller remote, unreachable": {v1alpha1.LocationCluster, v1alpha1.RuntimeProcess, "", "--controller host"},
		"bases remote, unreachable": {v1alpha1.LocationHost, v1alpha1.RuntimeCluster, "",
			"--base-runtime process"},
	} {
		t.Run(name, func(t *testing.T) {
			config := &v1alpha1.Sandbox{}
			config.Spec.Controller.Location, config.Spec.Bases.Runtime = tc.location, tc.runtime
			got, err := newTopology(config, cluster.Properties{Host: tc.host}).BrokerHost()
			if got != tc.want && (err == nil || !strings.HasSuffix(err.Error(), tc.want)) {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}
