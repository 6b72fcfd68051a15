package pace

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		speed     Speed
		d         time.Duration
		of, whole time.Duration
	}{
		{0, time.Minute, time.Minute, time.Minute},
		{1, time.Minute, time.Minute, time.Minute},
		{10, 25 * time.Second, 2500 * time.Millisecond, 3 * time.Second},
		{20, 15 * time.Second, 750 * time.Millisecond, time.Second},
		{20, 40 * time.Second, 2 * time.Second, 2 * time.Second},
		{20, 1, 1, time.Second},
		{20, 0, 0, 0},
		{20, -1, -1, -1},
	} {
		if of, whole := c.speed.Of(c.d), c.speed.Seconds(c.d); of != c.of || whole != c.whole {
			t.Errorf("speed %d: %s is %s, in whole seconds %s; want %s and %s", c.speed, c.d, of, whole, c.of, c.whole)
		}
	}
}

// settings are defaults of the controller's Options, which divide them: its own test holds that.
var settings = []string{
	"api.UnreachableAfter", "api.DeadAfter", "api.HealthInterval", "api.ListInterval", "api.ReconnectGrace", "api.MassWindow", "api.MassAtMost",
	"api.ControllerLease", "api.NodeLease", "api.InstallTimeout", "api.UninstallTimeout", "api.Drain",
}

// undivided are times that are written in the controller and are the same at every speed, by the
// constant or the function that they stand in, under the reason why.
var undivided = map[string][]string{
	"how long a network, an API or a process of this machine may take": {
		"controller.requestTimeout", "controller.untilTheAPIAnswers", "vpod.keepWithin", "vnode.journalTimeout", "vpod.afterConflict", "controller.serveUntil", "controller.headerTimeout", "vpod.apiTimeout", "configmap.readTimeout",
		"kubelet.queryTimeout", "kubelet.switchTimeout", "kubelet.reviewTimeout", "kubelet.headerTimeout", "kubelet.stopTimeout",
		"httptunnel.dialTimeout", "httptunnel.headerTimeout", "httptunnel.bodyTimeout", "httptunnel.answerTimeout", "httptunnel.stopTimeout",
		"mqtt.handshake", "mqtt.retainedTime", "mqtt.behindAfter", "mqtt.lostAfter", "mqtt.echoLate", "mqtt.echoLost", "report.attemptTimeout", "vnode.firstHealth",
	},
	"a machine that is busy for a second must not break a connection or a Lease": {
		"api.MinControllerLease", "vnode.MaxLease", "controller.noticeWithin", "mqtt.defaultNotice", "mqtt.minNotice", "mqtt.keepAlive",
	},
	"Kubernetes' leader election, in whole seconds": {"peer.leaseDuration", "peer.renewDeadline", "peer.retryPeriod"},
	"how long Kubernetes' own controllers take":     {"controller.catchUp", "controller.electAnew", "controller.renewDeadline", "handover.YieldAfter"},
	"what a manifest says, or Kubernetes does by a Pod's grace period": {
		"plan.ExpectedFor", "plan.LastMoment", "vpod.notReadySince", "vpod.beginDeletion", "workload.PreStopSleep", "probe.newWorker", "probe.period", "probe.MaxTimeout", "probe.timeout",
	},
	"what a base says of itself":                    {"arklet.longestRun", "base.mayBeLost", "kubelet.clockSkew"},
	"a duration in the Lease of another controller": {"vnode.durationOf"},
	"spares the API, the processor or somebody else's service work": {
		"apiwait.pause", "mqtt.echoEvery", "controller.sweepPause", "controller.add", "vnode.afterConflict", "vnode.New", "vnode.guardEvery", "vnode.levelDelay", "vnode.confirm",
		"vnode.mayTake", "vnode.claim", "moduleview.gather", "moduleview.New", "configmap.fresh", "configmap.maxRetry", "moduleview.retryDelay", "work.New", "plan.waitFor", "configmap.New", "peer.recheckCordoned",
		"report.Start", "report.firstDelay", "report.newHook", "vpod.within", "probe.slowAfter",
	},
	"for how long something that is not needed is kept": {
		"controller.newcomerTime",
		"httptunnel.idleTimeout", "kubelet.streamIdle", "kubelet.Start", "kubelet.allowedFor", "kubelet.deniedFor", "kubelet.followEvery",
	},
	"a unit, no period": {"unsupported.table", "pace.Seconds", "arklet.DecodeHealth", "kubelet.health", "kubelet.logs", "report.body"},
}

// Whoever writes a time into the controller divides it, or says why not.
func TestEveryPeriodIsDivided(t *testing.T) {
	same := map[string]bool{}
	for _, names := range undivided {
		for _, name := range names {
			same[name] = true
		}
	}
	found := map[string]token.Position{} // where times are written
	divided := map[string]bool{}         // what is handed to Of or Seconds
	files := token.NewFileSet()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			periods(f.Name.Name, decl, func(name string, at token.Pos) { found[name] = files.Position(at) }, func(name string) { divided[name] = true })
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 30 {
		t.Fatalf("only %d times were found in %s: this test sees nothing", len(found), root)
	}
	for name, at := range found {
		switch {
		case divided[name] && same[name]:
			t.Errorf("%s: %s is divided: it is not to be in the table of what is not", at, name)
		case !divided[name] && !same[name] && !slices.Contains(settings, name):
			t.Errorf("%s: %s is a time that Speed.Of does not divide: hand it to that, or say in undivided why not", at, name)
		}
	}
	for _, name := range slices.AppendSeq(slices.Clone(settings), maps.Keys(same)) {
		if _, is := found[name]; !is {
			t.Errorf("there is no time %s any more: take it out of the table", name)
		}
	}
}

// periods tells which times a declaration writes, by the constant or the function, and which
// constants it divides.
func periods(pkg string, decl ast.Decl, found func(string, token.Pos), divided func(string)) {
	switch decl := decl.(type) {
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			v, is := spec.(*ast.ValueSpec)
			if !is {
				continue
			}
			for i, value := range v.Values {
				if times(value) {
					found(pkg+"."+v.Names[i].Name, value.Pos())
				}
			}
		}
	case *ast.FuncDecl:
		if decl.Body == nil {
			return
		}
		within := map[ast.Node]bool{} // calls that divide
		ast.Inspect(decl.Body, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is {
				if to, is := call.Fun.(*ast.SelectorExpr); is && len(call.Args) == 1 && (to.Sel.Name == "Of" || to.Sel.Name == "Seconds") {
					switch arg := call.Args[0].(type) {
					case *ast.Ident:
						divided(pkg + "." + arg.Name)
					case *ast.SelectorExpr:
						within[arg] = true
						if from, is := arg.X.(*ast.Ident); is {
							divided(from.Name + "." + arg.Sel.Name)
						}
					case *ast.BinaryExpr:
						within[arg] = true
					}
				}
			}
			if within[n] {
				return false
			}
			if e, is := n.(ast.Expr); is && isTime(e) {
				found(pkg+"."+decl.Name.Name, n.Pos())
			}
			return true
		})
	}
}

// times says whether an expression is made of units of time.
func times(e ast.Expr) (is bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if x, ok := n.(ast.Expr); ok && isTime(x) {
			is = true
		}
		return !is
	})
	return is
}

// isTime says whether an expression is a unit of time.
func isTime(e ast.Expr) bool {
	s, is := e.(*ast.SelectorExpr)
	if !is {
		return false
	}
	pkg, is := s.X.(*ast.Ident)
	return is && pkg.Name == "time" && slices.Contains([]string{"Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}, s.Sel.Name)
}
