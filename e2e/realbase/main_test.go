package realbase

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/fakebase/recording"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// What all tests use; TestMain sets it.
var (
	target string // folder of what Maven built, and of variants of it
	shared *box.Box
	client kubernetes.Interface
	mqtt   box.Broker
	heart  string // where the controller takes heartbeats over HTTP
	jars   string // URL of an HTTP server with the jars
)

// The variants of the module that tests install.
var variants = map[string]recording.Manifest{
	"throwing.jar":  {"Ark-Biz-Name": "throwing", "Main-Class": "koupsandbox.module.Throwing", "Start-Class": "koupsandbox.module.Throwing"},
	"same-path.jar": {"Ark-Biz-Version": "2.0.0"}, // and the web context path of version 1.0.0
}

// missing says why there is no real base; tests that need one skip then.
var missing error

// TestMain runs tests with a real base only with E2E_REALBASE set, so that make test does not do what
// make e2e-realbase does. That there is no real base is a failure then.
func TestMain(m *testing.M) {
	if os.Getenv("E2E_REALBASE") == "" {
		missing = errors.New("run them with: make e2e-realbase")
		fmt.Println("e2e/realbase: tests with a real base are skipped:", missing)
		os.Exit(m.Run())
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/realbase:", err)
		os.Exit(1)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(target)))
	jars = server.URL
	code := box.Main(m, "realbase", 0, bringUp)
	server.Close()
	os.Exit(code)
}

// prepare finds what the tests need, or says what is missing.
func prepare() (err error) {
	if target, err = filepath.Abs("target"); err != nil {
		return fmt.Errorf("finding the jars: %w", err)
	}
	if _, err := exec.LookPath("java"); err != nil {
		return errors.New("there is no java in the PATH: install a JDK 17, for example Debian's openjdk-17-jdk-headless")
	}
	return Missing(target)
}

// bringUp makes the variants, and starts a sandbox that takes bases over both tunnels.
func bringUp(ctx context.Context, b *box.Box) error {
	shared = b
	for name, changes := range variants {
		if _, err := Variant(filepath.Join(target, ShopJar1), filepath.Join(target, name), changes); err != nil {
			return err
		}
	}
	one := 1
	err := shared.Up(ctx, v1alpha1.Spec{Bases: v1alpha1.Bases{Count: &one, Name: "unused"}, Controller: v1alpha1.Controller{Env: map[string]string{
		"ENABLE_MODULE_DEPLOYMENT_CONTROLLER": "true",
		"INSTALL_ATTEMPTS":                    "2",
		"INSTALL_TIMEOUT":                     "1m",
		"LIST_INTERVAL":                       "2s",
	}}})
	if err != nil {
		return err
	}
	if client, err = shared.Client(); err != nil {
		return err
	}
	if mqtt, err = shared.Broker(); err != nil {
		return err
	}
	heart, err = shared.Heartbeats()
	return err
}
