package controller

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// settings shorten the timeouts of the controller.
var settings = map[string]string{
	"BASE_UNREACHABLE_AFTER":              "4s",
	"BASE_DEAD_AFTER":                     "8s",
	"RECONNECT_GRACE":                     "-1s",
	"MASS_SILENCE_PERCENT":                "0", // the bases of each test stop when the test ends
	"BASE_DELETIONS_PERCENT":              "100",
	"HEALTH_INTERVAL":                     "1s",
	"LIST_INTERVAL":                       "2s",
	"MODULE_DRAIN":                        "1s",
	"INSTALL_TIMEOUT":                     "3s",
	"UNINSTALL_TIMEOUT":                   "2s",
	"INSTALL_ATTEMPTS":                    "3",
	"ENABLE_MODULE_DEPLOYMENT_CONTROLLER": "true",
	"ENABLE_MODULE_VIEW":                  "true",
}

// Fixtures that all tests share. TestMain and bringUp set them.
var (
	binDir       string // directory of the built binaries
	shared       *box.Box
	config       *rest.Config
	client       kubernetes.Interface
	mqtt         box.Broker
	heartbeatURL string // where the shared controller receives heartbeats over HTTP
	hook         = &recordingHook{}
)

// parallelTests is the maximum number of concurrent tests. It exceeds the number of CPUs, because tests mostly wait.
var parallelTests = 6 * runtime.GOMAXPROCS(0)

func TestMain(m *testing.M) {
	responsive, hanging := httptest.NewServer(hook), newHangingHook()
	settings["REPORT_HOOKS"], settings["REPORT_HOOKS_ALLOW_HTTP"] = hanging.URL+";"+responsive.URL, "true"
	code := box.Main(m, "controller", parallelTests, bringUp, checkPermissions)
	responsive.Close()
	hanging.close()
	os.Exit(code)
}

// bringUp starts the shared sandbox, with one base that no test uses. Tests start their own bases.
func bringUp(ctx context.Context, b *box.Box) error {
	shared, binDir = b, b.Bin
	one := 1
	err := b.Up(ctx, v1alpha1.Spec{Bases: []v1alpha1.BaseSet{{Count: &one, BaseName: "unused"}},
		Controller: v1alpha1.Controller{Env: settings}})
	if err != nil {
		return err
	}
	config, err = b.REST()
	if err != nil {
		return err
	}
	client, err = kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	mqtt, err = b.Broker()
	if err != nil {
		return err
	}
	heartbeatURL, err = b.Heartbeats()
	return err
}

// checkPermissions returns an error if the API server has rejected a request of the controller as forbidden. The
// controller has the permissions of deploy.Objects.
func checkPermissions() error {
	log, err := os.ReadFile(shared.Log(box.ControllerBinary))
	if err != nil {
		return fmt.Errorf("reading the log of the controller: %w", err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "forbidden") {
			return fmt.Errorf("the API server rejected a request of the controller: %s", line)
		}
	}
	return nil
}

// hangingHook is a webhook that accepts requests but never responds.
type hangingHook struct {
	*httptest.Server
	end chan struct{}
}

func newHangingHook() *hangingHook {
	s := &hangingHook{end: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-s.end:
		case <-r.Context().Done():
		}
	}))
	return s
}

func (s *hangingHook) close() {
	close(s.end)
	s.Close()
}
