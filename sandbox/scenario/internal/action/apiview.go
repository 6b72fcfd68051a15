package action

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

func (s *Stage) api(ctx context.Context, a *v1alpha1.APIAction) (string, error) {
	switch {
	case a.Quiet != nil:
		return s.quiet(ctx, a.Quiet.Duration)
	case a.Set == nil:
		return s.clearAPI(ctx, a.Clear)
	}
	r := control.APIRuleRequest{Rule: *a.Set, Group: s.o.Group}
	if a.Replica != nil {
		r.Replica = *a.Replica
	}
	s.mu.Lock()
	s.disturbs = true
	s.mu.Unlock()
	id, err := s.o.Sandbox.SetAPIRule(ctx, r)
	if err != nil {
		return "", fmt.Errorf("setting a rule of the API: %w", err)
	}
	return "set API rule " + id, nil
}

func (s *Stage) clearAPI(ctx context.Context, ids []string) (string, error) {
	for _, id := range ids {
		if err := s.o.Sandbox.ClearAPIRule(ctx, s.o.Group, id); err != nil {
			return "", fmt.Errorf("clearing rule %s of the API: %w", id, err)
		}
	}
	return "cleared API rules " + strings.Join(ids, ", "), nil
}

// quietEvery is how often writes are counted.
const quietEvery = 100 * time.Millisecond

// quiet waits until the controllers have written nothing but Leases for so long, to what is the run's
// or nobody's. What is so already is not waited for.
func (s *Stage) quiet(ctx context.Context, long time.Duration) (string, error) {
	tick := time.NewTicker(quietEvery)
	defer tick.Stop()
	var first, now map[string]int
	for {
		view, err := s.o.Sandbox.APIView(ctx, s.o.Group)
		switch {
		case err != nil && ctx.Err() == nil:
			return "", fmt.Errorf("asking what controllers have written: %w", err)
		case err == nil && time.Since(view.Wrote) >= long:
			return fmt.Sprintf("nothing was written for %s", long), nil
		case err == nil:
			now = writes(view)
			if first == nil {
				first = now
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", ended(ctx, context.Cause(ctx), func() *Failure { return fail("controllers go on writing: %s", most(first, now)) })
		}
	}
}

// writes is how often controllers have written anything but Leases, by verb and resource.
func writes(view control.APIView) map[string]int {
	all := map[string]int{}
	for _, writes := range view.Writes {
		for what, n := range writes {
			if !strings.HasSuffix(what, " leases") {
				all[what] += n
			}
		}
	}
	return all
}

// most are the three writes of which there were most since first.
func most(first, now map[string]int) string {
	writes := map[string]int{}
	for what, n := range now {
		if n > first[what] {
			writes[what] = n - first[what]
		}
	}
	list := slices.SortedFunc(maps.Keys(writes), func(a, b string) int { return cmp.Or(writes[b]-writes[a], strings.Compare(a, b)) })
	list = list[:min(3, len(list))]
	for i, what := range list {
		list[i] = fmt.Sprintf("%s %d times", what, writes[what])
	}
	return strings.Join(list, ", ")
}

// restoreAPI ends the rules that the run has left.
func (s *Stage) restoreAPI(ctx context.Context) error {
	if !s.disturbed() {
		return nil
	}
	return s.o.Sandbox.ClearAPIRule(ctx, s.o.Group, "*")
}

func (s *Stage) disturbed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disturbs
}

// APIRules are the rules that the run has set, with what they have done. The last is an error when one
// was to do something and has not.
func (s *Stage) APIRules(ctx context.Context) (control.APIView, error) {
	if !s.disturbed() {
		return control.APIView{}, nil
	}
	view, err := s.o.Sandbox.APIView(ctx, s.o.Group)
	if err != nil {
		return view, fmt.Errorf("asking what the rules of the API have done: %w", err)
	}
	var errs []error
	for _, r := range view.Rules {
		if r.Fired == 0 && !r.MayNotFire {
			errs = append(errs, fail("the API rule %s never fired: nothing that it is about has happened; mayNotFire: true allows that", r.ID))
		}
	}
	return view, errors.Join(errs...)
}
