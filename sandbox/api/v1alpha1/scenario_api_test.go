package v1alpha1_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

func seconds(n int) *metav1.Duration {
	return &metav1.Duration{Duration: time.Duration(n) * time.Second}
}

// Every rule is bounded by default, and conflicts strike only what may conflict.
func TestAPIRuleDefaults(t *testing.T) {
	writes := []string{"create", "update", "patch", "delete", "deletecollection"}
	for name, c := range map[string]struct{ given, want v1alpha1.APIRule }{
		"a watch": {
			v1alpha1.APIRule{Kind: v1alpha1.APIHoldWatch, Resource: "nodes"},
			v1alpha1.APIRule{ID: "holdWatch", Kind: v1alpha1.APIHoldWatch, Resource: "nodes", For: seconds(30)},
		},
		"a conflict": {
			v1alpha1.APIRule{ID: "x", Kind: v1alpha1.APIRefuse, Code: 409, For: seconds(1)},
			v1alpha1.APIRule{ID: "x", Kind: v1alpha1.APIRefuse, Code: 409, For: seconds(1), Count: 1, Verbs: []string{"update", "patch"}},
		},
		"too many requests": {
			v1alpha1.APIRule{Kind: v1alpha1.APIRefuse, Code: 429, Count: 3},
			v1alpha1.APIRule{ID: "refuse", Kind: v1alpha1.APIRefuse, Code: 429, For: seconds(30), Count: 3, Verbs: writes, RetryAfter: seconds(1)},
		},
		"a lost answer": {
			v1alpha1.APIRule{Kind: v1alpha1.APILoseAnswer},
			v1alpha1.APIRule{ID: "loseAnswer", Kind: v1alpha1.APILoseAnswer, For: seconds(30), Count: 1, Verbs: writes},
		},
		"a delay": {
			v1alpha1.APIRule{Kind: v1alpha1.APIDelay, Delay: seconds(1), Verbs: []string{"get"}},
			v1alpha1.APIRule{ID: "delay", Kind: v1alpha1.APIDelay, Delay: seconds(1), Verbs: []string{"get"}, For: seconds(30)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v1alpha1.SetAPIRuleDefaults(&c.given)
			if diff := cmp.Diff(c.want, c.given); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if errs := v1alpha1.ValidateAPIRule(&c.given); len(errs) > 0 {
				t.Error(errs)
			}
		})
	}
}

// What the API would never do, and what has no meaning, is refused with the field that is wrong.
func TestAPIRuleProblems(t *testing.T) {
	for name, c := range map[string]struct {
		rule v1alpha1.APIRule
		says string
	}{
		"no kind":              {v1alpha1.APIRule{}, "kind: Required value"},
		"an unknown kind":      {v1alpha1.APIRule{Kind: "eat"}, `kind: Unsupported value: "eat"`},
		"no resource":          {v1alpha1.APIRule{Kind: v1alpha1.APIHoldWatch}, "resource: Required value"},
		"no code":              {v1alpha1.APIRule{Kind: v1alpha1.APIRefuse}, "code: Required value"},
		"a code of its own":    {v1alpha1.APIRule{Kind: v1alpha1.APIRefuse, Code: 418}, "code: Invalid value: 418"},
		"a create conflicts":   {v1alpha1.APIRule{Kind: v1alpha1.APIRefuse, Code: 409, Verbs: []string{"create"}}, "verbs[0]: Unsupported value"},
		"the answer of a read": {v1alpha1.APIRule{Kind: v1alpha1.APILoseAnswer, Verbs: []string{"get"}}, "verbs[0]: Unsupported value"},
		"no delay":             {v1alpha1.APIRule{Kind: v1alpha1.APIDelay}, "delay: Required value"},
		"a count of a state":   {v1alpha1.APIRule{Kind: v1alpha1.APIBlackHole, Count: 1}, "count: Forbidden"},
		"a hole for Pods only": {v1alpha1.APIRule{Kind: v1alpha1.APIBlackHole, Resource: "pods"}, "resource: Forbidden"},
		"for ever":             {v1alpha1.APIRule{Kind: v1alpha1.APIBlackHole, For: seconds(3600)}, "for: Invalid value"},
		"a delay of an hour":   {v1alpha1.APIRule{Kind: v1alpha1.APIDelay, Delay: seconds(3600)}, "delay: Invalid value"},
		"half a second":        {v1alpha1.APIRule{Kind: v1alpha1.APIRefuse, Code: 429, RetryAfter: &metav1.Duration{Duration: time.Second / 2}}, "retryAfter: Invalid value"},
		"the name of all":      {v1alpha1.APIRule{ID: "*", Kind: v1alpha1.APIBlackHole}, "id: Invalid value"},
	} {
		t.Run(name, func(t *testing.T) {
			v1alpha1.SetAPIRuleDefaults(&c.rule)
			errs := v1alpha1.ValidateAPIRule(&c.rule)
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.says) {
				t.Errorf("says %v, want %s", errs, c.says)
			}
		})
	}
}
