package fakebase

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	broker "github.com/mochi-mqtt/server/v2"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// known is an accepted difference between the bases: an entry of testdata/real/differences.yaml.
type known struct {
	// Recordings contains path.Match patterns for the names of the recordings in which the difference is accepted.
	Recordings []string `json:"recordings"`
	// Path, Real and Fake must be equal to the fields of the mismatch. Path contains * in place of indices, and may
	// omit leading fields. An empty Real or Fake matches any value.
	Path   string `json:"path"`
	Real   string `json:"real"`
	Fake   string `json:"fake"`
	Reason string `json:"reason"`

	used bool
}

var index = regexp.MustCompile(`\[\d+\]`)

func (k *known) matches(name string, d mismatch) bool {
	d.Path = index.ReplaceAllString(d.Path, "[*]")
	for _, pattern := range k.Recordings {
		ok, err := path.Match(pattern, name)
		if err == nil && ok && (d.Path == k.Path || strings.HasSuffix(d.Path, "."+k.Path)) &&
			(k.Real == "" || k.Real == d.Real) && (k.Fake == "" || k.Fake == d.Fake) {
			return true
		}
	}
	return false
}

// TestConformance compares the responses of the simulated base with the recorded responses of a real base (make
// record). Differences that are listed in differences.yaml are accepted.
func TestConformance(t *testing.T) {
	names, recordings, err := recording.Load("testdata/real")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatal("found no recordings")
	}
	text, err := os.ReadFile("testdata/real/differences.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var list []*known
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		t.Fatal(err)
	}
	compared, phases := 0, 0
	for _, name := range names {
		r := recordings[name]
		t.Run(name, func(t *testing.T) {
			var found []difference
			if r.Phases != nil {
				found = replayPhases(t, r)
			} else {
				found = replay(t, r)
			}
			for _, d := range found {
				i := slices.IndexFunc(list, func(k *known) bool { return k.matches(name, d.mismatch) })
				if i < 0 {
					t.Errorf("%s: %s\n  real: %s\n  fake: %s", d.where, d.Path, d.Real, d.Fake)
					continue
				}
				list[i].used = true
			}
			compared += len(r.Exchanges)
			phases += len(r.Phases)
		})
	}
	for _, k := range list {
		if !k.used && !t.Failed() {
			t.Errorf("no recording has the difference at %s; remove it from differences.yaml", k.Path)
		}
		if k.Reason == "" {
			t.Errorf("the difference at %s has no reason", k.Path)
		}
	}
	t.Logf("%d recordings, %d exchanges, %d phases, %d differences listed", len(names), compared, phases, len(list))
}

// difference is a mismatch together with the exchange or the phase of the recording in which it occurs.
type difference struct {
	mismatch
	where string
}

// noAnswerTimeout is the time to wait for a response before the test concludes that the base sends none.
const noAnswerTimeout = 150 * time.Millisecond

// replay sends the recorded requests to the simulated base, and compares the responses.
func replay(t *testing.T, r recording.Recording) []difference {
	t.Helper()
	opts := simulate(t, r)
	opts.HTTP = &HTTPOptions{Addr: "127.0.0.1:0"}
	p := &recording.Player{Fixtures: newFixtures(t, r.Jars), Tunnel: r.Tunnel, NoAnswerTimeout: noAnswerTimeout}
	if r.Tunnel == recording.MQTT {
		w := newTestBroker(t)
		opts.MQTT = &MQTTOptions{Dial: w.dial}
		p.Broker, p.Tap = w.broker, addTap(t, w.broker)
	}
	b := start(t, opts)
	addr := httpAddr(t, b)
	p.Dial = func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", addr) }
	p.Web = func(ctx context.Context) (string, error) {
		addr, err := b.WebAddr(ctx)
		return "http://" + addr, err
	}
	if r.Tunnel == recording.MQTT {
		<-p.Tap.Subscribed
	}
	got, err := p.Play(t.Context(), r.Exchanges)
	if err != nil {
		t.Fatal(err)
	}
	return compareExchanges(r.Exchanges, got)
}

// addTap adds a Tap, which records packets, to the broker.
func addTap(t *testing.T, b *broker.Server) *recording.Tap {
	t.Helper()
	tap := recording.NewTap()
	if err := b.AddHook(tap, nil); err != nil {
		t.Fatal(err)
	}
	return tap
}

// compareExchanges compares the responses of a real and a simulated base to the same requests.
func compareExchanges(recorded, fake []recording.Exchange) (out []difference) {
	for i, x := range recorded {
		found := append(compareHTTP(x.Answer, fake[i].Answer), compareMessages(x.Messages, fake[i].Messages)...)
		if x.NoAnswer != fake[i].NoAnswer {
			found = append(found, mismatch{"noAnswer", fmt.Sprint(x.NoAnswer), fmt.Sprint(fake[i].NoAnswer)})
		}
		for _, d := range found {
			out = append(out, difference{d, fmt.Sprintf("exchange %d (%s%s %s)", i+1, x.Command, x.Web, x.Body)})
		}
	}
	return out
}

// newFixtures writes the jars that a recording needs and serves them. A simulated base reads only the manifests of
// the jars.
func newFixtures(t *testing.T, jars map[string]recording.Manifest) *recording.Fixtures {
	t.Helper()
	dir := t.TempDir()
	for name, manifest := range jars {
		if err := recording.WriteJar(filepath.Join(dir, name), manifest, ""); err != nil {
			t.Fatal(err)
		}
	}
	p, err := recording.OpenFixtures(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// simulate returns the options of a faithful base that simulates the base of a recording, without tunnels.
func simulate(t *testing.T, r recording.Recording) Options {
	t.Helper()
	opts := Options{
		Identity: "b1", Name: "realbase", HostName: "b1", Faithful: true,
		Activation: map[string]Activation{"new": ActivateNewModule, "multi": ActivateMulti}[r.Base.Activation],
		Catalogue:  &Catalogue{Fetch: FetchAlways},
	}
	if r.Base.KeepFailed {
		opts.AutoUninstallWhenFailed = new(bool)
	}
	for _, raw := range r.Simulate.Faults {
		var f fault.Fault
		if err := json.Unmarshal(raw, &f); err != nil {
			t.Fatal(err)
		}
		opts.Faults = append(opts.Faults, f)
	}
	for _, raw := range r.Simulate.Modules {
		var m Module
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		opts.Catalogue.Modules = append(opts.Catalogue.Modules, m)
	}
	return opts
}
