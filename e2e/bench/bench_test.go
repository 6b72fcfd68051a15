// Package bench has benchmarks of a whole sandbox: how fast bases and Pods become Ready, and what the sandbox
// uses at rest. Each benchmark has its own sandbox and one iteration. Run them with make bench.
package bench

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

const (
	// manyBases is the number of bases of most benchmarks.
	manyBases = 1000
	// settleTime is how long after the last change a sandbox is at rest: the controller updates the free memory
	// of a Node at most 50 s after an install.
	settleTime = time.Minute
	// idleTime is how long a sandbox at rest is measured.
	idleTime = time.Minute
)

// BenchmarkUp measures the commands up, until all Nodes are Ready, and down.
func BenchmarkUp(b *testing.B) {
	for _, bases := range []int{10, manyBases} {
		b.Run(fmt.Sprintf("bases=%d", bases), func(b *testing.B) {
			s := up(b, bases)
			b.ReportMetric(s.upTime.Seconds(), "up-s")
			start := time.Now()
			s.down()
			b.ReportMetric(time.Since(start).Seconds(), "down-s")
		})
	}
}

// BenchmarkDeployment measures a Deployment with one Pod on each base: from its creation until all Pods are
// Ready, and from its deletion until all modules are uninstalled.
func BenchmarkDeployment(b *testing.B) {
	for _, spread := range []struct {
		name  string
		apply func(*corev1.PodTemplateSpec)
	}{{"port", module.OnePerPort}, {"zone", module.OnePerBase}} {
		b.Run("spread="+spread.name, func(b *testing.B) {
			s := up(b, manyBases)
			created := s.measure(func() { s.createDeployment(spread.apply) })
			s.requireModules(oldVersion, manyBases)
			created.reportPods("create", manyBases)
			deleted := s.measure(s.deleteDeployment)
			s.requireModules(oldVersion, 0)
			b.ReportMetric(deleted.time.Seconds(), "delete-s")
			b.ReportMetric(deleted.controllerWrites/manyBases, "delete-"+controllerPart+"-writes/Pod")
		})
	}
}

// BenchmarkRollout measures the rolling update of a Deployment with one Pod on each base, until all Pods of the
// new version are Ready and those of the old one are gone.
func BenchmarkRollout(b *testing.B) {
	s := up(b, manyBases)
	s.createDeployment(module.OnePerBase)
	rolled := s.measure(s.rollOut)
	s.requireModules(newVersion, manyBases)
	rolled.reportPods("rollout", manyBases)
	b.ReportMetric(manyBases/rolled.time.Seconds(), "Pods/s")
}

// BenchmarkIdle measures bases with one module each at rest, and the memory of one more base. A DaemonSet creates
// the Pods: its controller selects the Node, so that the scheduler checks only one.
func BenchmarkIdle(b *testing.B) {
	var smaller map[string]memory // of the benchmark before
	var smallerBases float64
	for _, bases := range []int{100, manyBases, 10_000} {
		b.Run(fmt.Sprintf("bases=%d", bases), func(b *testing.B) {
			s, n := up(b, bases), float64(bases)
			b.ReportMetric(s.upTime.Seconds(), "up-s")
			b.ReportMetric(s.measure(s.createDaemonSet).time.Seconds(), "create-s")
			s.requireModules(oldVersion, bases)
			s.stopWatch() // the watch would be part of the measurement
			s.rest(settleTime)

			endSampling := s.sampleMemory()
			start := time.Now()
			idle := s.measure(func() { s.rest(idleTime) })
			used := endSampling()
			for part, m := range used {
				b.ReportMetric(m.mean, part+"-MB")
				b.ReportMetric(m.most, part+"-max-MB")
				b.ReportMetric(idle.cpu[part]/idle.time.Minutes(), part+"-cpu-s/min")
			}
			b.ReportMetric(idle.allWrites/n/idle.time.Seconds(), "writes/s/base")
			b.ReportMetric(s.controllerMetrics().Sum("go_goroutines", nil)/n, controllerPart+"-goroutines/base")
			b.ReportMetric(float64(s.unreadySince(start)), "unready-Nodes")
			for _, part := range []string{controllerPart, daemonPart} {
				if smaller != nil { // the memory of one more base
					b.ReportMetric(1e3*(used[part].mean-smaller[part].mean)/(n-smallerBases), part+"-KB/base")
				}
			}
			smaller, smallerBases = used, n
		})
	}
}
