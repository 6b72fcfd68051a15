package action

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

func (s *Stage) mqtt(ctx context.Context, a *v1alpha1.MQTTAction) (string, error) {
	switch {
	case len(a.Await) > 0:
		return s.await(ctx, a.Await)
	case a.Set == nil:
		return s.clearWays(ctx, a.Clear)
	}
	r := control.MQTTRuleRequest{Rule: *a.Set, Group: s.o.Group}
	if a.Replica != nil {
		r.Replica = *a.Replica
	}
	if len(a.Bases) > 0 {
		bases, err := s.resolve(a.Bases)
		if err != nil {
			return "", err
		}
		for _, b := range bases {
			r.Bases = append(r.Bases, s.host(b.Name))
		}
	}
	s.mu.Lock()
	s.onTheWay = true
	s.mu.Unlock()
	id, err := s.o.Sandbox.SetMQTTRule(ctx, r)
	if err != nil {
		return "", fmt.Errorf("setting a rule of the way to the broker: %w", err)
	}
	return "set MQTT rule " + id, nil
}

func (s *Stage) clearWays(ctx context.Context, ids []string) (string, error) {
	for _, id := range ids {
		if err := s.o.Sandbox.ClearMQTTRule(ctx, s.o.Group, id); err != nil {
			return "", fmt.Errorf("clearing rule %s of the way to the broker: %w", id, err)
		}
	}
	return "cleared MQTT rules " + strings.Join(ids, ", "), nil
}

// awaitEvery is how often it is asked whether rules have ended.
const awaitEvery = 20 * time.Millisecond

// await waits until rules have ended.
func (s *Stage) await(ctx context.Context, ids []string) (string, error) {
	tick := time.NewTicker(awaitEvery)
	defer tick.Stop()
	for {
		rules, err := s.o.Sandbox.MQTTRules(ctx, s.o.Group)
		if err != nil && ctx.Err() == nil {
			return "", fmt.Errorf("asking what the rules of the way to the broker have done: %w", err)
		}
		var waiting []string
		for _, r := range rules {
			if r.Ended == "" && slices.Contains(ids, r.ID) {
				waiting = append(waiting, fmt.Sprintf("%s, which has fired %d times", r.ID, r.Fired))
			}
		}
		if err == nil && len(waiting) == 0 {
			return "MQTT rules have ended: " + strings.Join(ids, ", "), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", ended(ctx, context.Cause(ctx), func() *Failure { return fail("rules have not ended: %s", strings.Join(waiting, "; ")) })
		}
	}
}

// restoreWays ends the rules that the run has left.
func (s *Stage) restoreWays(ctx context.Context) error {
	if !s.disturbedWays() {
		return nil
	}
	return s.o.Sandbox.ClearMQTTRule(ctx, s.o.Group, "*")
}

func (s *Stage) disturbedWays() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.onTheWay
}

// MQTTRules are the rules of the way to the broker that the run has set, with what they have done. The
// last is an error when one was to do something and has not.
func (s *Stage) MQTTRules(ctx context.Context) ([]control.MQTTRule, error) {
	if !s.disturbedWays() {
		return nil, nil
	}
	rules, err := s.o.Sandbox.MQTTRules(ctx, s.o.Group)
	if err != nil {
		return nil, fmt.Errorf("asking what the rules of the way to the broker have done: %w", err)
	}
	var errs []error
	for _, r := range rules {
		if r.Fired == 0 && !r.MayNotFire {
			errs = append(errs, fail("the MQTT rule %s never fired: nothing that it is about has passed; mayNotFire: true allows that", r.ID))
		}
	}
	return rules, errors.Join(errs...)
}
