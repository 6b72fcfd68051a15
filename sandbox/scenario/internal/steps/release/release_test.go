package release

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestPlan(t *testing.T) {
	const (
		stock = `{name: stock, image: "https://m.example/stock-1.0.0-ark-biz.jar", env: [{name: BIZ_VERSION, value: 1.0.0}]}`
		order = `{name: order, image: "https://m.example/order-3.0.0-ark-biz.jar", env: [{name: A, value: b}, {name: BIZ_VERSION, value: 3.0.0}]}`
		agent = `{name: agent, image: "registry.example/agent:1.0.0"}`
	)
	deployment := func(containers ...string) string {
		return `{kind: Deployment, spec: {template: {metadata: {labels: {version: 1.0.0}}, spec: {containers: [` +
			strings.Join(containers, ", ") + `]}}}}`
	}
	at := "/spec/template/spec/containers/0"
	tests := []struct {
		name, object, module, version string
		want                          map[string]string // expected new values in the patch, by path
		err                           string
	}{
		{"the only module", deployment(stock, agent), "", "2.0.0",
			map[string]string{at + "/image": "https://m.example/stock-2.0.0-ark-biz.jar", at + "/env/0/value": "2.0.0"},
			""},
		{"one of several", deployment(stock, order), "order", "1.0.0",
			map[string]string{"/spec/template/spec/containers/1/image": "https://m.example/order-1.0.0-ark-biz.jar",
				"/spec/template/spec/containers/1/env/1/value": "1.0.0"}, ""},
		{"a longer version", deployment(stock), "", "1.0.0-rc1",
			map[string]string{at + "/image": "https://m.example/stock-1.0.0-rc1-ark-biz.jar",
				at + "/env/0/value": "1.0.0-rc1"}, ""},
		{"a Maven repository",
			deployment(strings.Replace(stock, "m.example/stock-1.0.0", "1.0.0.example/11.0.0/stock/1.0.0/stock-1.0.0",
				1)), "", "2.0.0",
			map[string]string{at + "/image": "https://1.0.0.example/11.0.0/stock/2.0.0/stock-2.0.0-ark-biz.jar",
				at + "/env/0/value": "2.0.0"}, ""},
		{"a label", deployment(
			strings.Replace(stock, "value: 1.0.0", "valueFrom: {fieldRef: {fieldPath: \"metadata.labels['version']\"}}",
				1)), "", "2.0.0",
			map[string]string{at + "/image": "https://m.example/stock-2.0.0-ark-biz.jar",
				"/spec/template/metadata/labels/version": "2.0.0"}, ""},
		{"an annotation of a Pod", `{kind: Pod, metadata: {annotations: {a/version: 1.0.0}}, spec: {containers: [` +
			strings.Replace(stock, "value: 1.0.0",
				"valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['a/version']\"}}", 1) + `]}}`, "", "2.0.0",
			map[string]string{"/spec/containers/0/image": "https://m.example/stock-2.0.0-ark-biz.jar",
				"/metadata/annotations/a~1version": "2.0.0"}, ""},
		{"several modules", deployment(stock, order), "", "2.0.0", nil, ": stock, order"},
		{"an unknown module", deployment(stock, agent), "agent", "2.0.0", nil, `module "agent"; `},
		{"the current version", deployment(stock), "stock", "1.0.0", nil, `module "stock" already has version 1.0.0`},
		{"no version", deployment(`{name: stock, image: "https://m.example/stock-1.0.0.jar"}`), "", "2.0.0", nil,
			"not set BIZ_VERSION"},
		{"an image without the version", deployment(strings.Replace(stock, "-1.0.0", "-1.0.0.1", 1)), "", "2.0.0", nil,
			"version 1.0.0"},
		{"a version that refers to a variable",
			deployment(strings.Replace(stock, "[{name: BIZ_VERSION, value: 1.0.0}]",
				"[{name: A, value: 1.0.0}, {name: BIZ_VERSION, value: $(A)}]", 1)), "", "2.0.0",
			nil, "sets BIZ_VERSION with valueFrom"},
		{"no template", `{kind: ConfigMap}`, "", "2.0.0", nil, "Pod template"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(tt.object), &o.Object); err != nil {
				t.Fatal(err)
			}
			operations, _, err := plan(o, tt.module, tt.version)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, op := range operations {
				if op.Op == "replace" {
					got[op.Path] = op.Value
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("new values (-want +got):\n%s", diff)
			}
		})
	}
}
