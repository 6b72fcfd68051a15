package fakebase

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// transcript is a file of testdata/transcripts, which was written by hand from the protocol specification. It has a
// description, lines "= OPTIONS" and "! FAULT", and sections "--- mqtt" and "--- http" with requests (">") and expected
// responses ("<"). "< nothing" means no response. Times (T), durations (N), ports (P) and stack frames are normalized.
type transcript struct {
	opts     transcriptOptions
	faults   []fault.Fault
	sections map[string][]exchange
}

type exchange struct {
	line int
	send string
	want []string
}

// transcriptOptions contains the options that a transcript can set.
type transcriptOptions struct {
	Activation   string   `json:"activation"`
	Faithful     bool     `json:"faithful"`
	Generation   string   `json:"generation"`
	KeepFailed   bool     `json:"keepFailed"`
	Fetch        Fetch    `json:"fetch"`
	Modules      []Module `json:"modules"`
	Threshold    int      `json:"threshold"`
	MaxMetaspace int64    `json:"maxMetaspace"`
}

func (o transcriptOptions) options() Options {
	keep := !o.KeepFailed
	activation := map[string]Activation{"": ActivateDefault, "new": ActivateNewModule,
		"multi": ActivateMulti}[o.Activation]
	fetch := FetchNever // the URLs of transcripts do not exist
	if o.Fetch != "" {
		fetch = o.Fetch
	}
	return Options{
		Identity: "b1", HostName: "base-1", IP: "10.1.2.3", Activation: activation,
		Faithful: o.Faithful, Generation: Generation(o.Generation), AutoUninstallWhenFailed: &keep,
		Catalogue: &Catalogue{Fetch: fetch, Modules: o.Modules},
		Metaspace: Metaspace{Threshold: o.Threshold, Max: o.MaxMetaspace},
	}
}

func readTranscript(t *testing.T, file string) transcript {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tr := transcript{sections: map[string][]exchange{}}
	section := ""
	for i, line := range strings.Split(string(raw), "\n") {
		kind, rest, _ := strings.Cut(line, " ")
		var err error
		switch kind {
		case "=":
			err = strict(rest, &tr.opts)
		case "!":
			var f fault.Fault
			err = strict(rest, &f)
			tr.faults = append(tr.faults, f)
		case "---":
			section = rest
			tr.sections[section] = nil
		case ">":
			tr.sections[section] = append(tr.sections[section], exchange{line: i + 1, send: rest})
		case "<":
			list := tr.sections[section]
			if len(list) == 0 {
				list = append(list, exchange{line: i + 1}) // a message without a request
			}
			last := &list[len(list)-1]
			last.want = append(last.want, rest)
			tr.sections[section] = list
		}
		if err != nil {
			t.Fatalf("%s:%d: %v", file, i+1, err)
		}
	}
	if len(tr.sections) == 0 {
		t.Fatalf("%s has no section", file)
	}
	return tr
}

func strict(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

var normalizations = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`"(changeTime|publishTimestamp|startTime|startTimestamp|endTime)":\d+`), `"$1":T`},
	{regexp.MustCompile(`"endTimestamp":[1-9]\d*`), `"endTimestamp":T`},
	{regexp.MustCompile(`"elapsedTime":\d+`), `"elapsedTime":N`},
	{regexp.MustCompile(`cost: \d+ ms, started at: \d\d:\d\d:\d\d,\d{3}`), `cost: N ms, started at: T`},
	{regexp.MustCompile(`"(run time\(s\)|total used \(%\))":[\d.E]+`), `"$1":N`},
	{regexp.MustCompile(`(\\n\\tat |\\nCaused by: )[^"]*`), `\n\tat …`},
	{regexp.MustCompile(`"port":[1-9]\d*`), `"port":P`},
}

