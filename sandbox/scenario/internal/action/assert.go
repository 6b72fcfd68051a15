package action

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/match"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
)

// check judges what is; the failure says why it is not so.
type check func(observe.View) *Failure

func (s *Stage) assert(ctx context.Context, a *v1alpha1.Assert) (string, error) {
	check, text, err := s.checkOf(ctx, a)
	if err != nil {
		return "", err
	}
	var least time.Duration
	if a.For != nil {
		least = a.For.Duration
	}
	last := fail("nothing was looked at")
	err = s.hold(ctx, least, func(v observe.View) bool {
		f := check(v)
		if f != nil {
			last = f
		}
		return f == nil
	})
	if err != nil {
		return "", ended(ctx, err, func() *Failure { return last })
	}
	if least > 0 {
		text += " for " + least.String()
	}
	return text, nil
}

func (s *Stage) checkOf(ctx context.Context, a *v1alpha1.Assert) (check, string, error) {
	if a.Resource != nil {
		t, err := s.target(refOf(a.Resource))
		if err != nil {
			return nil, "", err
		}
		if a.Absent {
			return absent(t, match.Plain(a.Resource)), "there is no such " + t.Kind, s.catchUp(ctx, t)
		}
		return present(t, match.Plain(a.Resource)), t.String() + " is so", s.catchUp(ctx, t)
	}
	p, err := s.Compile(a.CEL, expr.Condition)
	if err != nil {
		return nil, "", err
	}
	return s.condition(p), "it is true", s.Follow(ctx, p)
}

// refOf takes out of a part of an object which objects it is about.
func refOf(o v1alpha1.Object) v1alpha1.Ref {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if content, ok := match.Plain(o).(map[string]any); ok {
		u.Object = content
	}
	r := v1alpha1.Ref{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), Namespace: u.GetNamespace()}
	if r.Name == "" {
		r.Labels = u.GetLabels()
	}
	return r
}

// present finds nothing wrong when some object matches.
func present(t target, want any) check {
	return func(v observe.View) *Failure {
		found, ever := v.Objects(t.subject, t.Name, t.Labels)
		if len(found) == 0 && ever {
			return fail("there is no %s any more", t)
		} else if len(found) == 0 {
			return fail("there is no %s, and there never was", t)
		}
		var best match.Result
		var closest *unstructured.Unstructured
		for _, o := range found {
			r := match.Compare(want, o.Object)
			if r.Matches() {
				return nil
			}
			if closest == nil || len(r.Differences) < len(best.Differences) {
				best, closest = r, o
			}
		}
		of := ""
		if len(found) > 1 {
			of = fmt.Sprintf(", the closest of %d", len(found))
		}
		first := "nothing was compared"
		if len(best.Differences) > 0 {
			first = best.Differences[0].String()
		}
		more := ""
		if n := len(best.Differences) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		return fail("%s %s%s: %s%s", t.Kind, closest.GetName(), of, first, more).
			with("what differs", match.Lines(best.Differences)).with(lastSeen(closest))
	}
}

// absent finds nothing wrong when no object matches.
func absent(t target, want any) check {
	return func(v observe.View) *Failure {
		found, _ := v.Objects(t.subject, t.Name, t.Labels)
		for _, o := range found {
			if match.Compare(want, o.Object).Matches() {
				return fail("there is such a %s: %s", t.Kind, o.GetName()).with(lastSeen(o))
			}
		}
		return nil
	}
}

// condition finds nothing wrong when an expression is true and has compared something.
func (s *Stage) condition(p *expr.Program) check {
	return func(v observe.View) *Failure {
		r, err := p.Eval(s.Data(v, p))
		switch {
		case err != nil:
			return fail("%v", err).with("what there was", s.shown(v, p))
		case r.True():
			return nil
		case r.Value == true:
			return fail("it compared nothing, because there were no elements in %s: %s", strings.Join(r.Nothing, ", "), p.Text())
		}
		return fail("it is not true: %s", strings.TrimSpace(p.Text())).with("what there was", s.shown(v, p))
	}
}

// hold waits until good has been true for the time, at every change in it: also at those that the
// watches tell late. An API that is away tells nothing that could be waited for.
func (s *Stage) hold(ctx context.Context, least time.Duration, good func(observe.View) bool) error {
	if least <= 0 {
		return s.o.World.Until(ctx, func(v observe.View) (bool, error) { return good(v), nil })
	}
	turned := make(chan bool, 1)
	var now, told bool
	stop := s.o.World.Watch(func(c observe.Change) {
		if is := good(c.View); !told || is != now {
			now, told = is, true
			select {
			case <-turned: // nobody has taken the last one: the newest counts
			default:
			}
			turned <- is
		}
	})
	defer stop()
	timer := time.NewTimer(least)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case is := <-turned:
			timer.Stop()
			if is {
				timer.Reset(least)
			}
		case <-timer.C:
			if err := s.o.World.CatchUpAll(ctx); err != nil && !errors.Is(err, observe.ErrNoList) {
				return err
			}
			select {
			case is := <-turned:
				if is { // but not all the time
					timer.Reset(least)
				}
			default:
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
