package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// unknownValue replaces a value for which literal has added a finding. It looks like a scenario expression, so that all
// other rules ignore the value.
const unknownValue = "${{ }}"

// placeholder matches text that the author or a template engine should have replaced: {version},
// ${VERSION}, {{ .Values.version }}, <version>, TO_BE_IMPLEMENTED. It does not match $(VERSION), which
// Kubernetes expands.
var placeholder = regexp.MustCompile(
	`\$?\{[^{}]*\}|^<[A-Za-z][^<>]*>$|(?i:^(to_be_[a-z_]+|change_?me|replace_?me|todo|fixme)$)`)

var (
	// freeText lists fields that contain free text, which Lint does not check.
	freeText = []string{"args", "command", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe"}
	// stringMaps lists fields that are maps with arbitrary keys and string values.
	stringMaps = []string{"labels", "matchLabels", "nodeSelector", "annotations"}
	// scalars lists fields in which authors may write placeholders such as {version}, which YAML reads as an object.
	// The first three of these fields are strings.
	scalars = []string{"name", "namespace", "image", "value", "replicas", "maxSurge", "maxUnavailable", "port",
		"targetPort", "containerPort"}
)

// checkLiterals checks the field at a path and all fields below it. It reports placeholders, and unquoted values that
// YAML does not read as the string that the API requires. It returns the value with each reported value replaced by
// unread.
func (l *linter) checkLiterals(o *object, at string, value any) any {
	switch value := value.(type) {
	case string:
		if placeholder.MatchString(value) && !unknown(value) && !strings.Contains(at, "annotations") {
			l.find("placeholder", o, at, msgPlaceholder, args{"field": at, "value": value})
			return unknownValue
		}
	case []any:
		for i, item := range value {
			value[i] = l.checkLiterals(o, fmt.Sprintf("%s[%d]", at, i), item)
		}
	case map[string]any:
		for _, key := range sortedKeys(value) {
			value[key] = l.checkField(o, at, key, value)
		}
	}
	return value
}

// checkField checks the field key of the object of, which is at the path at, and returns its value, in the same way as
// literal.
func (l *linter) checkField(o *object, at, key string, of map[string]any) any {
	parent := at[strings.LastIndexByte(at, '.')+1:]
	value, path := of[key], at+member(key)
	isString := slices.Contains(stringMaps, parent) || slices.Contains(scalars[:3], key) ||
		key == "value" && strings.HasPrefix(parent, "env[")
	inner, isObject := value.(map[string]any)
	switch value.(type) {
	case int64, float64, bool:
		if isString {
			l.invalid(o, path, fixNotString, msgNotString, args{"field": path, "value": value})
			return unknownValue
		}
	}
	switch {
	case parent == "requests" || parent == "limits":
		return l.checkQuantity(o, path, value)
	case isObject && len(inner) == 1 && (isString || slices.Contains(scalars, key)):
		for name, null := range inner {
			if null == nil {
				l.find("placeholder", o, path, msgPlaceholder, args{"field": path, "value": "{" + name + "}"})
				return unknownValue
			}
		}
	case slices.Contains(freeText, key),
		key == "value" && of["name"] != labels.VersionEnv && strings.HasPrefix(parent, "env["):
		return value
	}
	return l.checkLiterals(o, path, value)
}

// checkQuantity returns the value of a resource quantity. For an invalid quantity, it adds a finding and returns nil,
// which means zero. It does not return the invalid value, because the decoder would then not read the subsequent
// fields.
func (l *linter) checkQuantity(o *object, at string, value any) any {
	if _, err := resource.ParseQuantity(fmt.Sprint(value)); err == nil {
		return value
	}
	if text := fmt.Sprint(l.checkLiterals(o, at, value)); !unknown(text) {
		l.invalid(o, at, fixNotQuantity, msgNotQuantity, args{"field": at, "value": text})
	}
	return nil
}
