package mutate

// The files in which most of it happens.
const (
	dialog    = "controller/internal/base/dialog.go"
	registry  = "controller/internal/base/registry.go"
	sweep     = "controller/internal/base/sweep.go"
	pending   = "controller/internal/base/pending.go"
	operate   = "controller/internal/vpod/operate.go"
	plan      = "controller/internal/vpod/plan.go"
	publish   = "controller/internal/vpod/publish.go"
	reconcile = "controller/internal/vpod/reconcile.go"
)

// All mutations. What the code is like is theirs to follow: a test tells which ones do not.
var All = []Mutation{
	// Ready and Not Ready.
	{
		Name: "reverse-handover", What: "The new Pod turns Ready before the old one turns Not Ready",
		Edits: []Edit{{
			"controller/internal/handover/handover.go",
			`return slices.Concat(down, up, same)`,
			`return slices.Concat(up, down, same)`,
		}},
	},
	{
		Name: "both-ready", What: "An old Pod stays Ready beside the new one while its version is active",
		Edits: []Edit{{publish, `s.superseded = true`, `s.superseded = false`}},
	},
	{
		Name: "early-handover", What: "An old Pod turns Not Ready as soon as a newer one comes",
		Edits: []Edit{{
			publish,
			`		biz, there := b.Module(s.Name, other.module.Version)
		sameVersion := other.module.Version == s.Version
		if there && biz.State == arklet.StateActivated && (!sameVersion || placed != nil && placed.url == other.module.URL) {
			s.superseded = true
		}
`,
			`		sameVersion := other.module.Version == s.Version
		s.superseded = true
`,
		}},
	},
	{
		Name: "ready-unlisted", What: "A Pod is Ready as soon as its install is sent",
		Edits: []Edit{{
			publish,
			`				p.addLane(&s, l, e, b)
`,
			`				if l.placed[m.Version] != nil {
					s.there, s.biz.State = true, arklet.StateActivated
				}
				p.addLane(&s, l, e, b)
`,
		}},
	},
	{
		Name: "forget-ready", What: "Pods of a base that has not said yet what it has turn Not Ready",
		Rare: "bases must be slow to list their modules when a controller comes",
		Edits: []Edit{{
			publish,
			`		if b.Modules == nil && b.Liveness == base.Alive && isReady(&before) {
			continue // it has said nothing yet since this controller knows it
		}
`,
			"",
		}},
	},

	// What bases say.
	{
		Name: "no-lists", What: "Bases are never asked for their modules unless a command has to know",
		Rare: "a module must go behind the controller's back, in a schedule that loses no list",
		Edits: []Edit{{
			"controller/bases.go",
			`		for _, p := range found.Probes {
`,
			`		for _, p := range found.Probes {
			if p.Command == arklet.CommandQueryAllBiz {
				continue
			}
`,
		}},
	},
	{
		Name: "stale-lists", What: "A list that was there before a command tells what came of it",
		Edits: []Edit{{
			dialog,
			`	_, seen, next, err := d.registry.list(identity)
	if err != nil {
		return Snapshot{}, err
	}
`,
			`	known, seen, next, err := d.registry.list(identity)
	if err != nil || known.Modules != nil {
		return known, err
	}
`,
		}},
	},
	{
		Name: "one-list-late", What: "What a base lists counts when the next list comes",
		Edits: []Edit{
			{
				"controller/internal/base/base.go",
				`type record struct {
`,
				`type record struct {
	late []arklet.Biz // the list that counts next

`,
			},
			{
				registry,
				`	names := changedNames(b.modules, list)
`,
				`	list, b.late = b.late, list
	names := changedNames(b.modules, list)
`,
			},
		},
	},
	{
		Name: "lists-for-all", What: "What one base lists counts for all of them",
		Edits: []Edit{{
			registry,
			`	b.modules, b.listed, b.listedAt, b.heardAt = list, true, from.At, r.opts.Clock.Now()
`,
			`	b.modules, b.listed, b.listedAt, b.heardAt = list, true, from.At, r.opts.Clock.Now()
	for _, other := range r.bases {
		other.modules, other.listed = list, true
	}
`,
		}},
	},
	{
		Name: "shared-address", What: "The address in a heartbeat counts for all bases",
		Edits: []Edit{{
			registry,
			`	b, known := r.bases[info.Identity]
	switch {
`,
			`	b, known := r.bases[info.Identity]
	for _, other := range r.bases {
		other.info.IP = info.IP
	}
	switch {
`,
		}},
	},
	{
		Name: "assume-empty", What: "A base that has not said yet what it has counts as empty",
		Edits: []Edit{{reconcile, `		if b.Modules == nil || unasked`, `		if b.Modules != nil && unasked`}},
	},

	// Silence.
	{
		Name: "never-blind", What: "The silence of bases counts whatever the controller can see",
		Rare: "silence counts after 5 s, and the broker is seldom away for so long",
		Edits: []Edit{
			{
				sweep,
				`slept := r.awake.look(now, now.Round(0)); slept > 0 {`,
				`slept := r.awake.look(now, now.Round(0)); slept < 0 {`,
			},
			{sweep, `s.look(r.opts.Sees(key), now,`, `s.look(true, now,`},
			{
				sweep,
				`	held := r.held(bases, now)
`,
				`	var held map[string]bool
`,
			},
			{
				registry,
				`	if key == tunnel.MQTT {
		return r.opts.Grace
	}
	return 0
`,
				`	return 0
`,
			},
		},
	},
	{
		Name: "give-up-idle", What: "A base that dies while the controller may not act is forgotten",
		Rare: "a base must die while no lease can be renewed, for longer than a dead base is waited for",
		Edits: []Edit{
			{
				sweep,
				`		if !acting {
			b.lostAt = now
			continue
		}
		if !b.owned && now.Sub(b.lostAt) < r.opts.DeadAfter {
			continue
		}
		group`,
				`		group`,
			},
			{sweep, `if b.owned && !left.take`, `if b.owned && acting && !left.take`},
			{"controller/internal/vnode/reconciler.go", `return holder == r.opts.Holder`, `return holder == ""`},
		},
	},
	{
		Name: "no-mass", What: "The silence of most bases at once counts as that of each",
		Rare:  "three bases must be silent together for 5 s",
		Edits: []Edit{{"controller/internal/base/mass.go", `if o.Percent < 0 || `, `if o.Percent != 0 || `}},
	},

	// Several controllers.
	{
		Name: "never-hand-over", What: "A controller whose tunnel is down keeps its bases, whoever else hears them",
		Rare:  "there must be two controllers, and one must be blind for as long as a lease holds",
		Edits: []Edit{{"controller/internal/vnode/owner.go", `if !r.opts.Cluster || r.member.blindFor(b.Tunnel)`, `if r.opts.Cluster || r.member.blindFor(b.Tunnel)`}},
	},

	// Commands.
	{
		Name: "retain-commands", What: "Commands stay in the broker, for whoever subscribes next",
		Rare: "a base must be cut off after an uninstall, and come back to a broker that has stayed",
		Edits: []Edit{{
			"controller/internal/tunnel/mqtt/mqtt.go",
			`c.client.Publish(topic, 1, false, body)`,
			`c.client.Publish(topic, 1, true, body)`,
		}},
	},
	{
		Name: "send-twice", What: "Each command is sent twice",
		Edits: []Edit{{
			dialog,
			`	if err := d.send(ctx, identity, r); err != nil {
		return arklet.Answer{}, err
	}
`,
			`	if err := d.send(ctx, identity, r); err != nil {
		return arklet.Answer{}, err
	}
	_ = d.send(ctx, identity, r)
`,
		}},
	},
	{
		Name: "hot-loop", What: "What has failed is tried again at once, without a pause",
		Edits: []Edit{{
			"controller/internal/vpod/workers.go",
			`	d := min(speed.Of(firstPause), atMost)
`,
			`	d := min(speed.Of(firstPause), atMost, time.Millisecond)
	failures = 1
`,
		}},
	},
	{
		Name: "never-send-again", What: "A command that got lost is sent again only when its time is over",
		Rare: "the fuzzer's time for an install is short, so that what hangs ends within a schedule",
		Edits: []Edit{{
			pending,
			`	p.look = true
`,
			``,
		}},
	},
	{
		Name: "ask-once", What: "A list that gets lost is not asked for again",
		Rare: "bases are asked for their modules often, and an answer and a list must get lost one after the other",
		Edits: []Edit{{
			dialog,
			`			late.Reset(pause)
		case wait := <-p.sooner:`,
			`		case wait := <-p.sooner:`,
		}},
	},
	{
		Name: "never-retry", What: "What has failed is not tried again",
		Edits: []Edit{{
			operate,
			`		if lacksMetaspace(err) {
`,
			`		f.next = now.Add(24 * time.Hour)
		if lacksMetaspace(err) {
`,
		}},
	},
	{
		Name: "replace-first", What: "All versions of a module go before another one is installed",
		Edits: []Edit{{
			reconcile,
			`		b, err = p.install(ctx, key, b, m, again)
`,
			`		for _, biz := range b.Modules {
			if biz.Name == m.Name {
				_, _ = p.uninstall(ctx, b, biz.Module(), nil)
			}
		}
		b, err = p.install(ctx, key, b, m, again)
`,
		}},
	},
	{
		Name: "uninstall-by-name", What: "An uninstall takes all versions of a module",
		Edits: []Edit{{
			reconcile,
			`	case doUninstall:
		failed = uninstall(m)
`,
			`	case doUninstall:
		failed = uninstall(m)
		for _, biz := range b.Modules {
			if biz.Name == m.Name {
				_, _ = p.uninstall(ctx, b, biz.Module(), again)
			}
		}
`,
		}},
	},
	{
		Name: "never-uninstall", What: "Nothing that no Pod wants is uninstalled",
		Edits: []Edit{{
			plan,
			`	l, leaves := s.leaving[version]
`,
			`	l, leaves := s.leaving[version]
	if there {
		return step{}
	}
`,
		}},
	},
	{
		Name: "no-drain", What: "A module goes while requests to it may be under way",
		Edits: []Edit{
			{plan, `return s.drains(l.since, max(s.drain, l.preStop), l.quiet, l.until)`, `return 0`},
			{plan, `	left = max(left, s.worksFor(biz))`, ``},
		},
	},
	{
		Name: "drain-alone", What: "The version that answers goes while requests come to it by the Pod of another",
		Rare:  "a Pod must go while its version is being installed, and the one before it just after that",
		Edits: []Edit{{plan, `	if s.answers(biz) { // also`, `	if s.answers(biz) && s.name == "" { // also`}},
	},
	{
		Name: "believe-the-drain", What: "A module goes after MODULE_DRAIN though a Service still sends requests to its Pod",
		Rare:  "Kubernetes' controllers must be slow, or away",
		Edits: []Edit{{plan, `	if q.not { // it hears`, `	if q.not && s.name == "" { // it hears`}},
	},
	{
		Name: "forget-placed", What: "What Pods had put on a base is forgotten when the base is served anew",
		Rare:  "a controller must end between an install and the end of its Pod",
		Edits: []Edit{{"controller/internal/vpod/ledger.go", `if ledger == "" {`, `if ledger != " " {`}},
	},
	{
		Name: "gone-is-done", What: "A module stays when its Pod has left the API before",
		Edits: []Edit{
			{
				plan,
				`	l, leaves := s.leaving[version]
`,
				`	l, leaves := s.leaving[version]
	if !leaves {
		return step{}
	}
`,
			},
			{
				reconcile,
				`		l := s.leaving[m.Version]
`,
				`		if _, there := p.informer.Get(nameOf(v.pod)); !there {
			return
		}
		l := s.leaving[m.Version]
`,
			},
		},
	},
	{
		Name: "ignore-version", What: "A module is not installed beside another version of it",
		Edits: []Edit{{
			plan,
			`		biz, there := s.list[w.Version]
`,
			`		biz, there := s.list[w.Version]
		if !there && s.activeBeside(w.Version) {
			break
		}
`,
		}},
	},

	// The API, and other controllers.
	{
		Name: "take-over", What: "A controller takes bases that another one serves, whose lease holds",
		Edits: []Edit{
			{
				"controller/internal/vnode/owner.go",
				`		return another
`,
				`		return free
`,
			},
			{
				"controller/internal/vnode/owner.go",
				`	return max(r.member.left(holder), 0), nil
`,
				`	return 0, nil
`,
			},
		},
	},
	{
		Name: "serve-new-only", What: "Pods from before the base was served are not looked after",
		Edits: []Edit{{
			"controller/internal/vpod/provider.go",
			`	pods := p.informer.On(nodeName)
	p.addPods(identity, pods...)
`,
			`	pods := p.informer.On(nodeName)
	if nodeName != "" {
		return
	}
	p.addPods(identity, pods...)
`,
		}},
	},
	{
		Name: "conflict-is-done", What: "A status is not written again after a conflict",
		Edits: []Edit{{
			"controller/internal/vpod/writer.go",
			`		case !apierrors.IsConflict(err):
			return false, fmt.Errorf("writing the status of pod %s: %w", nameOf(pod), err)
`,
			`		case apierrors.IsConflict(err):
			return false, nil
		default:
			return false, fmt.Errorf("writing the status of pod %s: %w", nameOf(pod), err)
`,
		}},
	},
}
