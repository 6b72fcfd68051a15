package controller

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// The settings of the controller on which tests rely.
const (
	unreachableAfter = 4 * time.Second
	deadAfter        = 8 * time.Second
	drain            = time.Second
	installTimeout   = 3 * time.Second
	attempts         = 3
)

// settings save minutes of waiting.
var settings = map[string]string{
	"BASE_UNREACHABLE_AFTER":              unreachableAfter.String(),
	"BASE_DEAD_AFTER":                     deadAfter.String(),
	"RECONNECT_GRACE":                     "-1s",
	"MASS_SILENCE_PERCENT":                "0", // bases of tests that end fall silent all the time
	"BASE_DELETIONS_PERCENT":              "100",
	"HEALTH_INTERVAL":                     "1s",
	"LIST_INTERVAL":                       "2s",
	"MODULE_DRAIN":                        drain.String(),
	"INSTALL_TIMEOUT":                     installTimeout.String(),
	"UNINSTALL_TIMEOUT":                   "2s",
	"INSTALL_ATTEMPTS":                    fmt.Sprint(attempts),
	"ENABLE_MODULE_DEPLOYMENT_CONTROLLER": "true",
	"ENABLE_MODULE_VIEW":                  "true",
}

// What all tests use; run sets it.
var (
	programs string // folder of the built programs
	shared   *box.Box
	config   *rest.Config
	client   kubernetes.Interface
	mqtt     box.Broker
	heart    string // URL where the shared controller takes heartbeats over HTTP
	hook     = &robot{}
)

// atOnce is how many tests run at the same time: most of the time they wait.
const atOnce = "12"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	home, err := os.MkdirTemp("", "koup-e2e-") // a short path, because sockets go there
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e/controller: making a folder for sandboxes: %v\n", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(home) }() // a folder for temporary files
	alive := httptest.NewServer(hook)
	defer alive.Close()
	stuck := newStuck()
	defer stuck.close()
	settings["REPORT_HOOKS"], settings["REPORT_HOOKS_ALLOW_HTTP"] = stuck.URL+";"+alive.URL, "true"
	if err := bringUp(ctx, home); err != nil {
		fmt.Fprintf(os.Stderr, "e2e/controller: %v\n", errors.Join(err, shared.Down(ctx)))
		return 1
	}
	code := m.Run()
	if err := rightsSufficed(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e/controller: %v\n", err)
		code = 1
	}
	if err := shared.Down(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "e2e/controller: %v\n", err)
		return 1
	}
	return code
}

// bringUp starts a sandbox of one base; tests bring bases of their own. The
// programs are those that make build has left in bin, or those in $E2E_BIN.
func bringUp(ctx context.Context, home string) error {
	var err error
	programs, err = box.FindPrograms(filepath.Join("..", ".."))
	shared = &box.Box{Bin: programs, Home: home, Name: envconf.RandomName("rules", 10)}
	if err != nil {
		return err
	}
	one := 1
	start := time.Now()
	err = shared.Up(ctx, v1alpha1.Spec{Bases: v1alpha1.Bases{Count: &one, Name: "unused"}, Controller: v1alpha1.Controller{Env: settings}})
	if err != nil {
		return err
	}
	fmt.Printf("sandbox %s is up after %.1fs\n", shared.Name, time.Since(start).Seconds())
	if config, err = shared.REST(); err != nil {
		return err
	}
	if client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if mqtt, err = shared.Broker(); err != nil {
		return err
	}
	if heart, err = heartbeatURL(shared.Log(box.ControllerProgram)); err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(shared.Folder(), "heartbeat.token"))
	if err != nil {
		return fmt.Errorf("reading the token of heartbeats: %w", err)
	}
	heart += "/" + string(token)
	return nil
}

// rightsSufficed checks that the API server has refused nothing to the
// controller, whose rights are those of deploy.Objects.
func rightsSufficed() error {
	log, err := os.ReadFile(shared.Log(box.ControllerProgram))
	if err != nil {
		return fmt.Errorf("reading what the controller was refused: %w", err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "forbidden") {
			return fmt.Errorf("the controller was refused something: %s", line)
		}
	}
	return nil
}

// stuck is a web hook that takes requests and never answers.
type stuck struct {
	*httptest.Server
	end chan struct{}
}

func newStuck() *stuck {
	s := &stuck{end: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-s.end:
		case <-r.Context().Done():
		}
	}))
	return s
}

func (s *stuck) close() {
	close(s.end)
	s.Close()
}
