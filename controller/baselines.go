package controller

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
)

// baselineInterval is the time between two comparisons of bases with their baselines.
const baselineInterval = 5 * time.Minute

// checkBaselines compares bases with their baselines until ctx is done.
func (c *Controller) checkBaselines(ctx context.Context) error {
	tick := time.NewTicker(c.opts.timeScale().Of(baselineInterval))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.compareBaselines()
		}
	}
}

// compareBaselines compares the modules of each served base with the baseline that the controller would send to the
// base. It records an Event for each base that lacks the same modules as at the previous call, and counts these bases
// for the metrics. It ignores the modules of workloads that are being rolled out. It must not be called concurrently.
func (c *Controller) compareBaselines() {
	nodes, err := c.nodes.Lister().List(k8slabels.Everything())
	if err != nil {
		c.logger.Warn("could not compare bases with their baselines", "err", err)
		return
	}
	lacking, inconsistent := map[string]string{}, 0
	for _, node := range nodes {
		b, known := c.registry.Get(c.provider.Identity(node.Name))
		if !known || b.Liveness != base.Reachable || b.Modules == nil {
			continue
		}
		modules, err := c.baseline.Settled(node)
		if err != nil {
			c.logger.Warn("could not select the baseline of a base", "base", b.Identity, "err", err)
			continue
		}
		var missing []string
		for _, m := range modules {
			if biz, _ := b.Module(m.Name, m.Version); biz.State != arklet.StateActivated {
				missing = append(missing, m.Identity())
			}
		}
		if len(missing) == 0 {
			continue
		}
		lacking[b.Identity] = strings.Join(missing, ", ")
		if c.lacking[b.Identity] != lacking[b.Identity] {
			continue
		}
		inconsistent++
		err = errcode.New(errcode.KouplelessBoardBaselineInconsistency,
			"base %q has lacked active modules of its baseline for at least %s: %s",
			c.registry.DisplayName(b.Identity), c.opts.timeScale().Of(baselineInterval), lacking[b.Identity])
		c.recorder.Event(node, corev1.EventTypeWarning, errcode.Of(err).Type(), err.Error())
	}
	c.lacking = lacking
	c.inconsistent.Store(int64(inconsistent))
}
