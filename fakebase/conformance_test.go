package fakebase

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// known is a difference that stays, with its reason: an entry of
// testdata/real/differences.yaml.
type known struct {
	// Recordings are those that show it, as patterns of path.Match.
	Recordings []string `json:"recordings"`
	// Path, Real and Fake say what differs, as in mismatch; in Path an
	// index is a *, and Path may begin at any field. Empty Real or Fake = anything.
	Path   string `json:"path"`
	Real   string `json:"real"`
	Fake   string `json:"fake"`
	Reason string `json:"reason"`

	used bool
}

var index = regexp.MustCompile(`\[\d+\]`)

func (k *known) covers(name string, d mismatch) bool {
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

// The simulated base answers as a real one was recorded to answer (make
// record), but for the differences that are listed with their reason.
func TestConformance(t *testing.T) {
	names, recordings, err := recording.Load("testdata/real")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatal("there are no recordings")
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
				found = relive(t, r)
			} else {
				found = replay(t, r)
			}
			for _, d := range found {
				i := slices.IndexFunc(list, func(k *known) bool { return k.covers(name, d.mismatch) })
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
			t.Errorf("no recording shows the difference at %s any more: take it out", k.Path)
		}
		if k.Reason == "" {
			t.Errorf("the difference at %s has no reason", k.Path)
		}
	}
	t.Logf("%d recordings, %d exchanges, %d phases, %d differences listed", len(names), compared, phases, len(list))
}

// difference is one at a place of a recording.
type difference struct {
	mismatch
	where string
}

// replay sends what was sent to the real base, and compares what comes back.
func replay(t *testing.T, r recording.Recording) []difference {
	t.Helper()
	var hanging recording.Hanging
	places := lay(t, r.Jars, &hanging)
	opts := simulate(t, r)
	opts.HTTP = &HTTPOptions{Addr: "127.0.0.1:0"}
	w := newWorld(t)
	if r.Tunnel == recording.MQTT {
		opts.MQTT = &MQTTOptions{Dial: w.dial}
	}
	b := start(t, opts)
	p := &replayer{t: t, world: w, base: b, places: places, hanging: &hanging, tunnel: r.Tunnel, addr: httpAddr(t, b)}
	p.dial = func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", p.addr) }
	if r.Tunnel == recording.MQTT {
		w.next("base/queryBaseline")
	}
	return p.play(r.Exchanges)
}

// simulate are the options of a faithful base for a recording, without tunnels.
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