func normalize(s string) string {
	for _, n := range normalizations {
		s = n.pattern.ReplaceAllString(s, n.with)
	}
	return s
}

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("found no transcripts: %v", err)
	}
	for _, file := range files {
		tr := readTranscript(t, file)
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		for section, exchanges := range tr.sections {
			opts := tr.opts.options()
			opts.Faults = tr.faults
			switch section {
			case "mqtt":
				runInBubble(t, name+"/mqtt", func(t *testing.T) { playMQTT(t, file, opts, exchanges) })
			case "http":
				t.Run(name+"/http", func(t *testing.T) { playHTTP(t, file, opts, exchanges) })
			default:
				t.Fatalf("%s: unknown section %q", file, section)
			}
		}
	}
}

// playMQTT sends the commands of a transcript, and compares all messages of the base with the expected ones.
func playMQTT(t *testing.T, file string, opts Options, exchanges []exchange) {
	w := newTestBroker(t)
	opts.MQTT = &MQTTOptions{Dial: w.dial}
	start(t, opts)
	compared := 0
	for _, x := range exchanges {
		if x.send != "" {
			synctest.Wait()
			for len(w.messages) > 0 {
				<-w.messages
			}
			topic, payload, _ := strings.Cut(x.send, " ")
			w.send("koupleless_dev/b1/"+topic, payload)
		}
		synctest.Wait()
		var got []string
		for len(w.messages) > 0 {
			m := <-w.messages
			topic := strings.TrimPrefix(m.topic, "koupleless_dev/b1/")
			if x.send != "" && (topic == strings.SplitN(x.send, " ", 2)[0]) {
				continue // a message of the controller
			}
			got = append(got, topic+" "+normalize(string(m.payload)))
		}
		if len(got) == 0 {
			got = []string{"nothing"}
		}
		if d := cmp.Diff(x.want, got); d != "" {
			t.Errorf("%s:%d: messages (-want +got):\n%s", file, x.line, d)
		}
		compared += len(x.want)
	}
	if compared == 0 {
		t.Errorf("%s: the transcript has no expected messages", file)
	}
}

// playHTTP sends the raw requests of a transcript, and compares the complete responses with the expected ones.
func playHTTP(t *testing.T, file string, opts Options, exchanges []exchange) {
	opts.HTTP = &HTTPOptions{Addr: "127.0.0.1:0"}
	b := start(t, opts)
	addr := httpAddr(t, b)
	compared := 0
	for _, x := range exchanges {
		line, body, _ := strings.Cut(x.send, " ")
		path, body2, _ := strings.Cut(body, " ")
		raw := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: base\r\nContent-Length: %d\r\n\r\n%s", line, path, len(body2),
			body2)
		want := strings.Join(x.want, "\r\n")
		if want == "nothing" {
			if got := responseWithin(t, addr, raw); got != "" {
				t.Errorf("%s:%d: response = %q, want none", file, x.line, got)
			}
			compared++
			continue
		}
		got := normalize(roundTrip(t, addr, raw))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s:%d: response (-want +got):\n%s", file, x.line, d)
		}
		compared += len(x.want)
	}
	if compared == 0 {
		t.Errorf("%s: the transcript has no expected messages", file)
	}
}

// httpAddr waits until the arklet HTTP server listens, and returns its address.
func httpAddr(t *testing.T, b *Base) string {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if addr := b.Status().HTTPAddr; addr != "" {
			return addr
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("arklet HTTP server did not listen within a minute; status = %+v", b.Status())
		}
	}
}

// roundTrip sends a raw request, and returns everything that the base sends until it closes the connection.
func roundTrip(t *testing.T, addr, raw string) string {
	t.Helper()
	conn := dialRaw(t, addr, raw)
	defer func() { _ = conn.Close() }()
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("reading the response after %q: %v", got, err)
	}
	return string(got)
}

// responseWithin sends a raw request, and returns the response that arrives within 100 ms; empty if there is none.
func responseWithin(t *testing.T, addr, raw string) string {
	t.Helper()
	conn := dialRaw(t, addr, raw)
	defer func() { _ = conn.Close() }()
	if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err == nil {
		return "connection closed: " + string(got)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err.Error()
	}
	return string(got)
}

func dialRaw(t *testing.T, addr, raw string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(conn, bytes.NewBufferString(raw)); err != nil {
		t.Fatal(err)
	}
	return conn
}
