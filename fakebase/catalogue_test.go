package fakebase

import (
	"archive/zip"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// writeJar writes a biz jar and returns its path.
func writeJar(t *testing.T, manifest string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "other-9.9.9-ark-biz.jar")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	w, err := z.Create("META-INF/MANIFEST.MF")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(manifest)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestResolve(t *testing.T) {
	jarFile := writeJar(t, "Ark-Biz-Name: real\nArk-Biz-Version: 3\nMain-Class: com.x.Real\npriority: "+
		"5\nweb-context-path: /shop\n")
	broken := filepath.Join(t.TempDir(), "broken-1.jar")
	if err := os.WriteFile(broken, []byte("no jar"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := http.FileServer(http.Dir(filepath.Dir(jarFile)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/page-1.jar":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<html>Log in first</html>")
		case "/denied-1.jar":
			w.WriteHeader(http.StatusForbidden)
		default:
			files.ServeHTTP(w, r)
		}
	}))
	defer srv.Close()
	signed := strings.Replace(srv.URL, "http://", "http://me:secret@", 1) + "/%s-1.jar?Signature=s"
	shown := strings.Replace(srv.URL, "http://", "http://***@", 1) + "/%s-1.jar?***"
	example := "https://serverless.example/module-packages/stable/biz1-web-single-host-0.0.1-SNAPSHOT-ark-biz.jar"
	zero := 0
	modules := []Module{
		{URL: "http://h/exact.jar", Name: "exact", Version: "7", Priority: &zero, Metaspace: 10, WebContextPath: "e",
			MainClass: "E", InstallTime: Delay{Min: 5}},
		{Name: "biz1", Version: "2", Metaspace: 20},
		{Name: "biz1", Metaspace: 30, UninstallTime: Delay{Min: 6}},
	}
	plain := func(name, version, url string) ark.Spec {
		return ark.Spec{Name: name, Version: version, URL: url, Priority: 100, WebContextPath: name,
			MainClass: "com.example." + name + ".Application", Metaspace: 99}
	}
	sized := func(s ark.Spec, size int64) ark.Spec { s.Metaspace = size; return s }
	realSpec := ark.Spec{Name: "real", Version: "3", Priority: 5, WebContextPath: "shop", MainClass: "com.x.Real",
		Metaspace: 99}
	at := func(s ark.Spec, url string) ark.Spec { s.URL = url; return s }
	tests := []struct {
		name               string
		fetch              Fetch
		url, biz, version  string
		want               ark.Spec
		install, uninstall Delay
		wantErr            string
	}{
		{name: "entry of the URL takes precedence over the request", url: "http://h/exact.jar", biz: "biz1",
			version: "1",
			want: ark.Spec{Name: "exact", Version: "7", URL: "http://h/exact.jar", WebContextPath: "e",
				MainClass: "E", Metaspace: 10}, install: Delay{Min: 5}, uninstall: Delay{Min: 2}},
		{name: "file takes precedence over the request", url: "file://" + jarFile, biz: "biz1", version: "1",
			want: at(realSpec, "file://"+jarFile)},
		{name: "http URL takes precedence over the request", url: srv.URL + "/other-9.9.9-ark-biz.jar", biz: "biz1",
			version: "1",
			want:    at(realSpec, srv.URL+"/other-9.9.9-ark-biz.jar")},
		{name: "https URL is not read", url: example, biz: "x", version: "1", want: plain("x", "1", example)},
		{name: "missing http URL is simulated", url: srv.URL + "/biz9-1.0.jar", biz: "x", version: "1",
			want: plain("x", "1", srv.URL+"/biz9-1.0.jar")},
		{name: "missing file is simulated", url: "file:///m/biz9-1.0.jar",
			want: plain("biz9", "1.0", "file:///m/biz9-1.0.jar")},
		{name: "name and version of the file name", url: example,
			want: plain("biz1-web-single-host", "0.0.1-SNAPSHOT", example)},
		{name: "entry of name and version", url: example, biz: "biz1", version: "2",
			want: sized(plain("biz1", "2", example), 20)},
		{name: "entry of the name", url: example, biz: "biz1", version: "3",
			want: sized(plain("biz1", "3", example), 30), uninstall: Delay{Min: 6}},
		{name: "never reads no file", fetch: FetchNever, url: "file://" + jarFile, biz: "x", version: "1",
			want: plain("x", "1", "file://"+jarFile)},
		{name: "always fails for a missing file", fetch: FetchAlways, url: "file:///m/biz9-1.0.jar", biz: "x",
			version: "1", wantErr: "java.io.FileNotFoundException: /m/biz9-1.0.jar (No such file or directory)"},
		{name: "file is not a jar", url: "file://" + broken, biz: "x", version: "1",
			wantErr: "java.util.zip.ZipException: zip END header not found"},
		{name: "URL returns a page", url: fmt.Sprintf(signed, "page"), biz: "x", version: "1",
			wantErr: "java.util.zip.ZipException: zip END header not found: " + fmt.Sprintf(shown, "page") +
				` answered 200 OK with content type "text/html; charset=utf-8"`},
		{name: "URL returns an error", fetch: FetchAlways, url: fmt.Sprintf(signed, "denied"), biz: "x",
			version: "1",
			wantErr: "java.io.IOException: Server returned HTTP response code: 403 for URL: " +
				fmt.Sprintf(shown, "denied")},
		{name: "URL is not found", fetch: FetchAlways, url: fmt.Sprintf(signed, "missing"), biz: "x",
			version: "1",
			wantErr: "java.io.FileNotFoundException: " + fmt.Sprintf(shown, "missing")},
		{name: "no name", url: "https://h/x", wantErr: "java.io.FileNotFoundException: https://h/x"},
		{name: "no scheme", url: "/m/x.jar", biz: "x", version: "1",
			wantErr: "java.net.MalformedURLException: no protocol: /m/x.jar"},
		{name: "unknown scheme", url: "OCI://h/x.jar", biz: "x", version: "1",
			wantErr: "java.net.MalformedURLException: unknown protocol: oci"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &Catalogue{Modules: modules, Fetch: cmp.Or(tt.fetch, FetchAvailable), InstallTime: Delay{Min: 1},
				UninstallTime: Delay{Min: 2}}
			got, ex := c.resolve(t.Context(), tt.url, tt.biz, tt.version, 99)
			if tt.wantErr != "" {
				if ex == nil || ex.message() != tt.wantErr {
					t.Fatalf("exception = %v, want %s", ex, tt.wantErr)
				}
				return
			}
			if ex != nil {
				t.Fatal(ex)
			}
			// the times of the catalogue
			install, uninstall := cmp.Or(tt.install, Delay{Min: 1}), cmp.Or(tt.uninstall, Delay{Min: 2})
			if d := gocmp.Diff(tt.want, got.Spec); d != "" {
				t.Errorf("spec (-want +got):\n%s", d)
			}
			if got.install != install || got.uninstall != uninstall {
				t.Errorf("installation and uninstallation times = %v and %v, want %v and %v", got.install,
					got.uninstall, install, uninstall)
			}
		})
	}
}

