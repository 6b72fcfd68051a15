package action

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

func (s *Stage) api(ctx context.Context, a *v1alpha1.APIAction) (string, error) {
	if a.Set == nil {
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
		if err := s.o.Sandbox.ClearAPIRule(ctx, id); err != nil {
			return "", fmt.Errorf("clearing rule %s of the API: %w", id, err)
		}
	}
	return "cleared API rules " + strings.Join(ids, ", "), nil
}

// restoreAPI ends the rules that the run has left.
func (s *Stage) restoreAPI(ctx context.Context) error {
	if !s.disturbed() {
		return nil
	}
	return s.o.Sandbox.ClearAPIRule(ctx, "*")
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
