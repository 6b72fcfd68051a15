package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// TestNewSet checks that the flags of base add set the fields of a new set of bases, that no set results without
// them, and that an invalid value is reported with its flag.
func TestNewSet(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want *v1alpha1.BaseSet
		err  string
	}{
		{name: "no settings", args: []string{"--set", "web"}},
		{name: "settings",
			args: []string{"--set", "old", "--base-version", "1.9.0", "--tunnel", "http", "--zone", "z", "--label",
				"rack=7",
				"--metaspace", "128Mi", "--metaspace-leak", "50", "--install-time", "2s", "--web-module", "shop:1=/s",
				"--module", "https://h/a-1-ark-biz.jar", "--with-all-biz-readiness"},
			want: &v1alpha1.BaseSet{Name: "old", Version: "1.9.0", Tunnel: "http", Zone: "z",
				Labels:      map[string]string{"rack": "7"},
				Metaspace:   v1alpha1.Metaspace{Max: "128Mi", Leak: 50},
				InstallTime: &metav1.Duration{Duration: 2 * time.Second},
				WebModules:  []v1alpha1.WebModule{{Name: "shop", Version: "1", ContextPath: "/s"}},
				Modules:     []string{"https://h/a-1-ark-biz.jar"},
				Health:      v1alpha1.Health{WithAllBizReadiness: true}}},
		{name: "label without a value", args: []string{"--label", "rack"},
			err: `invalid --label "rack"; use NAME=VALUE`},
		{name: "web module without a path", args: []string{"--web-module", "shop"},
			err: `invalid --web-module "shop"; use NAME=PATH or NAME:VERSION=PATH`},
		{name: "leak", args: []string{"--set", "a", "--metaspace-leak", "101"},
			err: "--metaspace-leak: Invalid value: 101: must be between 0 and 100"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got *v1alpha1.BaseSet
			var err error
			app := &cli.App{Flags: new(commands).baseAdd().Flags, Action: func(c *cli.Context) error {
				got, err = newSet(c)
				return nil
			}}
			if runErr := app.Run(append([]string{"add"}, tt.args...)); runErr != nil {
				t.Fatal(runErr)
			}
			if text := errorText(err); text != tt.err {
				t.Errorf("error %q, want %q", text, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); tt.err == "" && diff != "" {
				t.Errorf("set (-want +got):\n%s", diff)
			}
		})
	}
}

// errorText returns the text of an error; empty for nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
