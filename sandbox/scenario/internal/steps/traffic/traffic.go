// Package traffic executes the step traffic.
package traffic

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

// Exec starts or stops requests.
func Exec(ctx context.Context, e *steps.Env, a *v1alpha1.TrafficAction) (string, error) {
	if a.Start != nil {
		return start(ctx, e, *a.Start)
	}
	stream, err := e.StopStream(ctx, a.Stop.Name)
	if err != nil {
		return "", err
	}
	if stream.Failure != nil {
		return "", stream.Failure
	}
	return stream.Summary(), nil
}

func start(ctx context.Context, e *steps.Env, t v1alpha1.Traffic) (string, error) {
	if _, err := e.Compile(t.Judge, expr.Judge); err != nil {
		return "", err
	}
	if t.Via == v1alpha1.ViaBases && len(t.Bases) > 0 {
		if _, err := e.Resolve(t.Bases); err != nil {
			return "", err
		}
	}
	if e.Stream(t.Name) != nil {
		return "", steps.Fail("there has been a stream %q already: give this one another name", t.Name)
	}
	if err := known(ctx, e, t.Service); err != nil {
		return "", err
	}
	spec := traffic.Spec{Traffic: t, Namespace: e.Namespace, Seed: e.Seed,
		Duration: min(e.TrafficFor, traffic.MaxDuration)}
	if err := e.Sandbox.StartTraffic(ctx, e.Group, spec); err != nil {
		return "", fmt.Errorf("starting traffic %s: %w", t.Name, err)
	}
	e.AddStream(t)
	to := "all bases"
	switch {
	case t.Via != v1alpha1.ViaBases:
		to = "Service " + t.Service
	case len(t.Bases) > 0:
		to = strings.Join(t.Bases, ", ")
	}
	rate := "requests"
	if t.Rate != nil {
		rate = fmt.Sprintf("%d requests a second", *t.Rate)
	}
	return rate + " to " + to, nil
}

const askingService = 2 * time.Second

// known fails if a Service does not exist. It returns nil if the API does not answer.
func known(ctx context.Context, e *steps.Env, service string) error {
	if service == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askingService)
	defer cancel()
	services := e.Kube.Typed.CoreV1().Services(e.Namespace)
	if _, err := services.Get(ctx, service, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return nil
	}
	var names []string
	if there, err := services.List(ctx, metav1.ListOptions{}); err == nil {
		for _, one := range there.Items {
			names = append(names, one.Name)
		}
	}
	return steps.Fail("there is no Service %s: apply it before traffic to it starts%s", service,
		plain.DidYouMean(service, names))
}
