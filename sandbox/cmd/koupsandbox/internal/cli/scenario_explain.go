package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/explain"
	"github.com/koupleless/koupsandbox/sandbox/internal/lint"
)

func (s *commands) scenarioExplain() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "say what can be written in a scenario, and what a rule of lint means",
		ArgsUsage: "[FIELD|STEP|FAULT|CHECK|RULE]",
		Description: `FIELD is a path such as spec.bases.tunnel or steps.apply, STEP an action such as
traffic; fault, and each kind of fault; checks, and each of them; expressions;
rules, and the id of each rule of lint.`,
		BashComplete: func(*cli.Context) {
			for _, topic := range s.topics() {
				printf(s.Out, "%s\n", topic)
			}
		},
		Action: withArgs(0, 1, "one topic",
			func(c *cli.Context, _ []string) error { return s.explain(c.Args().First()) }),
	}
}

func (s *commands) explain(topic string) error {
	if topic == "rules" {
		rows := [][]string{{"RULE", "LEVEL", "WHAT"}}
		for _, rule := range lint.Rules() {
			rows = append(rows, []string{rule.ID, string(rule.Level), rule.Title})
		}
		table(s.Out, rows)
		return nil
	}
	for _, rule := range lint.Rules() {
		if rule.ID == topic {
			printf(s.Out, "RULE:   %s (%s)\n\n%s.\n\n%s\n\nWhat to do: %s.\n", rule.ID, rule.Level, rule.Title,
				rule.Explanation, rule.Fix)
			return nil
		}
	}
	e, err := explain.New(v1alpha1.ScenarioSchema)
	if err != nil {
		return err
	}
	text, err := e.Topic(topic)
	if err != nil {
		return usageError{fmt.Errorf("%w; topics are: %s", err, strings.Join(s.topics(), ", "))}
	}
	printf(s.Out, "%s", text)
	return nil
}

// topics lists what explain takes beside paths of fields.
func (s *commands) topics() []string {
	topics := []string{"rules"}
	if e, err := explain.New(v1alpha1.ScenarioSchema); err == nil {
		topics = append(topics, e.Topics()...)
	}
	for _, rule := range lint.Rules() {
		topics = append(topics, rule.ID)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}
