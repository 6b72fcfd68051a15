package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
)

func (s *commands) api() *cli.Command {
	return &cli.Command{
		Name: "api", Usage: "disturb what the controllers see of the Kubernetes API",
		Description: "The sandbox needs spec.controller.apiView: true. A rule is YAML or JSON; koupsandbox scenario explain api.set says what it may have:\n" +
			"koupsandbox api set '{kind: holdWatch, resource: nodes, for: 20s}'",
		Subcommands: []*cli.Command{
			{
				Name: "set", Usage: "set a rule", ArgsUsage: "RULE",
				Flags:  []cli.Flag{theName(), &cli.IntFlag{Name: "replica", Usage: "`NUMBER` of the controller that it is for, from 1", DefaultText: "all"}},
				Action: taking(1, 1, "a rule", s.setAPIRule),
			},
			{
				Name: "list", Usage: "list the rules with what they have done, and the writes of the controllers", Flags: []cli.Flag{theName()},
				Action: within(0, 0, "nothing", s.listAPIRules),
			},
			{
				Name: "clear", Usage: "end rules: those named, or all", ArgsUsage: "[ID...]", Flags: []cli.Flag{theName()},
				Action: within(0, -1, "ids of rules", func(c *cli.Context, up *sandbox.Sandbox, list []string) error {
					if len(list) == 0 {
						list = []string{"*"}
					}
					for _, id := range list {
						if err := up.ClearAPIRule(c.Context, "", id); err != nil {
							return err
						}
					}
					return nil
				}),
			},
		},
	}
}

func (s *commands) setAPIRule(c *cli.Context, list []string) error {
	r := control.APIRuleRequest{Replica: c.Int("replica")}
	if _, problems := strictyaml.Decode("", []byte(list[0]), &r.Rule); len(problems) > 0 {
		return usageError{fmt.Errorf("this is no rule: %w", problems)}
	}
	return inSandbox(c, func(up *sandbox.Sandbox) error {
		id, err := up.SetAPIRule(c.Context, r)
		if err == nil {
			say(s.Out, "%s\n", id)
		}
		return err
	})
}

func (s *commands) listAPIRules(c *cli.Context, up *sandbox.Sandbox, _ []string) error {
	view, err := up.APIView(c.Context, "")
	if err != nil {
		return err
	}
	for _, r := range view.Rules {
		text, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("writing rule %s: %w", r.ID, err)
		}
		write(s.Out, string(text)+"\n")
	}
	for _, n := range slices.Sorted(maps.Keys(view.Writes)) {
		for _, what := range slices.Sorted(maps.Keys(view.Writes[n])) {
			say(s.Out, "controller %d: %s %d\n", n, what, view.Writes[n][what])
		}
	}
	return nil
}
