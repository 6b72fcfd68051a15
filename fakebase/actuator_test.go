package fakebase

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// TestHealthScenarios tests the health of a base with modules in each state (protocol 8), with and without
// withAllBizReadiness.
func TestHealthScenarios(t *testing.T) {
	module := func(origin ark.Origin, p startPhase, unhealthy bool) []moduleInput {
		return []moduleInput{{id: "biz1:1", origin: origin, phase: p, unhealthy: unhealthy}}
	}
	const healthy, unhealthy = false, true
	tests := []struct {
		scenario, situation string
		in                  healthInput
		want, wantWithAll   healthStatus
	}{
		{"1 no modules", "base healthy", healthInput{}, statusUp, statusUp},
		{"1 no modules", "base starting", healthInput{starting: true}, statusUnknown, statusUnknown},
		{"1 no modules", "base start failed", healthInput{failed: true}, statusDown, statusDown},
		{"1 no modules", "base unhealthy", healthInput{unhealthy: true}, statusDown, statusDown},

		{"2 static", "base and modules healthy", healthInput{modules: module(ark.Static, phaseStarted, healthy)},
			statusUp, statusUp},
		{"2 static", "base starting", healthInput{starting: true}, statusUnknown, statusUnknown},
		{"2 static", "module starting", healthInput{modules: module(ark.Static, phaseStarting, healthy)}, statusUnknown,
			statusUnknown},
		{"2 static", "base start failed", healthInput{failed: true, modules: module(ark.Static, phaseStarted, healthy)},
			statusDown, statusDown},
		{"2 static", "base unhealthy", healthInput{unhealthy: true, modules: module(ark.Static, phaseStarted, healthy)},
			statusDown, statusDown},
		{"2 static", "module start failed", healthInput{modules: module(ark.Static, phaseFailed, healthy)}, statusDown,
			statusDown},
		{"2 static", "module start failed, base starting",
			healthInput{starting: true, modules: module(ark.Static, phaseFailed, healthy)}, statusDown, statusDown},
		{"2 static", "module unhealthy", healthInput{modules: module(ark.Static, phaseStarted, unhealthy)}, statusDown,
			statusDown},

		{"3 hot", "base and modules healthy", healthInput{modules: module(ark.Hot, phaseStarted, healthy)}, statusUp,
			statusUp},
		{"3 hot", "base starting", healthInput{starting: true, modules: module(ark.Hot, phaseStarted, healthy)},
			statusUnknown, statusUnknown},
		{"3 hot", "module starting", healthInput{modules: module(ark.Hot, phaseStarting, healthy)}, statusUp,
			statusUnknown},
		{"3 hot", "base start failed", healthInput{failed: true, modules: module(ark.Hot, phaseStarted, healthy)},
			statusDown, statusDown},
		{"3 hot", "base unhealthy", healthInput{unhealthy: true, modules: module(ark.Hot, phaseStarted, healthy)},
			statusDown, statusDown},
		{"3 hot", "module start failed", healthInput{modules: module(ark.Hot, phaseFailed, healthy)}, statusUp,
			statusDown},
		{"3 hot", "module unhealthy", healthInput{modules: module(ark.Hot, phaseStarted, unhealthy)}, statusDown,
			statusDown},

		{"4 running", "base and modules healthy",
			healthInput{modules: append(module(ark.Hot, phaseStarted, healthy),
				module(ark.Static, phaseStarted, healthy)...)}, statusUp, statusUp},
		{"4 running", "base unhealthy", healthInput{unhealthy: true, modules: module(ark.Hot, phaseStarted, healthy)},
			statusDown, statusDown},
		{"4 running", "module unhealthy",
			healthInput{modules: append(module(ark.Hot, phaseStarted, unhealthy),
				module(ark.Static, phaseStarted, healthy)...)}, statusDown, statusDown},

		{"5 replay", "base and modules healthy", healthInput{modules: module(ark.Replay, phaseStarted, healthy)},
			statusUp, statusUp},
		{"5 replay", "base starting", healthInput{starting: true}, statusUnknown, statusUnknown},
		{"5 replay", "module starting", healthInput{modules: module(ark.Replay, phaseStarting, healthy)}, statusUnknown,
			statusUnknown},
		{"5 replay", "base start failed", healthInput{failed: true}, statusDown, statusDown},
		{"5 replay", "module start failed", healthInput{modules: module(ark.Replay, phaseFailed, healthy)}, statusDown,
			statusDown},
		{"5 replay", "module unhealthy", healthInput{modules: module(ark.Replay, phaseStarted, unhealthy)}, statusDown,
			statusDown},
	}
	for _, tt := range tests {
		for _, withAll := range []bool{false, true} {
			want := tt.want
			if withAll {
				want = tt.wantWithAll
			}
			tt.in.withAll = withAll
			if got := computeHealth(tt.in).overall; got != want {
				t.Errorf("scenario %s, %s, withAllBizReadiness=%v: health = %s, want %s", tt.scenario, tt.situation,
					withAll,
					got, want)
			}
		}
	}
}

