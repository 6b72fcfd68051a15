package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// unread replaces a value that a finding has reported. It looks like an expression of a scenario, so
// the other rules skip it.
const unread = "${{ }}"

// placeholder matches text that the author or a template engine should have replaced: {version},
// ${VERSION}, {{ .Values.version }}, <version>, TO_BE_IMPLEMENTED. It does not match $(VERSION), which
// Kubernetes expands.
var placeholder = regexp.MustCompile(
	`\$?\{[^{}]*\}|^<[A-Za-z][^<>]*>$|(?i:^(to_be_[a-z_]+|change_?me|replace_?me|todo|fixme)$)`)

var (
	// freeText are fields whose text has no meaning for Lint.
	freeText = []string{"args", "command", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"}
	// stringMaps are fields whose values are strings by any key.
	stringMaps = []string{"labels", "matchLabels", "nodeSelector", "annotations"}
	// scalars are fields in which authors write placeholders that YAML reads as an object: {version}.
	// The first three are strings.
	scalars = []string{"name", "namespace", "image", "value", "replicas", "maxSurge", "maxUnavailable", "port",
		"targetPort", "containerPort"}
)

// literal reports placeholders, and values without quotes that YAML does not read as the string that
// the API requires. It returns the value of the field at a path, with unread in place of each of them.
func (l *linter) literal(o *object, at string, value any) any {
	switch value := value.(type) {
	case string:
		if placeholder.MatchString(value) && !unknown(value) && !strings.Contains(at, "annotations") {
			l.find("placeholder", o, at, msgPlaceholder, args{"field": at, "value": value})
			return unread
		}
	case []any:
		for i, item := range value {
			value[i] = l.literal(o, fmt.Sprintf("%s[%d]", at, i), item)
		}
	case map[string]any:
		for _, key := range sortedKeys(value) {
			value[key] = l.field(o, at, key, value)
		}
	}
	return value
}

// field returns the value of one field of an object, as literal does.
func (l *linter) field(o *object, at, key string, of map[string]any) any {
	parent := at[strings.LastIndexByte(at, '.')+1:]
	value, path := of[key], at+member(key)
	isString := slices.Contains(stringMaps, parent) || slices.Contains(scalars[:3], key) ||
		key == "value" && strings.HasPrefix(parent, "env[")
	inner, isObject := value.(map[string]any)
	switch value.(type) {
	case int64, float64, bool:
		if isString {
			l.invalid(o, path, fixNotString, msgNotString, args{"field": path, "value": value})
			return unread
		}
	}
	switch {
	case parent == "requests" || parent == "limits":
		return l.quantity(o, path, value)
	case isObject && len(inner) == 1 && (isString || slices.Contains(scalars, key)):
		for name, null := range inner {
			if null == nil {
				l.find("placeholder", o, path, msgPlaceholder, args{"field": path, "value": "{" + name + "}"})
				return unread
			}
		}
	case slices.Contains(freeText, key),
		key == "value" && of["name"] != labels.VersionEnv && strings.HasPrefix(parent, "env["):
		return value
	}
	return l.literal(o, path, value)
}

// quantity returns the value of a resource; nil, which is zero, if it is not a quantity. The decoder would not read the
// fields after it.
func (l *linter) quantity(o *object, at string, value any) any {
	if _, err := resource.ParseQuantity(fmt.Sprint(value)); err == nil {
		return value
	}
	if text := fmt.Sprint(l.literal(o, at, value)); !unknown(text) {
		l.invalid(o, at, fixNotQuantity, msgNotQuantity, args{"field": at, "value": text})
	}
	return nil
}
