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

// A setting that cannot be used ends the program, with one sentence that names it (behaviour 15).
func TestBadSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		says string
	}{
		"no tunnel": {nil, "ENABLE_HTTP_TUNNEL"},
		"no broker": {map[string]string{"ENABLE_MQTT_TUNNEL": "true"}, "MQTT_BROKER"},
		"no kubeconfig": {map[string]string{"ENABLE_HTTP_TUNNEL": "true", "KUBECONFIG": "/nonexistent"},
			`KUBECONFIG="/nonexistent"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, says := refusal(t, c.env)
			if status != 1 || !strings.HasPrefix(says, "module-controller: ") || !strings.Contains(says, c.says) {
				t.Errorf("status %d and last line %q, want 1 and %s", status, says, c.says)
			}
		})
	}
}

// Every sample that ships with the controller can be applied as it is, and its Pods become Ready.
func TestSamples(t *testing.T) {
	t.Parallel()
	overMQTT(t, fakebase.Options{}) // the samples ask for a base of the default name and version
	objects, err := dynamic.NewForConfig(config)
	must(t, err)
	files, err := fs.Glob(deploy.Samples, "samples/*.yaml")
	must(t, err)
	tried := 0
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
				continue // it shows what the controller makes
			}
			tried++
			// one after the other: the samples request different versions of a module
			t.Run(o.GetName(), func(t *testing.T) {
				ns := namespace(t)
				o.SetNamespace(ns)
				_, err := objects.Resource(resource).Namespace(ns).Create(t.Context(), o,
					metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
				must(t, err)
				eventually(t, "its Pods are Ready", func(ctx context.Context) error {
					list, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
					if err != nil {
						return err
					}
					if len(list.Items) == 0 {
						return errors.New("there is no Pod")
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
	if tried < 3 {
		t.Errorf("only %d samples were tried", tried)
	}
}
