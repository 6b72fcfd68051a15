package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// The rolling update that the authors of the existing controller measured it
// with, and how often and how long things may be wrong in it.
const (
	comparedBases = 30
	installTime   = 200 * time.Millisecond
	slowInstall   = 5 * time.Second // longer than the drain, as with many real modules
	comparedShare = "30%"           // of maxSurge and maxUnavailable

	drainTarget   = 2  // seconds: MODULE_DRAIN
	restartTarget = 10 // seconds
	// outage is how long the controller is down after its kill -9.
	outage = 3 * time.Second
	// patience is how long a rolling update of the comparison may take.
	patience = 3 * time.Minute
)

// existing is what a run of its authors gave for the existing controller, by
// figure, before this project began.
const (
	existingWrong   = "9 to 12"
	existingWithout = "11 to 15"
	existingGap     = "2.6"
	existingLeft    = "30"
	existingLost    = "21"
	existingRestart = "not in 180"
)

// comparison rolls an update out over 30 bases, for each way that bases treat a
// second version, and once more with a crash of the controller.
func comparison(ctx context.Context, b *bench) error {
	one := 1
	err := b.Up(ctx, v1alpha1.Spec{Bases: v1alpha1.Bases{Count: &one, Name: "unused"}, Controller: v1alpha1.Controller{Env: map[string]string{
		"PROFILING": "true",
	}}})
	if err != nil {
		return err
	}
	client, _, err := b.api()
	if err != nil {
		return err
	}
	for i, r := range []rehearsal{
		{name: "activate.new.module=true", activation: fakebase.ActivateNewModule, wrong: existingWrong, without: existingWithout, gap: existingGap, left: existingLeft},
		{name: "default, HTTP", activation: fakebase.ActivateDefault, http: true},
		{name: "default, MQTT", activation: fakebase.ActivateDefault, lost: existingLost},
		{name: "slow installs", activation: fakebase.ActivateNewModule, install: slowInstall},
		{name: "kill -9", activation: fakebase.ActivateNewModule, crash: true},
	} {
		r.number, r.bench, r.client = i, b, client
		if err := r.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// rehearsal is one rolling update over bases of its own.
type rehearsal struct {
	*bench
	name       string
	activation fakebase.Activation
	install    time.Duration // 0 = installTime
	http       bool
	crash      bool
	// What the existing controller gave; empty = nobody has measured that.
	wrong, without, gap, left, lost string

	number int
	client kubernetes.Interface
	ledger *ledger
}

func (r rehearsal) of(what string) string { return r.name + ": " + what }

// own is both the name of the Deployment and of the bases, so that rehearsals do not meet.
func (r rehearsal) own() string { return fmt.Sprintf("compared-%d", r.number) }

func (r rehearsal) run(ctx context.Context) (err error) {
	r.ledger = newLedger(app)
	stop, err := r.bases(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	unwatch, err := r.watchPods(ctx)
	if err != nil {
		return err
	}
	defer unwatch()
	if err := r.deploy(ctx); err != nil {
		return err
	}
	if err := r.until(ctx, oldVersion, "the first version is everywhere", everywhere); err != nil {
		return err
	}
	start := time.Now()
	if err := r.upgrade(ctx); err != nil {
		return err
	}
	var again time.Time
	if r.crash {
		if again, err = r.killed(ctx); err != nil {
			return err
		}
	}
	if err := r.until(ctx, newVersion, "the second version is everywhere", everywhere); err != nil {
		return err
	}
	r.note(r.of("rolling update"), time.Since(start).Seconds(), "s")
	if err := r.completed(ctx); err != nil {
		return err
	}
	s, _ := r.ledger.standing(newVersion)
	unwatch()
	r.ledger.close()
	r.report(s, again)
	return r.client.AppsV1().Deployments(namespace).Delete(ctx, r.own(), metav1.DeleteOptions{})
}

// report notes what the ledger has.
func (r rehearsal) report(s standing, again time.Time) {
	l := r.ledger
	if r.crash {
		consistent := 0.0
		for _, one := range l.apart {
			if one.to.After(again) && (one.from.Before(again) || one.length() > lag) {
				consistent = max(consistent, one.to.Sub(again).Seconds())
			}
		}
		r.judge(r.of("every Pod Ready if and only if its version is active, after the restart"), consistent, "s", restartTarget)
		r.compare(existingRestart)
	} else {
		r.judge(r.of("Pods that turned Ready before their version was active"), float64(len(l.early)), "Pods", 0)
		r.compare(r.wrong)
		r.judge(r.of(fmt.Sprintf("Pods Ready without their version being active, for more than %s", lag)), longer(l.wrong, lag), "Pods", 0)
		r.compare(r.wrong)
		r.note(r.of("  at all, from the base's switch to the Pod's Not Ready"), longer(l.wrong, 0), "Pods")
		r.note(r.of("  longest"), longest(l.wrong)*1e3, "ms")
	}
	if r.activation == fakebase.ActivateDefault && !r.http {
		// Over MQTT there is no command that switches: the old version has to go before the new one can be active.
		r.note(r.of("bases that had no active version"), float64(len(l.gone)), "bases")
		r.judge(r.of("  longest"), longest(l.gaps), "s", (installTime + lag).Seconds())
	} else {
		r.judge(r.of("bases that had no active version"), float64(len(l.gone)), "bases", 0)
		r.compare(r.without)
		r.note(r.of("  longest"), longest(l.gaps), "s")
		r.compare(r.gap)
	}
	r.judge(r.of("an old Pod Ready after its module was gone, longest"), longest(l.left), "s", drainTarget)
	r.compare(r.left)
	r.judge(r.of("bases without the module when the Deployment is complete"), float64(s.without), "bases", 0)
	r.compare(r.lost)
}

// compare puts what the existing controller gave beside the last figure.
func (b *bench) compare(existing string) { b.figures[len(b.figures)-1].Existing = existing }