// lay writes the jars of a recording, and serves them: a simulated base reads no more of
// them than the manifest.
func lay(t *testing.T, jars map[string]recording.Manifest, hanging *recording.Hanging) recording.Places {
	t.Helper()
	p := recording.Places{Modules: t.TempDir()}
	for name, manifest := range jars {
		content := []byte("this is no jar\n")
		if manifest != nil {
			var buf bytes.Buffer
			z := zip.NewWriter(&buf)
			f, err := z.Create("META-INF/MANIFEST.MF")
			if err != nil {
				t.Fatal(err)
			}
			for key, value := range manifest {
				if _, err := fmt.Fprintf(f, "%s: %s\r\n", key, value); err != nil {
					t.Fatal(err)
				}
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			content = buf.Bytes()
		}
		if err := os.WriteFile(filepath.Join(p.Modules, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(p.Modules)))
	mux.Handle("/hanging/", hanging)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.Server = server.URL
	nobody := httptest.NewServer(nil)
	p.Refused = nobody.Listener.Addr().String()
	nobody.Close()
	return p
}

// replayer sends exchanges to a simulated base.
type replayer struct {
	t       *testing.T
	world   *world
	base    *Base
	places  recording.Places
	hanging *recording.Hanging
	tunnel  recording.Tunnel
	addr    string // of arklet's HTTP server, which dial connects to
	dial    func(context.Context) (net.Conn, error)
	pending chan string // the answer of the request in the background
}

const (
	// unanswered is how long no answer must come.
	unanswered = 150 * time.Millisecond
	// answered is how long an answer may take.
	answered = 10 * time.Second
)

// play sends exchanges one after the other.
func (p *replayer) play(list []recording.Exchange) (out []difference) {
	p.t.Helper()
	for i, x := range list {
		if x.Release {
			p.hanging.Release()
		}
		p.await(x)
		var found []mismatch
		switch {
		case x.Web != "":
			found = p.overWeb(x)
		case p.tunnel == recording.HTTP:
			found = p.overHTTP(x)
		default:
			found = p.overMQTT(x)
		}
		for _, d := range found {
			out = append(out, difference{d, fmt.Sprintf("exchange %d (%s%s %s)", i+1, x.Command, x.Web, x.Body)})
		}
	}
	return out
}

// await waits for what an exchange wants before its request.
func (p *replayer) await(x recording.Exchange) {
	p.t.Helper()
	const all = "POST /queryAllBiz HTTP/1.1\r\nHost: base\r\nContent-Length: 2\r\n\r\n{}"
	p.poll("the base to say "+x.Await+", or to download", func() bool {
		return (x.Await == "" || strings.Contains(roundTrip(p.t, p.addr, all), x.Await)) && (!x.AwaitDownload || p.hanging.Asked())
	})
}

// poll asks until done.
func (p *replayer) poll(what string, done func() bool) {
	p.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(answered)
	for !done() {
		select {
		case <-tick.C:
		case <-limit:
			p.t.Fatalf("waiting in vain for %s", what)
		}
	}
}

// overWeb asks the base's web server.
func (p *replayer) overWeb(x recording.Exchange) []mismatch {
	p.t.Helper()
	addr, err := p.base.WebAddr(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := http.Get("http://" + addr + x.Web)
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := recording.WebAnswer(response)
	if err != nil {
		p.t.Fatal(err)
	}
	return compareHTTP(x.Answer, recording.Normal(answer))
}

func (p *replayer) overHTTP(x recording.Exchange) []mismatch {
	p.t.Helper()
	raw := x.Raw
	if body := p.places.Fill(x.Body); raw == "" {
		raw = fmt.Sprintf("POST /%s HTTP/1.1\r\nHost: base\r\nContent-Length: %d\r\n\r\n%s", x.Command, len(body), body)
	}
	switch {
	case x.Join:
		return compareHTTP(x.Answer, <-p.pending)
	case x.Background:
		conn := dialRaw(p.t, p.addr, raw)
		p.pending = make(chan string, 1)
		go func() {
			text, err := io.ReadAll(conn)
			if err != nil {
				text = []byte(err.Error()) // shows up as a difference
			}
			_ = conn.Close() // what counts has been read
			p.pending <- recording.Normal(p.places.Strip(string(text)))
		}()
		return nil
	case x.Silent:
		if got := silence(p.t, p.addr, raw); got != "" {
			return []mismatch{{Path: "$", Real: "absent", Fake: got}}
		}
		return nil
	}
	var answer string
	p.poll("an answer with "+x.Until, func() bool {
		answer = p.answer(p.places.Fill(raw))
		return strings.Contains(answer, x.Until)
	})
	return compareHTTP(x.Answer, recording.Normal(p.places.Strip(answer)))
}

// answer sends a raw request. A base that does not read all of it may reset the
// connection, before or after it has answered.
func (p *replayer) answer(raw string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), answered)
	defer cancel()
	conn, err := p.dial(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // a deadline for both directions
	_, writeErr := io.WriteString(conn, raw)
	text, readErr := io.ReadAll(conn)
	if len(text) == 0 && (writeErr != nil || readErr != nil) {
		return fmt.Sprint("no answer: ", writeErr, readErr)
	}
	return string(text)
}

func (p *replayer) overMQTT(x recording.Exchange) []mismatch {
	p.t.Helper()
	if !x.Join {
		p.world.send("koupleless_dev/b1/"+x.Command, p.places.Fill(x.Body))
	}
	if x.Background {
		return nil
	}
	var got []recording.Message
	limit := time.After(answered)
	if x.Silent {
		limit = time.After(unanswered)
	}
	for done := false; !done && (x.Silent || len(got) < len(x.Messages)); {
		select {
		case m := <-p.world.messages:
			topic := strings.TrimPrefix(m.topic, "koupleless_dev/b1/")
			if strings.HasPrefix(topic, "base/") && topic != "base/heart" && topic != "base/baseline" {
				got = append(got, recording.Message{Topic: topic, Payload: recording.Normal(p.places.Strip(string(m.payload)))})
			}
		case <-limit:
			done = true
		}
	}
	return compareMessages(x.Messages, got)
}
