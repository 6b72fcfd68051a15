package match

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/controller/redact"
)

// Lines formats differences, one per line. Each line consists of the field, the wanted value and the actual value.
func Lines(differences []Difference) string {
	lines := make([]string, len(differences))
	for i, d := range differences {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// String formats the difference on one line.
func (d Difference) String() string {
	path := d.Path
	if path == "" {
		path = "the object"
	}
	switch {
	case d.Want == nil:
		return fmt.Sprintf("%s: want no value, got %s", path, text(d.Got))
	case d.Missing:
		return fmt.Sprintf("%s: want %s, but it is missing", path, text(d.Want))
	default:
		return fmt.Sprintf("%s: want %s, got %s", path, text(d.Want), text(d.Got))
	}
}

const longest = 300

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	shown := redact.Text(string(b)) // before truncation: Text does not recognize a truncated URL
	if len(shown) > longest {
		return shown[:longest] + "…"
	}
	return shown
}

// Object formats an object as YAML without managedFields.
func Object(object map[string]any) string {
	shown := maps.Clone(object)
	if metadata, ok := object["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		shown["metadata"] = metadata
	}
	b, err := yaml.Marshal(shown)
	if err != nil {
		return fmt.Sprint(shown)
	}
	return string(b)
}