func TestJarIsDownloadedOnlyWithFetch(t *testing.T) {
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer srv.Close()
	for _, c := range []*Catalogue{{}, {Fetch: FetchNever}, {Fetch: FetchAvailable}} {
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		_, ex := c.resolve(t.Context(), srv.URL+"/biz1-1.0.jar", "biz1", "1.0", 0)
		if fetched := ex != nil || asked.Load() > 0; fetched != (c.Fetch == FetchAvailable) {
			t.Errorf("fetch %q: requests = %d, exception = %v", c.Fetch, asked.Load(), ex)
		}
	}
}

func TestSplitFileName(t *testing.T) {
	for url, want := range map[string][2]string{
		"https://h/biz1-0.0.1-ark-biz.jar":                  {"biz1", "0.0.1"},
		"https://h/biz1-web-single-host-0.0.1-SNAPSHOT.jar": {"biz1-web-single-host", "0.0.1-SNAPSHOT"},
		"file:///m/a-2.jar?token=b-3.jar":                   {"a", "2"},
		"file:a-2.jar":                                      {"a", "2"},
		"https://h/log4j-2-module-1.0.jar":                  {"log4j", "2-module-1.0"},
		"https://h/biz1.jar":                                {},
		"https://h/biz1-0.0.1.war":                          {},
		"https://h/-1.jar":                                  {},
		"http://[::1/x-1.jar":                               {},
	} {
		name, version := splitFileName(url)
		if got := [2]string{name, version}; got != want {
			t.Errorf("splitFileName(%s) = %q, want %q", url, got, want)
		}
	}
}

func TestCatalogueValidate(t *testing.T) {
	c := &Catalogue{
		Fetch: "sometimes", MaxJarSize: -1, PullTime: Delay{Min: -1},
		Modules: []Module{{}, {Name: "a", Metaspace: -1, InstallTime: Delay{Spread: -1}}},
	}
	err := c.Validate()
	for _, want := range []string{`fetch "sometimes"`, "maxJarSize", "pullTime", "modules[0].name",
		"modules[1].metaspace -1", "modules[1].installTime"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want the text %q", err, want)
		}
	}
	if err := (&Catalogue{}).Validate(); err != nil {
		t.Errorf("Validate() of the zero value = %v", err)
	}
}

func TestInstallRealJar(t *testing.T) {
	jarFile := writeJar(t, "Ark-Biz-Name: real\nArk-Biz-Version: 3\nMain-Class: com.x.Real\n")
	b, err := New(Options{Identity: "b1", StaticBiz: []string{"file://" + jarFile},
		Catalogue: &Catalogue{Fetch: FetchAvailable}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Start(ctx) }()
	waitForStatus(t, b, func(s Status) bool { return s.Ready && len(s.Biz) == 1 })
	if got := b.Status().Biz[0]; got.ID() != "real:3" || got.MainClass != "com.x.Real" || got.Origin != ark.Static {
		t.Errorf("installed modules = %+v", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
