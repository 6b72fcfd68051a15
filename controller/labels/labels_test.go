package labels_test

import (
	"testing"

	"github.com/koupleless/koupsandbox/controller/labels"
)

func TestIsNodeLabel(t *testing.T) {
	for key, want := range map[string]bool{
		labels.BaseName:                      true,
		labels.OlderBaseName:                 true,
		labels.Component:                     true,
		labels.Env:                           true,
		"kubernetes.io/hostname":             true,
		labels.RolePrefix + "base-1.example": true,
		labels.OlderComponent:                false,
		labels.Strategy:                      false,
		labels.Holder:                        false, // an annotation
		"node-role.example/base":             false,
		"":                                   false,
	} {
		if got := labels.IsNodeLabel(key); got != want {
			t.Errorf("IsNodeLabel(%q) = %t, want %t", key, got, want)
		}
	}
}

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
