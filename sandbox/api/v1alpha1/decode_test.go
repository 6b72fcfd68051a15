package v1alpha1_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1/internal/schema"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestInvalidFiles decodes each testdata/bad/x.yaml and compares the errors with x.txt.
func TestInvalidFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files found: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data := read(t, file)
			s, origins, err := v1alpha1.Decode("bad/"+filepath.Base(file), data)
			err = v1alpha1.Complete(s, origins, err)
			if err == nil {
				t.Fatal("Complete accepted the file")
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want := read(t, golden)
			if diff := cmp.Diff(strings.TrimSpace(string(want)), err.Error()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFullFile(t *testing.T) {
	s, origins, err := v1alpha1.Decode("full.yaml", read(t, "testdata/full.yaml"))
	if err := v1alpha1.Complete(s, origins, err); err != nil {
		t.Fatal(err)
	}
	count, replicas := 20, 2
	want := &v1alpha1.Sandbox{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind},
		Metadata: v1alpha1.Metadata{Name: "demo"},
		Spec: v1alpha1.Spec{
			Provider: v1alpha1.ProviderExisting,
			Cluster:  v1alpha1.Cluster{Kubeconfig: "/home/me/.kube/config", Context: "kind-demo", Consent: true},
			Speed:    1,
			Durable:  true,
			Env:      "test",
			Bases: []v1alpha1.BaseSet{
				withDefaults(v1alpha1.BaseSet{Name: "shop", Count: &count, Version: "2.0", ClusterName: "east",
					Activation: v1alpha1.ActivationMulti, Zone: "zone-a", Labels: map[string]string{"rack": "7"},
					Metaspace: v1alpha1.Metaspace{Max: "128Mi", Leak: 50}, Web: true}),
				withDefaults(v1alpha1.BaseSet{Name: "old", Count: ptr.To(1), ClusterName: "demo",
					Tunnel: v1alpha1.TunnelHTTP, Generation: "A"}),
			},
			Fleet: v1alpha1.Fleet{Runtime: v1alpha1.RuntimeProcess},
			Broker: v1alpha1.Broker{Port: 1883, TLS: true, URL: "ssl://broker.example", Username: "me",
				PasswordFile: "/home/me/password",
				CAFile:       "/home/me/ca.crt", CertFile: "/home/me/me.crt", KeyFile: "/home/me/me.key",
				Consent: true},
			Controller: v1alpha1.Controller{Location: v1alpha1.LocationHost, Replicas: &replicas,
				Env: map[string]string{"REPORT_HOOKS": "http://127.0.0.1:9/hook"}},
			Wait: &metav1.Duration{Duration: 150 * time.Second},
		},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// withDefaults returns a set of bases with the defaults that Complete sets.
func withDefaults(b v1alpha1.BaseSet) v1alpha1.BaseSet {
	or := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	none := &metav1.Duration{}
	or(&b.BaseName, b.Name)
	or(&b.Version, "1.0.0")
	or((*string)(&b.Generation), "C")
	or((*string)(&b.Tunnel), "mqtt")
	or((*string)(&b.Activation), "newModule")
	b.WebPort, b.Fetch = 8080, v1alpha1.FetchNever
	b.InstallTime, b.UninstallTime, b.PullTime, b.RequestTime, b.StartupTime = none, none, none, none, none
	or(&b.Metaspace.Max, "256Mi")
	or(&b.Metaspace.Used, "53Mi")
	or(&b.Metaspace.PerModule, "3Mi")
	b.Health.SilenceBeforeUninstall, b.Health.Show = none, v1alpha1.ShowDetails
	return b
}

func TestDefaults(t *testing.T) {
	s := &v1alpha1.Sandbox{}
	if err := v1alpha1.Complete(s, &v1alpha1.Origins{}, nil); err != nil {
		t.Fatal(err)
	}
	count, replicas := 3, 1
	want := &v1alpha1.Sandbox{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind},
		Metadata: v1alpha1.Metadata{Name: "koup"},
		Spec: v1alpha1.Spec{
			Provider: v1alpha1.ProviderAuto,
			Speed:    1,
			Bases: []v1alpha1.BaseSet{
				withDefaults(v1alpha1.BaseSet{Name: "base", Count: &count, ClusterName: "koup"})},
			Fleet:      v1alpha1.Fleet{Runtime: v1alpha1.RuntimeProcess},
			Controller: v1alpha1.Controller{Replicas: &replicas},
			Wait:       &metav1.Duration{Duration: time.Minute},
		},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

// TestDefaultLocation checks that Complete sets no default for the controller location if the default depends on the
// machine.
func TestDefaultLocation(t *testing.T) {
	for provider, want := range map[v1alpha1.Provider]v1alpha1.Location{
		v1alpha1.ProviderAuto: "", v1alpha1.ProviderKind: "", v1alpha1.ProviderEmbedded: v1alpha1.LocationHost,
		v1alpha1.ProviderExisting: v1alpha1.LocationHost,
	} {
		s := &v1alpha1.Sandbox{Spec: v1alpha1.Spec{Provider: provider}}
		if provider == v1alpha1.ProviderExisting {
			s.Spec.Cluster.Context = "mine"
		}
		if err := v1alpha1.Complete(s, &v1alpha1.Origins{}, nil); err != nil || s.Spec.Controller.Location != want {
			t.Errorf("%s: %q (%v), want %q", provider, s.Spec.Controller.Location, err, want)
		}
	}
	s := &v1alpha1.Sandbox{Spec: v1alpha1.Spec{Provider: v1alpha1.ProviderKind,
		Controller: v1alpha1.Controller{Location: v1alpha1.LocationCluster}}}
	if err := v1alpha1.Complete(s, &v1alpha1.Origins{}, nil); err != nil || !s.Spec.Broker.TLS {
		t.Errorf("TLS with the location cluster = %t (%v), want true", s.Spec.Broker.TLS, err)
	}
}

func TestErrorNamesFlagInsteadOfLine(t *testing.T) {
	s, origins, err := v1alpha1.Decode("full.yaml", read(t, "testdata/full.yaml"))
	zero := 0
	s.Spec.Bases = []v1alpha1.BaseSet{{Count: &zero}}
	origins.SetFlag("spec.bases[0].count", "--bases")
	err = v1alpha1.Complete(s, origins, err)
	if err == nil {
		t.Fatal("Complete accepted 0 bases")
	}
	if !strings.HasPrefix(err.Error(), "--bases: Invalid value: 0: ") || !strings.Contains(err.Error(), "20000") {
		t.Errorf("problem: %v", err)
	}
}

func TestErrorNamesFlagOfMissingField(t *testing.T) {
	for file, want := range map[string]string{
		"":        "--context: Required value: ",
		"my.yaml": "my.yaml:1: spec.cluster.context: Required value: ",
	} {
		s, origins, err := &v1alpha1.Sandbox{}, &v1alpha1.Origins{}, error(nil)
		if file != "" {
			s, origins, err = v1alpha1.Decode(file,
				[]byte("{apiVersion: sandbox.koupleless.io/v1alpha1, kind: Sandbox}"))
		}
		s.Spec.Provider = v1alpha1.ProviderExisting
		origins.SuggestFlag("spec.cluster.context", "--context")
		err = v1alpha1.Complete(s, origins, err)
		if err == nil {
			t.Fatal("Complete accepted a missing context")
		}
		if !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("problem %v, want %s", err, want)
		}
	}
}

func TestSchemasAreUpToDate(t *testing.T) {
	for file, generate := range schema.Files {
		want, err := generate(".")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(read(t, file))); diff != "" {
			t.Errorf("run go generate ./sandbox/api/v1alpha1 (-generated +file):\n%s", diff)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/bad/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, origins, err := v1alpha1.Decode("f.yaml", data)
		completeErr := v1alpha1.Complete(s, origins, err)
		if err != nil && completeErr == nil {
			t.Errorf("Complete lost the error %q", err)
		}
		if completeErr != nil {
			if !strings.Contains(completeErr.Error(), "f.yaml") {
				t.Errorf("error without a file name: %v", completeErr)
			}
			return
		}
		written, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, origins, err := v1alpha1.Decode("again", written)
		if err := v1alpha1.Complete(again, origins, err); err != nil {
			t.Fatalf("second decode of %s: %v", written, err)
		}
		if diff := cmp.Diff(s, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-first +second):\n%s", written, diff)
		}
	})
}

// FuzzFault checks that an accepted fault stays the same when it is encoded and decoded, and that connection faults
// (targets api and mqtt) have a limited duration.
func FuzzFault(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte, target string) {
		to := v1alpha1.FaultTarget(target)
		decode := func(text []byte) (*v1alpha1.Fault, error) {
			r := &v1alpha1.Fault{}
			if _, problems := strictyaml.Decode("fault", text, r); len(problems) > 0 {
				return nil, problems
			}
			v1alpha1.SetFaultDefaults(to, r)
			return r, v1alpha1.ValidateFault(to, r).ToAggregate()
		}
		first, err := decode(text)
		if err != nil {
			return
		}
		if first.Count < 0 || first.Skip < 0 ||
			to != v1alpha1.TargetBase && (first.For <= 0 || first.For > fault.Duration(10*time.Minute)) {
			t.Errorf("ValidateFault accepted %+v", first)
		}
		written, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := decode(written)
		if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s: %v (-first +second):\n%s", written, err, diff)
		}
	})
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
