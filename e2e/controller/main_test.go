package controller

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// settings save minutes of waiting.
var settings = map[string]string{
	"BASE_UNREACHABLE_AFTER":              "4s",
	"BASE_DEAD_AFTER":                     "8s",
	"RECONNECT_GRACE":                     "-1s",
	"MASS_SILENCE_PERCENT":                "0", // bases of finished tests stop all the time
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

// What all tests use; run sets it.
var (
	programs string // directory of the built binaries
	shared   *box.Box
	config   *rest.Config
	client   kubernetes.Interface
	mqtt     box.Broker
	heart    string // URL where the shared controller takes heartbeats over HTTP
	hook     = &robot{}
)

// atOnce is how many tests run at the same time: most of the time they wait.
const atOnce = 12

func TestMain(m *testing.M) {
	alive, stuck := httptest.NewServer(hook), newStuck()
	settings["REPORT_HOOKS"], settings["REPORT_HOOKS_ALLOW_HTTP"] = stuck.URL+";"+alive.URL, "true"
	code := box.Main(m, "controller", atOnce, bringUp, rightsSufficed)
	alive.Close()
	stuck.close()
	os.Exit(code)
}

// bringUp starts a sandbox of one base; tests bring bases of their own.
func bringUp(ctx context.Context, b *box.Box) error {
	shared, programs = b, b.Bin
	one := 1
	err := b.Up(ctx, v1alpha1.Spec{Bases: v1alpha1.Bases{Count: &one, Name: "unused"},
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
	heart, err = b.Heartbeats()
	return err
}

// rightsSufficed checks that the API server has refused nothing to the
// controller, which has the permissions of deploy.Objects.
func rightsSufficed() error {
	log, err := os.ReadFile(shared.Log(box.ControllerBinary))
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
