package steps

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/koupleless/koupsandbox/controller/redact"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
)

// Check evaluates a condition for a snapshot. It returns nil if the condition is met, and otherwise the reason why it
// is not.
type Check func(observe.Snapshot) *Failure

// Condition returns a Check that is met if the expression is true and each operand has compared at least one item.
func (e *Env) Condition(p *expr.Program) Check {
	return func(v observe.Snapshot) *Failure {
		r, err := p.Eval(e.Data(v, p))
		switch {
		case err != nil:
			return Fail("%v", err).With("Data", e.describeData(v, p))
		case r.True():
			return nil
		case r.Value == true:
			return Fail("condition compared nothing, because these lists were empty: %s: %s",
				strings.Join(r.EmptyLists, ", "), p.Text())
		}
		return Fail("condition is not true: %s", strings.TrimSpace(p.Text())).With("Data", e.describeData(v, p))
	}
}

// describeData formats the data that an expression uses as evidence.
func (e *Env) describeData(v observe.Snapshot, p *expr.Program) string {
	var lines []string
	data := v.Data(topicsOf(p))
	for _, name := range slices.Sorted(maps.Keys(data)) {
		switch value := data[name].(type) {
		case map[string]any: // bases and traffic
			for _, key := range slices.Sorted(maps.Keys(value)) {
				lines = append(lines, fmt.Sprintf("%s: %s", key, compact(value[key])))
			}
		case []any:
			for _, o := range value {
				if o, ok := o.(map[string]any); ok {
					lines = append(lines, fmt.Sprintf("%s: %s", name, summarizeObject(o)))
				}
			}
		}
		if data[name] == nil || len(lines) == 0 {
			lines = append(lines, name+": none")
		}
	}
	return strings.Join(lines, "\n")
}

func compact(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// summarizeObject formats an object or an Event on one line.
func summarizeObject(o map[string]any) string {
	const longest = 400
	metadata, _ := o["metadata"].(map[string]any)
	if o["kind"] == "Event" {
		about, _ := o["involvedObject"].(map[string]any)
		return fmt.Sprintf("%v %v %v: %v", about["name"], o["type"], o["reason"], o["message"])
	}
	text := fmt.Sprintf("%v %s", metadata["name"], compact(o["status"]))
	if status, ok := o["status"].(map[string]any); ok && status["phase"] != nil {
		ready := "not Ready"
		// Pods have the same condition Ready
		if observe.NodeStateOf(&unstructured.Unstructured{Object: o}) == events.NodeReady {
			ready = "Ready"
		}
		text = fmt.Sprintf("%v %v, %s, containers %s", metadata["name"], status["phase"], ready,
			compact(status["containerStatuses"]))
	}
	text = redact.Text(text)
	if len(text) > longest { // after redaction, because Text does not recognize a truncated URL
		text = text[:longest] + "…"
	}
	return text
}
