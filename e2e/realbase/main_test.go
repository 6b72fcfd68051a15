package realbase

import (
	"archive/zip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/fakebase/recording"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Fixtures that all tests share. TestMain and bringUp set them.
var (
	target       string // directory of the jars that Maven built, and of variants
	shared       *box.Box
	client       kubernetes.Interface
	mqtt         box.Broker
	heartbeatURL string // where the controller receives heartbeats over HTTP
	jars         string // URL of an HTTP server with the jars
)

// Names of the jars that Maven built.
const (
	BaseJar  = "base.jar"
	ShopJar1 = "shop-1.0.0-ark-biz.jar"
	ShopJar2 = "shop-2.0.0-ark-biz.jar"
)

// variants lists the jars that bringUp creates, by name. Each value contains the manifest attributes that differ from
// the attributes of the module that Maven built.
var variants = map[string]recording.Manifest{
	"throwing.jar": {"Ark-Biz-Name": "throwing", "Main-Class": "koupsandbox.module.Throwing",
		"Start-Class": "koupsandbox.module.Throwing"},
	"same-path.jar": {"Ark-Biz-Version": "2.0.0"}, // has the web context path of version 1.0.0
}

// missing is the reason why no real base is available, or nil. Tests that need a real base are skipped if missing is
// not nil.
var missing error

// TestMain runs tests that need a real base only if E2E_REALBASE is set, so that make test does not repeat make
// e2e-realbase. If it is set and no real base is available, TestMain exits with an error.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("E2E_REALBASE") == "" && !*record {
		missing = errors.New("run them with: make e2e-realbase")
		fmt.Println("e2e/realbase: tests with a real base are skipped:", missing)
		os.Exit(m.Run())
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/realbase:", err)
		os.Exit(1)
	}
	if *record {
		os.Exit(m.Run())
	}
	server := httptest.NewServer(http.FileServer(http.Dir(target)))
	jars = server.URL
	code := box.Main(m, "realbase", 0, bringUp)
	server.Close()
	os.Exit(code)
}

// prepare sets target. It returns an error if Java or a jar of the real base is missing.
func prepare() (err error) {
	target, err = filepath.Abs("target")
	if err != nil {
		return fmt.Errorf("finding the jars: %w", err)
	}
	if _, err := exec.LookPath("java"); err != nil {
		return errors.New("java is not in the PATH; install a JDK 17, for example Debian's " +
			"openjdk-17-jdk-headless")
	}
	for _, name := range []string{BaseJar, ShopJar1, ShopJar2} {
		if _, err := os.Stat(filepath.Join(target, name)); err != nil {
			return fmt.Errorf("%s is not in %s; build the real base with: make realbase", name, target)
		}
	}
	return nil
}

// manifest returns the main attributes in the manifest of the module that Maven built.
func manifest() (recording.Manifest, error) {
	in, err := zip.OpenReader(filepath.Join(target, ShopJar1))
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // the file was only read
	text, err := fs.ReadFile(in, "META-INF/MANIFEST.MF")
	joined := strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n ", "")
	m := recording.Manifest{}
	for line := range strings.Lines(joined) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok {
			m[key] = value
		}
	}
	return m, err
}

// bringUp creates the jars of variants, and starts a sandbox whose controller uses both tunnels.
func bringUp(ctx context.Context, b *box.Box) error {
	shared = b
	for name, changes := range variants {
		m, err := manifest()
		if err != nil {
			return err
		}
		maps.Copy(m, changes)
		if err := recording.WriteJar(filepath.Join(target, name), m, filepath.Join(target, ShopJar1)); err != nil {
			return err
		}
	}
	one := 1
	err := shared.Up(ctx, v1alpha1.Spec{Bases: []v1alpha1.BaseSet{{Count: &one, BaseName: "unused"}},
		Controller: v1alpha1.Controller{Env: map[string]string{
			"INSTALL_ATTEMPTS": "2",
			"INSTALL_TIMEOUT":  "1m",
			"LIST_INTERVAL":    "2s",
		}}})
	if err != nil {
		return err
	}
	client, err = shared.Client()
	if err != nil {
		return err
	}
	mqtt, err = shared.Broker()
	if err != nil {
		return err
	}
	heartbeatURL, err = shared.Heartbeats()
	return err
}
