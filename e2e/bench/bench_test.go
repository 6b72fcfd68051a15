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
	// settleTime is the wait after the last change before a sandbox is measured at rest. The controller updates the
	// free memory of a Node up to 50 s after an install.
	settleTime = time.Minute
	// idleTime is the duration of a measurement of a sandbox at rest.
	idleTime = time.Minute
)

// BenchmarkUp measures the up command, until all Nodes are Ready, and the down command.
func BenchmarkUp(b *testing.B) {
	for _, bases := range []int{10, manyBases} {
		b.Run(fmt.Sprintf("bases=%d", bases), func(b *testing.B) {
			s := startSandbox(b, bases)
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
			s := startSandbox(b, manyBases)
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

// BenchmarkRollout measures the rolling update of a Deployment with one Pod on each base. It ends when all Pods of
// the new version are Ready and all Pods of the old version are deleted.
func BenchmarkRollout(b *testing.B) {
	s := startSandbox(b, manyBases)
	s.createDeployment(module.OnePerBase)
	rolled := s.measure(s.rollOut)
	s.requireModules(newVersion, manyBases)
	rolled.reportPods("rollout", manyBases)
	b.ReportMetric(manyBases/rolled.time.Seconds(), "Pods/s")
}

// BenchmarkIdle measures bases at rest with one module each, and the memory of one additional base. A DaemonSet
// creates the Pods: the DaemonSet controller selects the Node of each Pod, so the scheduler only checks this Node.
func BenchmarkIdle(b *testing.B) {
	var smaller map[string]memory // of the benchmark before
	var smallerBases float64
	for _, bases := range []int{100, manyBases, 10_000} {
		b.Run(fmt.Sprintf("bases=%d", bases), func(b *testing.B) {
			s, n := startSandbox(b, bases), float64(bases)
			b.ReportMetric(s.upTime.Seconds(), "up-s")
			b.ReportMetric(s.measure(s.createDaemonSet).time.Seconds(), "create-s")
			s.requireModules(oldVersion, bases)
			s.stopWatch() // the watch would be part of the measurement
			s.wait(settleTime)

			endSampling := s.sampleMemory()
			start := time.Now()
			idle := s.measure(func() { s.wait(idleTime) })
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
