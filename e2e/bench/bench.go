package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/shirou/gopsutil/v4/load"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// scenario is one thing to measure.
type scenario struct {
	name, about string
	run         func(context.Context, *bench) error
}

var scenarios = []scenario{
	{"small", "10 bases, up and down", small},
	{"large", "1,000 bases, up and down", large},
	{"deploy", "a Deployment with a Pod on each of 1,000 bases is created and deleted", deploy},
	{"zones", "the same, spread by the documents' anti-affinity on zones", zones},
	{"idle", "1,000 bases with a module each, at rest", idle},
	{"rollout", "a rolling update of a Pod on each of 1,000 bases", rollout},
	{"takeover", "one of two controllers is killed: 20 bases, and 1,000", takeover},
	{"scale", "100, 1,000 and 10,000 bases with a module each in one controller, at rest", scale},
	{"crowd", "a rolling update over 10,000 bases, with every check; and 20,000 come up", crowd},
	{"comparison", "a rolling update over 30 bases, held against what each base serves, and a crash in it", comparison},
	{"daemon", "what one more base costs the daemon", daemonCost},
	{"verdict", "a rolling update on 4 bases under traffic, from scenario run to its verdict", verdict},
	{"catalogue", "every scenario of the folder scenarios", catalogue},
	{"traffic", "2,000 requests a second, and what the gateway adds to a request", traffic},
}

// bench is a sandbox that is measured.
type bench struct {
	*box.Box
	o        options
	scenario string
	figures  []figure
	stderr   io.Writer // for what people should see at once
}

// measure runs a scenario; its sandbox is down afterwards in any case.
func measure(ctx context.Context, s scenario, o options, home string, stderr io.Writer) (figures []figure, err error) {
	b := &bench{Box: &box.Box{Bin: o.bin, Home: home, Name: "bench-" + s.name}, o: o, scenario: s.name, stderr: stderr}
	defer func() { err = errors.Join(err, b.Down(ctx)) }()
	if err := b.noteLoad(ctx, "load of the machine before"); err != nil { // others use it too when it is far above 0
		return nil, err
	}
	err = s.run(ctx, b)
	return b.figures, err
}

// noteLoad adds the machine's load, the average of a minute.
func (b *bench) noteLoad(ctx context.Context, when string) error {
	average, err := load.AvgWithContext(ctx)
	if err != nil {
		return fmt.Errorf("looking at the machine: %w", err)
	}
	b.note(when, average.Load1, "processes")
	return nil
}

// note adds a figure without a target.
func (b *bench) note(name string, value float64, unit string) {
	b.figures = append(b.figures, figure{Scenario: b.scenario, Name: name, Value: value, Unit: unit})
}

// judge adds a figure that should not be above its target. A quick run judges
// only what does not depend on the number of bases.
func (b *bench) judge(name string, value float64, unit string, target float64) {
	met := value <= target
	b.figures = append(b.figures, figure{Scenario: b.scenario, Name: name, Value: value, Unit: unit, Target: &target, Met: &met})
}

// judgeScale is judge for what depends on the number of bases.
func (b *bench) judgeScale(name string, value float64, unit string, target float64) {
	if b.o.quick {
		b.note(name, value, unit)
		return
	}
	b.judge(name, value, unit, target)
}

// bases is how many bases the large scenarios have.
func (b *bench) bases() int {
	if b.o.quick {
		return 100
	}
	return 1000
}

// Targets of an up and a down, in seconds.
const (
	upSmallTarget = 4
	upLargeTarget = 10
	downTarget    = 1
)

func small(ctx context.Context, b *bench) error {
	up, down, err := b.upAndDown(ctx, 10)
	b.judge("up, 10 bases", up, "s", upSmallTarget)
	b.judge("down, 10 bases", down, "s", downTarget)
	return err
}

func large(ctx context.Context, b *bench) error {
	up, down, err := b.upAndDown(ctx, b.bases())
	b.judgeScale("up, all Nodes Ready", up, "s", upLargeTarget)
	b.note("down", down, "s")
	return err
}

// upAndDown returns how long the commands took, in seconds.
func (b *bench) upAndDown(ctx context.Context, bases int) (up, down float64, err error) {
	if up, err = b.upTime(ctx, bases); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	err = b.Must(ctx, "down")
	return up, time.Since(start).Seconds(), err
}

// upTime brings the sandbox up and returns how long the command took, in seconds.
func (b *bench) upTime(ctx context.Context, bases int) (float64, error) {
	start := time.Now()
	err := b.Up(ctx, v1alpha1.Spec{
		Bases:      v1alpha1.Bases{Count: &bases},
		Controller: v1alpha1.Controller{Env: map[string]string{"PROFILING": "true"}},
		Wait:       &metav1.Duration{Duration: limit}, // the figure says how long it took
	})
	took := time.Since(start).Seconds()
	if err != nil {
		return 0, err
	}
	return took, b.Must(ctx, "status") // all is well only when it says so
}

// api reaches the sandbox's Kubernetes API; protobuf, as a large watch costs least by it.
func (b *bench) api() (kubernetes.Interface, error) {
	config, err := b.REST()
	if err != nil {
		return nil, err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the Kubernetes client: %w", err)
	}
	return client, nil
}

// rest waits without touching the sandbox.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
