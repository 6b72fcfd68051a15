package controller

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// recordingTunnel is a tunnel that records the commands it is asked to send.
type recordingTunnel struct{ commands []arklet.Command }

func (a *recordingTunnel) Key() tunnel.Key { return tunnel.MQTT }

func (a *recordingTunnel) Send(_ context.Context, _ tunnel.Address, r arklet.Request) error {
	a.commands = append(a.commands, r.Command)
	return nil
}

// TestOperationsAreSentOnlyToServedBases checks that operations are sent only to served bases, and that queries are
// sent to all bases.
func TestOperationsAreSentOnlyToServedBases(t *testing.T) {
	commands := []arklet.Command{
		arklet.CommandInstallBiz, arklet.CommandUninstallBiz, arklet.CommandSwitchBiz, arklet.CommandHealth,
		arklet.CommandQueryAllBiz,
	}
	for identity, want := range map[string][]arklet.Command{"ours": commands, "theirs": commands[3:]} {
		to := &recordingTunnel{}
		g := guardedTunnel{to, func(identity string) error {
			if identity != "ours" {
				return errNotServed
			}
			return nil
		}}
		for _, command := range commands {
			err := g.Send(t.Context(), tunnel.Address{Identity: identity}, arklet.Request{Command: command})
			if refused := !slices.Contains(want, command); errors.Is(err, errNotServed) != refused ||
				err != nil && !refused {
				t.Errorf("%s for %s: %v", command, identity, err)
			}
		}
		if diff := cmp.Diff(want, to.commands); diff != "" {
			t.Errorf("commands for %s (-want +got):\n%s", identity, diff)
		}
	}
}

// TestListsAreNotStale checks that withoutStaleReads removes resourceVersion=0 from list requests, which could
// otherwise return outdated objects, and that it does not change other requests.
func TestListsAreNotStale(t *testing.T) {
	for asked, want := range map[string]string{
		"/api/v1/pods?labelSelector=a%3Db&limit=500&resourceVersion=0":      "/api/v1/pods?labelSelector=a%3Db&limit=500",
		"/api/v1/nodes?resourceVersion=0&resourceVersionMatch=NotOlderThan": "/api/v1/nodes",
		"/api/v1/pods?resourceVersion=17":                                   "/api/v1/pods?resourceVersion=17",
		"/api/v1/pods?watch=true&resourceVersion=17":                        "/api/v1/pods?watch=true&resourceVersion=17",
		"/api/v1/pods": "/api/v1/pods",
	} {
		var got string
		by := withoutStaleReads(promhttp.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
			got = r.URL.Path
			if r.URL.RawQuery != "" {
				got += "?" + r.URL.RawQuery
			}
			return &http.Response{}, nil
		}))
		r := httptest.NewRequest(http.MethodGet, asked, nil)
		before := r.URL.String()
		response, err := by.RoundTrip(r)
		if err != nil || response == nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", asked, diff)
		}
		if r.URL.String() != before {
			t.Errorf("%s: the request itself was changed to %s", asked, r.URL)
		}
	}
}
