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

// Exec starts or stops a stream of requests.
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
		if _, err := e.ResolveBases(t.Bases); err != nil {
			return "", err
		}
	}
	if e.Stream(t.Name) != nil {
		return "", steps.Fail("stream %q was already started; use another name", t.Name)
	}
	if err := checkServiceExists(ctx, e, t.Service); err != nil {
		return "", err
	}
	spec := traffic.Spec{Traffic: t, Namespace: e.Namespace, Seed: e.Seed,
		Duration: min(e.TrafficFor, traffic.MaxDuration)}
	if err := e.Sandbox.StartTraffic(ctx, e.Group, spec); err != nil {
		return "", fmt.Errorf("starting stream %s: %w", t.Name, err)
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
		rate = plain.Count(*t.Rate, "request") + " per second"
	}
	return rate + " to " + to, nil
}

const serviceLookupTimeout = 2 * time.Second

// checkServiceExists returns a Failure if a Service does not exist. It returns nil if the API does not respond.
func checkServiceExists(ctx context.Context, e *steps.Env, service string) error {
	if service == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, serviceLookupTimeout)
	defer cancel()
	services := e.Kube.Typed.CoreV1().Services(e.Namespace)
	if _, err := services.Get(ctx, service, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return nil
	}
	var names []string
	if list, err := services.List(ctx, metav1.ListOptions{}); err == nil {
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
	}
	return steps.Fail("Service %s not found; apply it before its traffic starts%s", service,
		plain.DidYouMean(service, names))
}
