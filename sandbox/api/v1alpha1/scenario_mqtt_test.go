package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Every rule is bounded by default, and has the directions of its kind.
func TestMQTTRuleDefaults(t *testing.T) {
	for name, c := range map[string]struct{ given, want v1alpha1.MQTTRule }{
		"what lasts": {
			v1alpha1.MQTTRule{Kind: v1alpha1.MQTTHold},
			v1alpha1.MQTTRule{ID: "hold", Kind: v1alpha1.MQTTHold, Direction: v1alpha1.BothDirections, For: seconds(30)},
		},
		"a cut": {
			v1alpha1.MQTTRule{ID: "x", Kind: v1alpha1.MQTTCut, For: seconds(1)},
			v1alpha1.MQTTRule{ID: "x", Kind: v1alpha1.MQTTCut, For: seconds(1)},
		},
		"what strikes messages": {
			v1alpha1.MQTTRule{Kind: v1alpha1.MQTTDuplicate, Messages: []string{"installBiz"}, Direction: v1alpha1.FromBroker},
			v1alpha1.MQTTRule{ID: "duplicate", Kind: v1alpha1.MQTTDuplicate, Messages: []string{"installBiz"}, Direction: v1alpha1.FromBroker, Count: 1, For: seconds(30)},
		},
		"what kills": {
			v1alpha1.MQTTRule{Kind: v1alpha1.MQTTKillBefore, Skip: 3},
			v1alpha1.MQTTRule{ID: "killBefore", Kind: v1alpha1.MQTTKillBefore, Skip: 3, Direction: v1alpha1.ToBroker, Count: 1, For: seconds(30)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v1alpha1.SetMQTTRuleDefaults(&c.given)
			if diff := cmp.Diff(c.want, c.given); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if errs := v1alpha1.ValidateMQTTRule(&c.given); len(errs) > 0 {
				t.Error(errs)
			}
		})
	}
}

// What has no meaning is refused with the field that is wrong.
func TestMQTTRuleProblems(t *testing.T) {
	for name, c := range map[string]struct {
		rule v1alpha1.MQTTRule
		says string
	}{
		"no kind":             {v1alpha1.MQTTRule{ID: "x"}, "kind: Required value: one of cut, halfOpen, hold"},
		"messages of a state": {v1alpha1.MQTTRule{Kind: v1alpha1.MQTTHold, Messages: []string{"heart"}}, "messages: Forbidden: has no meaning for kind hold"},
		"skip of a state":     {v1alpha1.MQTTRule{Kind: v1alpha1.MQTTDelay, Delay: seconds(1), Skip: 1}, "skip: Forbidden"},
		"a direction of cut":  {v1alpha1.MQTTRule{Kind: v1alpha1.MQTTCut, Direction: v1alpha1.ToBroker}, "direction: Forbidden"},
		"two kills":           {v1alpha1.MQTTRule{Kind: v1alpha1.MQTTKillAfter, Count: 2}, "count: Forbidden"},
		"no delay":            {v1alpha1.MQTTRule{Kind: v1alpha1.MQTTDelay}, "delay: Required value"},
		"a delay of another":  {v1alpha1.MQTTRule{Kind: v1alpha1.MQTTNote, Delay: seconds(1)}, "delay: Forbidden"},
		"for ever":            {v1alpha1.MQTTRule{Kind: v1alpha1.MQTTCut, For: seconds(601)}, "for: Invalid value"},
		"all":                 {v1alpha1.MQTTRule{ID: "*", Kind: v1alpha1.MQTTCut}, "means all rules"},
	} {
		t.Run(name, func(t *testing.T) {
			v1alpha1.SetMQTTRuleDefaults(&c.rule)
			if errs := v1alpha1.ValidateMQTTRule(&c.rule); len(errs) != 1 || !strings.Contains(errs.ToAggregate().Error(), c.says) {
				t.Errorf("%v, want one that says %q", errs, c.says)
			}
		})
	}
}