// TestFaithfulHealth tests the health rules in which the runtime's code differs from the documentation (protocol 8).
func TestFaithfulHealth(t *testing.T) {
	tests := []struct {
		name string
		in   healthInput
		want healthStatus
	}{
		{"UNKNOWN cannot be reached", healthInput{starting: true}, statusUp},
		{"a starting hot module makes the aggregate DOWN",
			healthInput{modules: []moduleInput{{origin: ark.Hot, phase: phaseStarting}}}, statusDown},
		{"a failed static module does not count by itself",
			healthInput{modules: []moduleInput{{origin: ark.Static, phase: phaseFailed}}}, statusUp},
		{"a failed base does", healthInput{failed: true}, statusDown},
	}
	for _, tt := range tests {
		tt.in.faithful = true
		if got := computeHealth(tt.in).overall; got != tt.want {
			t.Errorf("%s: health = %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestHealthOfRunningBase tests the scenarios of protocol 8 with a running base.
func TestHealthOfRunningBase(t *testing.T) {
	type stop struct {
		after time.Duration
		want  string // expected health and readiness
	}
	static := &Catalogue{Fetch: FetchNever, InstallTime: Delay{Min: Duration(10 * time.Second)}}
	keep := false
	tests := []struct {
		name  string
		opts  Options
		do    func(*incarnation)
		stops []stop
	}{
		{
			name:  "static modules",
			opts:  Options{StartupTime: 5 * time.Second, StaticBiz: []string{"http://h/biz1-1.jar"}, Catalogue: static},
			stops: []stop{{0, "UNKNOWN false"}, {6 * time.Second, "UNKNOWN false"}, {10 * time.Second, "UP true"}},
		}, {
			name: "static module fails to start",
			opts: Options{StaticBiz: []string{"http://h/biz1-1.jar"}, Catalogue: static,
				Faults: []fault.Fault{{Kind: fault.KindError, Code: fault.CodeInstallBizUserError}}},
			stops: []stop{{0, "UNKNOWN false"}, {11 * time.Second, "DOWN false"}},
		}, {
			name: "static module cannot be downloaded",
			opts: Options{StaticBiz: []string{"http://h/biz1-1.jar"}, Catalogue: static,
				Faults: []fault.Fault{{Kind: fault.KindError, Code: fault.CodePullBizError}}},
			stops: []stop{{time.Second, "DOWN false"}},
		}, {
			name:  "base fails to start",
			opts:  Options{Faults: []fault.Fault{{Kind: fault.KindStartFailed}}},
			stops: []stop{{0, "DOWN false"}},
		}, {
			name: "installed module fails",
			opts: Options{Catalogue: static,
				Faults: []fault.Fault{{Kind: fault.KindError, Code: fault.CodeInstallBizUserError}}},
			do:    func(l *incarnation) { l.installCommand(request("1")) },
			stops: []stop{{time.Second, "UP true"}, {11 * time.Second, "UP true"}},
		}, {
			name: "installed module fails, withAllBizReadiness",
			opts: Options{Catalogue: static, WithAllBizReadiness: true,
				Faults: []fault.Fault{{Kind: fault.KindError, Code: fault.CodeInstallBizUserError, Count: 1}}},
			do: func(l *incarnation) {
				l.installCommand(request("1"))
				l.sleep(5 * time.Second)
				l.installCommand(request("2"))
			},
			stops: []stop{{time.Second, "UNKNOWN false"}, {11 * time.Second, "DOWN false"},
				{20 * time.Second, "UP true"}},
		}, {
			name: "broken module is uninstalled, withAllBizReadiness",
			opts: Options{Catalogue: static, WithAllBizReadiness: true, AutoUninstallWhenFailed: &keep,
				Faults: []fault.Fault{{Kind: fault.KindError, Code: fault.CodeInstallBizUserError}}},
			do: func(l *incarnation) {
				l.installCommand(request("1"))
				l.sleep(5 * time.Second)
				l.uninstallCommand(request("1"))
			},
			stops: []stop{{11 * time.Second, "DOWN false"}, {10 * time.Second, "UP true"}},
		}, {
			name: "replay", opts: Options{Catalogue: static},
			do: func(l *incarnation) {
				l.batchCommand(&batchRequest{BizList: []bizRequest{*request("1")}},
					ark.Replay)
			},
			stops: []stop{{time.Second, "UNKNOWN false"}, {11 * time.Second, "UP true"}},
		},
	}
	for _, tt := range tests {
		runInBubble(t, tt.name, func(t *testing.T) {
			tt.opts.Identity = "b1"
			b := start(t, tt.opts)
			synctest.Wait()
			if tt.do != nil {
				b.mu.Lock()
				l := b.current
				b.mu.Unlock()
				l.spawn(func() { tt.do(l) })
			}
			ready := make(chan struct{}, 1)
			now, stop := b.Watch(func(e Event) {
				if e.Kind == EventReady {
					ready <- struct{}{}
				}
			})
			defer stop()
			sawReady := now.Ready
			defer func() {
				sawReady = sawReady || len(ready) > 0
				if isReady := b.Status().Ready; isReady != sawReady {
					t.Errorf("ready = %v, EventReady or initial status = %v", isReady, sawReady)
				}
			}()
			for i, s := range tt.stops {
				sleep(s.after)
				synctest.Wait()
				got := b.Status()
				if have := fmt.Sprint(got.Health, " ", got.Ready); have != s.want {
					t.Errorf("step %d: health = %s, want %s", i, have, s.want)
				}
			}
		})
	}
}

// request returns the bizRequest for a version of biz1.
func request(version string) *bizRequest {
	return &bizRequest{BizName: jsonString{"biz1", true}, BizVersion: jsonString{version, true},
		BizURL: jsonString{"http://h/x.jar", true}}
}
