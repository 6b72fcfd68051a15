package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestRefs(t *testing.T) {
	const object = `apiVersion: v1, kind: ConfigMap, name: c`
	want := []Ref{{APIVersion: "v1", Kind: "ConfigMap", Name: "c"}}
	for _, text := range []string{
		`patch: {` + object + `, patch: {}}`, `delete: {` + object + `}`, `scale: {` + object + `, replicas: 1}`,
		`rollback: {` + object + `}`,
		`release: {` + object + `, version: "1"}`, `wait: {rollout: {` + object + `}}`,
		`wait: {ready: {` + object + `}}`, `wait: {gone: {` + object + `}}`,
		`assert: {resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {app: x}}}}`,
	} {
		s := &Step{}
		if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, s.Refs()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
