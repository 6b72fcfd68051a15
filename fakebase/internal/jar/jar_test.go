package jar

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// buildJar returns a jar with a manifest. If manifest is empty, the jar has no manifest.
func buildJar(t *testing.T, manifest string) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	if manifest != "" {
		w, err := z.Create("META-INF/MANIFEST.MF")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(manifest)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

const completeManifest = "Manifest-Version: 1.0\r\nArk-Biz-Name: biz1\r\nArk-Biz-Version: " +
	"0.0.1-SNAPSHOT\r\nMain-Class: loader\r\n" +
	"Start-Class: com.x.\r\n Biz1Application\r\npriority: 7\r\nweb-context-path: biz1\r\n\r\nName: " +
	"other/entry\r\nArk-Biz-Name: wrong\r\n"

func TestManifests(t *testing.T) {
	tests := []struct {
		name     string
		content  []byte
		want     Manifest
		kind     ErrorKind
		wantText string
	}{
		{name: "complete", content: buildJar(t, completeManifest),
			want: Manifest{"biz1", "0.0.1-SNAPSHOT", "com.x.Biz1Application", "biz1", 7}},
		{name: "minimal", content: buildJar(t, "Ark-Biz-Name: a\nArk-Biz-Version: 1\nMain-Class: M\n"),
			want: Manifest{"a", "1", "M", "", DefaultPriority}},
		{name: "not a zip archive", content: []byte("hello"), kind: NotZip, wantText: "not a zip archive"},
		{name: "empty", content: nil, kind: NotZip, wantText: "not a zip archive"},
		{name: "no manifest", content: buildJar(t, ""), kind: NotBiz, wantText: "Archive must be a ark biz!"},
		{name: "no name", content: buildJar(t, "Main-Class: M\n"), kind: NotBiz,
			wantText: "Biz Name must not be empty!"},
		{name: "no version", content: buildJar(t, "Ark-Biz-Name: a\n"), kind: NotBiz,
			wantText: "Biz Version must not be empty!"},
		{name: "no main class", content: buildJar(t, "Ark-Biz-Name: a\nArk-Biz-Version: 1\n"), kind: NotBiz,
			wantText: "Biz Main Class must not be empty!"},
		{name: "invalid priority",
			content: buildJar(t, "Ark-Biz-Name: a\nArk-Biz-Version: 1\nMain-Class: M\npriority: high\n"), kind: NotBiz,
			wantText: `For input string: "high"`},
		{name: "invalid line", content: buildJar(t, "nonsense\n"), kind: NotZip,
			wantText: "manifest cannot be read"},
	}
	for _, tt := range tests {
		for _, scheme := range []string{"file", "http"} {
			t.Run(tt.name+"/"+scheme, func(t *testing.T) {
				var u *url.URL
				if scheme == "file" {
					name := filepath.Join(t.TempDir(), "x.jar")
					if err := os.WriteFile(name, tt.content, 0o600); err != nil {
						t.Fatal(err)
					}
					u = &url.URL{Scheme: "file", Path: name}
				} else {
					srv := httptest.NewServer(
						http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(tt.content) }))
					defer srv.Close()
					u = parseURL(t, srv.URL+"/x.jar")
				}
				got, err := NewReader(Limits{}).Read(t.Context(), u)
				checkError(t, err, tt.kind, tt.wantText)
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Errorf("manifest (-want +got):\n%s", d)
				}
			})
		}
	}
}

// checkError checks the kind of err, and that its text contains a substring. If the text is empty, err must be nil.
func checkError(t *testing.T, err error, kind ErrorKind, text string) {
	t.Helper()
	if text == "" {
		if err != nil {
			t.Errorf("error = %v, want nil", err)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) || e.Kind != kind || !strings.Contains(e.Error(), text) {
		t.Errorf("error = %#v, want kind %d with %q", err, kind, text)
	}
	if want := kind == NotZip || kind == NotBiz; IsMalformed(err) != want {
		t.Errorf("IsMalformed() = %v, want %v", !want, want)
	}
}

func parseURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestReadErrors(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/404":
			http.NotFound(w, r)
		case "/500":
			w.WriteHeader(500)
		case "/hang":
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		case "/large":
			_, _ = w.Write(make([]byte, 1001))
		}
	}))
	defer srv.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	large := filepath.Join(t.TempDir(), "large.jar")
	if err := os.WriteFile(large, make([]byte, 1001), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		url  string
		kind ErrorKind
		text string
	}{
		{"file:///nowhere/x.jar", NotFound, "no such file"},
		{"file://" + t.TempDir(), NotFound, "is a directory"},
		{"file://" + large, Other, "larger than 1000 bytes"},
		{srv.URL + "/large", Other, "larger than 1000 bytes"},
		{srv.URL + "/404", NotFound, "/404"},
		{srv.URL + "/500", Other, "Server returned HTTP response code: 500 for URL: " + srv.URL + "/500"},
		{srv.URL + "/hang", TimedOut, "timed out"},
		{"http://" + closed.Addr().String() + "/x.jar", Refused, "connection refused"},
		{"jar:file:/x.jar!/", Other, "cannot read jar URLs"},
	}
	for _, tt := range tests {
		limits := Limits{Size: 1000}
		if tt.kind == TimedOut {
			limits.Total = 100 * time.Millisecond
		}
		_, err := NewReader(limits).Read(t.Context(), parseURL(t, tt.url))
		checkError(t, err, tt.kind, tt.text)
	}
}

func TestUnknownHost(t *testing.T) {
	err := classify(fmt.Errorf("get: %w", &net.DNSError{Name: "h", Err: "no such host", IsNotFound: true}))
	checkError(t, err, UnknownHost, "h")
}

func TestDownloadsAreShared(t *testing.T) {
	var requests atomic.Int32
	release := make(chan struct{})
	content := buildJar(t, completeManifest)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		<-release
		_, _ = w.Write(content)
	}))
	defer srv.Close()
	r := NewReader(Limits{})
	u := parseURL(t, srv.URL+"/x.jar")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Read(canceled, u); !errors.Is(err, context.Canceled) {
		t.Errorf("error with a canceled context = %v, want Canceled", err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if m, err := r.Read(t.Context(), u); err != nil || m.Name != "biz1" {
				t.Errorf("Read() = %+v, %v", m, err)
			}
		})
	}
	close(release)
	wg.Wait()
	if n := requests.Load(); n != 1 {
		t.Errorf("requests for 51 reads = %d, want 1", n)
	}
}

// FuzzParse checks that parse does not panic, and that an accepted manifest has all required fields.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parse(bytes.NewReader(raw), int64(len(raw)))
		if err == nil && (m.Name == "" || m.Version == "" || m.MainClass == "") {
			t.Errorf("parse() accepted the incomplete manifest %+v", m)
		}
		if err != nil && (!IsMalformed(err) || len(err.Error()) > 1000) {
			t.Errorf("error = %.1200v, want a malformed error of at most 1000 bytes", err)
		}
	})
}
