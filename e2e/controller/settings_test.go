package controller

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

// TestInvalidSettings checks that the controller exits with status 1 if a setting is invalid, and that the last line
// of its output names the setting.
func TestInvalidSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"no tunnel": {nil, "ENABLE_HTTP_TUNNEL"},
		"no broker": {map[string]string{"ENABLE_MQTT_TUNNEL": "true"}, "MQTT_BROKER"},
		"no kubeconfig": {map[string]string{"ENABLE_HTTP_TUNNEL": "true", "KUBECONFIG": "/nonexistent"},
			`KUBECONFIG="/nonexistent"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, lastLine := runInvalid(t, c.env)
			if status != 1 || !strings.HasPrefix(lastLine, "module-controller: ") ||
				!strings.Contains(lastLine, c.want) {
				t.Errorf("status %d and last line %q, want 1 and %s", status, lastLine, c.want)
			}
		})
	}
}

// TestSamples checks that every sample of the controller can be applied without changes, and that its Pods become
// Ready.
func TestSamples(t *testing.T) {
	t.Parallel()
	overMQTT(t, fakebase.Options{}) // the samples select a base with the default name and version
	objects, err := dynamic.NewForConfig(config)
	must(t, err)
	files, err := fs.Glob(deploy.Samples, "samples/*.yaml")
	must(t, err)
	applied := 0
	for _, file := range files {
		text, err := fs.ReadFile(deploy.Samples, file)
		must(t, err)
		parsed, err := deploy.Parse(text)
		must(t, err)
		for _, o := range parsed {
			resource := map[string]schema.GroupVersionResource{
				"Pod":        corev1.SchemeGroupVersion.WithResource("pods"),
				"Deployment": {Group: "apps", Version: "v1", Resource: "deployments"},
			}[o.GetKind()]
			if o.GetKind() == "Node" {
				continue // an example of a Node that the controller creates
			}
			applied++
			// not in parallel, because the samples request different versions of a module
			t.Run(o.GetName(), func(t *testing.T) {
				ns := namespace(t)
				o.SetNamespace(ns)
				_, err := objects.Resource(resource).Namespace(ns).Create(t.Context(), o,
					metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
				must(t, err)
				eventually(t, "the Pods of the sample are Ready", func(ctx context.Context) error {
					list, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
					if err != nil {
						return err
					}
					if len(list.Items) == 0 {
						return errors.New("no Pod exists")
					}
					for i := range list.Items {
						if !module.IsReady(&list.Items[i]) {
							return errors.New(describe(&list.Items[i]))
						}
					}
					return nil
				})
			})
		}
	}
	if applied < 3 {
		t.Errorf("%d samples were applied, want at least 3", applied)
	}
}
