package mutate

// All lists all mutations. Each mutation removes a rule that prevents lost requests during a rollout.
var All = []Mutation{
	{
		Name: "reverse-handover", What: "The new Pod becomes Ready before the old Pod becomes Not Ready",
		Edits: []Edit{{
			"controller/internal/handover/handover.go",
			`return slices.Concat(turnNotReady, turnReady, keepReady)`,
			`return slices.Concat(turnReady, turnNotReady, keepReady)`,
		}},
	},
	{
		Name: "early-handover", What: "The old Pod becomes Not Ready before the new version is active",
		Edits: []Edit{{
			"controller/internal/vpod/publish.go",
			`if exists && biz.State == arklet.StateActivated && (`,
			`if !exists || biz.State != "" || (`,
		}},
	},
	{
		Name: "ready-unlisted", What: "A Pod is Ready as soon as its install command is sent",
		Edits: []Edit{{
			"controller/internal/vpod/publish.go",
			`				p.addSlotState(&s, l, e, b)
`,
			`				if _, sent := l.memory.Installed[m.Version]; sent {
					s.Listed, s.Biz.State = true, arklet.StateActivated
				}
				p.addSlotState(&s, l, e, b)
`,
		}},
	},
	{
		Name: "forget-ready", What: "Pods are Not Ready until their base has listed its modules",
		Rare: "bases must be slow to list their modules when a controller starts",
		Edits: []Edit{{"controller/internal/vpod/publish.go", `if b.Modules == nil && b.Liveness == base.Reachable`,
			`if b.Modules != nil && b.Modules == nil`}},
	},
	{
		Name: "assume-empty", What: "A base that has not listed its modules is treated as empty",
		Edits: []Edit{{"controller/internal/vpod/reconcile.go", `if b.Modules == nil || anyStale`,
			`if b.Modules != nil && anyStale`}},
	},
	{
		Name: "replace-first", What: "All versions of a module are uninstalled before another one is installed",
		Edits: []Edit{{
			"controller/internal/vpod/reconcile.go",
			`		b, err = p.install(ctx, key, b, action, again)
`,
			`		for _, biz := range b.Modules {
			if biz.Name == m.Name {
				_, _ = p.uninstall(ctx, b, biz.Module(), nil)
			}
		}
		b, err = p.install(ctx, key, b, action, again)
`,
		}},
	},
	{
		Name: "uninstall-by-name", What: "An uninstall removes all versions of a module",
		Edits: []Edit{{
			"controller/internal/vpod/reconcile.go",
			`	case plan.DoUninstall:
`,
			`	case plan.DoUninstall:
		for _, biz := range b.Modules {
			if biz.Name == m.Name {
				_, _ = p.uninstall(ctx, b, biz.Module(), again)
			}
		}
`,
		}},
	},
	{
		Name: "drain-alone", What: "The active version is uninstalled while it receives requests through the Pod of " +
			"another version",
		Rare: "a Pod must be deleted while its version is being installed, and the previous one right after it",
		Edits: []Edit{{"controller/internal/plan/plan.go", `	if p.receivesRequests(biz) { // including`,
			`	if p.receivesRequests(biz) && p.Name == "" { // including`}},
	},
	{
		Name: "trust-drain-time",
		What: "A module is uninstalled after MODULE_DRAIN although a Service still sends requests to its Pod",
		Rare: "the Kubernetes controllers must be slow or unavailable",
		Edits: []Edit{{"controller/internal/plan/drain.go", `	if e.Serving { // the next`,
			`	if e.Serving && p.Name == "" { // the next`}},
	},
	{
		Name: "retain-commands", What: "The broker retains commands and delivers them again to a base that reconnects",
		Rare: "a base must lose its connection after an uninstall and reconnect to the same broker",
		Edits: []Edit{{
			"controller/internal/tunnel/mqtt/mqtt.go",
			`c.client.Publish(topic, 1, false, body)`,
			`c.client.Publish(topic, 1, true, body)`,
		}},
	},
	{
		Name: "count-unobserved", What: "Missed heartbeats are counted while the controller cannot receive any",
		Rare: "missed heartbeats have an effect after 5 s, and the broker is seldom unavailable for so long",
		Edits: []Edit{
			{
				"controller/internal/base/sweep.go",
				`slept := r.suspension.check(now, now.Round(0)); slept > 0 {`,
				`slept := r.suspension.check(now, now.Round(0)); slept < 0 {`,
			},
			{"controller/internal/base/sweep.go", `down := !r.opts.Connected(key)`,
				`down := r.opts.Connected(key) && false`},
			{
				"controller/internal/base/sweep.go",
				`	held := r.inMassOutage(bases, now)
`,
				`	var held map[string]bool
`,
			},
			{"controller/internal/base/registry.go", `return r.opts.Grace`, `return 0`},
		},
	},
	{
		Name: "never-hand-over",
		What: "A controller whose tunnel is down keeps its bases, although another controller receives " +
			"their heartbeats",
		Rare: "there must be two controllers, and one of them must lose its tunnel for longer than a Lease is valid",
		Edits: []Edit{{"controller/internal/vnode/owner.go", `if !r.opts.Cluster || r.ownLease.tunnelDownFor(b.Tunnel)`,
			`if r.opts.Cluster || r.ownLease.tunnelDownFor(b.Tunnel)`}},
	},
}
