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
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/fakebase/recording"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// What all tests use; run sets it.
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
	os.Exit(run(m))
}

// prepare finds what the tests need, or says what is missing.
func prepare() error {
	here, err := filepath.Abs("target")
	if err != nil {
		return fmt.Errorf("finding the jars: %w", err)
	}
	target = here
	if _, err := exec.LookPath("java"); err != nil {
		return errors.New("there is no java in the PATH: install a JDK 17, for example Debian's openjdk-17-jdk-headless")
	}
	if err := Missing(target); err != nil {
		return err
	}
	programs, err := box.FindPrograms(filepath.Join("..", ".."))
	shared = &box.Box{Bin: programs, Name: envconf.RandomName("real", 10)}
	return err
}

func run(m *testing.M) int {
	ctx := context.Background()
	home, err := os.MkdirTemp("", "koup-e2e-") // a short path, because sockets go there
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e/realbase: making a folder for the sandbox: %v\n", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(home) }() // a folder for temporary files
	server := httptest.NewServer(http.FileServer(http.Dir(target)))
	defer server.Close()
	shared.Home, jars = home, server.URL
	code := 1
	if err = bringUp(ctx); err == nil {
		code = m.Run()
	}
	if err = errors.Join(err, shared.Down(ctx)); err != nil {
		fmt.Fprintf(os.Stderr, "e2e/realbase: %v\n", err)
		return 1
	}
	return code
}

// bringUp makes the variants, and starts a sandbox that takes bases over both tunnels.
func bringUp(ctx context.Context) error {
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
	config, err := shared.REST()
	if err != nil {
		return err
	}
	if client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if mqtt, err = shared.Broker(); err != nil {
		return err
	}
	log, err := os.ReadFile(shared.Log(box.ControllerProgram))
	if err != nil {
		return fmt.Errorf("looking for the controller's HTTP tunnel: %w", err)
	}
	_, after, ok := strings.Cut(string(log), `msg="receiving heartbeats over HTTP" addr=`)
	if !ok {
		return errors.New("the controller's log does not say where it takes heartbeats over HTTP")
	}
	token, err := os.ReadFile(filepath.Join(shared.Folder(), "heartbeat.token"))
	if err != nil {
		return fmt.Errorf("reading the token of heartbeats: %w", err)
	}
	heart = "http://" + strings.Fields(after)[0] + "/" + string(token)
	return nil
}
