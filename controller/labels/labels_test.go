package labels_test

import (
	"testing"

	"github.com/koupleless/koupsandbox/controller/labels"
)

func TestValueAcceptsBothPrefixes(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"Prefix":      {map[string]string{labels.Component: labels.Module}, labels.Module},
		"OlderPrefix": {map[string]string{labels.OlderComponent: labels.Module}, labels.Module},
		"both prefixes": {map[string]string{labels.Component: labels.Vnode, labels.OlderComponent: labels.Module},
			labels.Vnode},
		"no prefix": {map[string]string{"component": labels.Module}, ""},
		"no labels": {nil, ""},
		"empty with Prefix": {map[string]string{labels.Component: "", labels.OlderComponent: labels.Module},
			labels.Module},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{labels.Component, "component"} {
				if got := labels.Value(c.labels, name); got != c.want {
					t.Errorf("Value of %q = %q, want %q", name, got, c.want)
				}
			}
		})
	}
}
