package explain_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/explain"
)

var update = flag.Bool("update", false, "update the golden file")

func explainer(t *testing.T) *explain.Explainer {
	t.Helper()
	e, err := explain.New(v1alpha1.ScenarioSchema)
	check.Must(t, err)
	return e
}

func TestTopics(t *testing.T) {
	var b strings.Builder
	for _, topic := range []string{"", "spec.bases", "steps.apply", "traffic.start.via", "wait", "checks.order",
		"order", "fault", "crash", "spec.matrix"} {
		text, err := explainer(t).Topic(topic)
		if err != nil {
			t.Errorf("%s: %v", topic, err)
		}
		b.WriteString("$ explain " + topic + "\n" + text + "\n")
	}
	const file = "testdata/topics.txt"
	if *update {
		check.Must(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	check.Must(t, err)
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("run the test with -update to accept (-want +got):\n%s", diff)
	}
}

// TestTopicAcceptsAllTopics checks that Topic accepts every name that Topics returns.
func TestTopicAcceptsAllTopics(t *testing.T) {
	e := explainer(t)
	topics := e.Topics()
	if len(topics) < 40 {
		t.Errorf("%d topics, want at least 40: %v", len(topics), topics)
	}
	for _, topic := range topics {
		if text, err := e.Topic(topic); err != nil || len(text) < 40 {
			t.Errorf("%s: %q, %v", topic, text, err)
		}
	}
}

func TestUnknownTopics(t *testing.T) {
	for topic, want := range map[string]string{
		"colour": `unknown topic "colour"`,
		"spec.basis": "unknown field spec.basis; supported: description, source, vars, matrix, " +
			"bases, controller, speed, exclusive, timeout, stepTimeout, checks, always, never, steps, finally",
		"spec.timeout.min": "unknown field spec.timeout.min: spec.timeout has no fields",
	} {
		if _, err := explainer(t).Topic(topic); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", topic, err, want)
		}
	}
}

// TestFaultExamples checks that the description of every fault kind contains a valid example.
func TestFaultExamples(t *testing.T) {
	for _, target := range v1alpha1.FaultTargets {
		for _, kind := range target.Kinds() {
			text, err := explainer(t).Topic(string(kind))
			if err != nil {
				t.Errorf("%s: %v", kind, err)
				continue
			}
			_, text, _ = strings.Cut(text, "of the target "+string(target))
			_, example, _ := strings.Cut(text, "fault: {")
			example, _, _ = strings.Cut(example, "\n")
			var f v1alpha1.Fault
			if err := yaml.UnmarshalStrict([]byte("{"+example), &f); err != nil {
				t.Errorf("%s: the example {%s is invalid: %v", kind, example, err)
			}
			v1alpha1.SetFaultDefaults(target, &f)
			if problems := v1alpha1.ValidateFault(target, &f); len(problems) > 0 {
				t.Errorf("%s of %s: the example {%s is invalid: %v", kind, target, example, problems.ToAggregate())
			}
		}
	}
}
