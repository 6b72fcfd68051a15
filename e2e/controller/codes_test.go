package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// failing is a failure of an install, and what is said of it.
type failing struct {
	arklet  string // the code of Arklet's table
	codes   string // those in the message, the controller's first
	cause   string // what the base says; JAR stands for the URL
	suggest string
	thrown  bool // an exception: over HTTP it is an internal error
}

// The codes of Module Controller V2 document 5.6 that an install can end with.
// InstallBizTimedOut is not among them: it needs the strategy
// uninstallThenInstall, which the controller does not ask for.
var failings = []failing{
	{"Arklet.UnknownError", "Arklet.InstallModuleFailed: Arklet.UnknownError", "java.lang.RuntimeException: unknown error", "investigate", true},
	{"ModuleController.InvalidParameter", "OtherUpstream.InvalidParameter: ModuleController.InvalidParameter", "bizVersion should not be blank", "check the parameters", true},
	{"Arklet.InvalidBizName", "Arklet.InstallModuleFailed: Arklet.InvalidBizName", "bizName should not be blank", "give the bizName", true},
	{"OtherUpstream.DecodeURLFailed", "OtherUpstream.DecodeURLFailed", "java.net.MalformedURLException: no protocol: JAR", "check that the URL is valid", true},
	{"Arklet.InstallationRequirementNotMet", "Arklet.InstallModuleFailed: Arklet.InstallationRequirementNotMet", "java.lang.IllegalArgumentException: Biz Name must not be empty!", "check what installing the module requires", true},
	{"Arklet.PullBizError", "Arklet.InstallModuleFailed: Arklet.PullBizError", "java.io.FileNotFoundException: JAR", "try again", true},
	{"Arklet.PullBizTimeOut", "Arklet.InstallModuleFailed: Arklet.PullBizTimeOut", "java.net.SocketTimeoutException: Read timed out", "try again", true},
	{"User.DiskFull", "User.DiskFull", "java.io.IOException: No space left on device", "replace the base", true},
	{"User.MachineMalfunction", "User.InstallModuleFailed: User.MachineMalfunction", "java.lang.InternalError: machine malfunction", "restart the base", true},
	{"User.MetaspaceFull", "User.InstallModuleFailed: User.MetaspaceFull", "java.lang.OutOfMemoryError: Metaspace", "restart the base", true},
	{"Arklet.InstallBizFailed", "Arklet.InstallModuleFailed: Arklet.InstallBizFailed", "java.lang.ClassNotFoundException: com.example.m.Application", "investigate", true},
	{"User.InstallBizUserError", "User.InstallModuleFailed: User.InstallBizUserError", "java.lang.reflect.InvocationTargetException", "check the module's code", true},
	{"ModuleController.InvalidRequest", "Arklet.InstallModuleFailed: ModuleController.InvalidRequest", "please follow the doc", "check the request", false},
}

// Whatever goes wrong with an install, container, condition and Event say it in
// the controller's code and in arklet's; after some attempts the controller gives up (behaviour 11).
func TestInstallCodes(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	f := record(t, ns)
	want := map[string]uint64{}
	t.Run("codes", func(t *testing.T) {
		for _, c := range failings {
			for tunnel, start := range map[string]func(*testing.T, fakebase.Options) *base{"mqtt": overMQTT, "http": overHTTP} {
				if c.arklet == "ModuleController.InvalidRequest" && tunnel == "mqtt" {
					continue // a command that arklet does not know gets no answer there: see TestPassingFailures
				}
				want[c.arklet] += attempts
				t.Run(tunnel+" "+c.arklet, func(t *testing.T) {
					t.Parallel()
					name := strings.ToLower(tunnel + "-" + strings.ReplaceAll(c.arklet, ".", "-"))
					b := start(t, fakebase.Options{Name: name})
					b.inject(t, fault.Fault{Kind: fault.KindError, Code: c.arklet, Match: fault.Match{Commands: []string{"installBiz"}}})
					pod(t, ns, name, one("m", "1.0.0", name))

					cause := strings.ReplaceAll(c.cause, "JAR", module.URL("m", "1.0.0"))
					if c.thrown && tunnel == "http" {
						cause = "Internal Error: " + cause
					}
					message := fmt.Sprintf("%s: installBiz of m:1.0.0 on base %q: %s; %s", c.codes, b.Identity(), cause, c.suggest)
					first, _, _ := strings.Cut(c.codes, ":")
					_, reason, _ := strings.Cut(first, ".")
					all := []said{{reason, message}, {"RetryTimesExceeded", "ModuleController.RetryTimesExceeded: " + message}}
					eventually(t, "everything is said", func(ctx context.Context) error { return says(ctx, f, ns, name, all) })
				})
			}
		}
	})
	for code, got := range operations(t, "installBiz", want) {
		if got < want[code] { // attempts go on
			t.Errorf("%d operations in the metrics ended with %s, want %d at least", got, code, want[code])
		}
		delete(want, code)
	}
	if len(want) > 0 {
		t.Errorf("no operation in the metrics ended with %v", want)
	}
}

// says compares what the container of a Pod and the Events have said, and what its conditions say
// now.
func says(ctx context.Context, f *film, ns, name string, want []said) error {
	if err := same(want, f.said(name)); err != nil {
		return fmt.Errorf("the container %w", err)
	}
	p, err := client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			if err := same(want[len(want)-1], of(c.Reason, c.Message)); err != nil {
				return fmt.Errorf("the condition %s %w", c.Type, err)
			}
		}
	}
	return warns(ctx, ns, name, want)
}

// warns compares the Warnings about a Pod, each once.
func warns(ctx context.Context, ns, name string, want []said) error {
	events, err := client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "type=Warning,involvedObject.name=" + name})
	if err != nil {
		return err
	}
	slices.SortFunc(events.Items, func(a, b corev1.Event) int { // resource versions are numbers
		return cmp.Or(len(a.ResourceVersion)-len(b.ResourceVersion), strings.Compare(a.ResourceVersion, b.ResourceVersion))
	})
	var told []said
	for _, e := range events.Items {
		if e.Reason != "FailedScheduling" { // the base was not there yet
			told = append(told, of(e.Reason, e.Message))
		}
	}
	if err := same(want, told); err != nil {
		return fmt.Errorf("the Events %w", err)
	}
	return nil
}

// operations counts the commands that ended with each of the codes, as the metrics tell.
func operations(t *testing.T, command string, codes map[string]uint64) map[string]uint64 {
	t.Helper()
	metrics, err := shared.ControllerMetrics(t.Context())
	must(t, err)
	got := map[string]uint64{}
	for _, m := range metrics["module_controller_operation_seconds"].GetMetric() {
		if code := label(m, "code"); label(m, "command") == command && codes[code] > 0 {
			got[code] += m.GetHistogram().GetSampleCount()
		}
	}
	return got
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// What passes by is said, and overcome: a base that is busy with the module is no
// failure of the module, however often, and one that does not answer in time is asked again.
func TestPassingFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault        fault.Fault
		reason, says string
	}{
		"busy": {
			fault.Fault{Kind: fault.KindError, Code: "Arklet.InstallBizExecuting", Count: attempts + 1},
			"InstallModuleExecuting", "Arklet.InstallModuleExecuting: Arklet.InstallBizExecuting: installBiz of m:1.0.0 on base %q: " +
				"FAILED:m:1.0.0 installBiz conflict, exist unfinished command(installBiz) for this biz; try again",
		},
		"no answer": {
			fault.Fault{Kind: fault.KindDeaf, Count: 1},
			"InstallModuleTimedOut", "Arklet.InstallModuleTimedOut: installBiz of m:1.0.0 on base %q: base did not answer in time (context deadline exceeded); try again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, name := namespace(t), kind()
			f, b := record(t, ns), overMQTT(t, fakebase.Options{Name: name})
			c.fault.Match.Commands = []string{"installBiz"}
			b.inject(t, c.fault)
			pod(t, ns, "m", one("m", "1.0.0", name))
			readyPod(t, ns, "m")
			want := []said{{c.reason, fmt.Sprintf(c.says, b.Identity())}}
			f.caughtUp(t)
			if err := same(want, f.said("m")); err != nil {
				t.Errorf("the container %v", err)
			}
			eventually(t, "the Event is there", func(ctx context.Context) error { return warns(ctx, ns, "m", want) })
		})
	}
}

// A Pod whose module cannot be uninstalled says why, and stays until it can.
func TestUninstallCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		arklet string
		beside []string // younger versions that the base keeps deactivated; the youngest makes way first
		says   string
	}{
		{"Arklet.UninstallBizFailed", nil, "Arklet.UninstallBizFailed: uninstallBiz of m:1.0.0 on base %q: java.lang.IllegalStateException: stop handler failed; investigate"},
		{"Arklet.NoMatchedBiz", nil, "Arklet.UninstallBizFailed: base %q says that it uninstalled m:1.0.0 and lists it still; investigate"},
		{"Arklet.UnInstallationRequirementNotMet", []string{"2.0.0", "3.0.0"}, "Arklet.UninstallBizFailed: Arklet.UnInstallationRequirementNotMet: uninstallBiz of m:1.0.0 on base %q: " +
			"java.lang.IllegalStateException: the active one of several versions must not be uninstalled; the active one of several versions must not be uninstalled"},
	} {
		t.Run(c.arklet, func(t *testing.T) {
			t.Parallel()
			ns, name := namespace(t), kind()
			leave := false
			b := overMQTT(t, fakebase.Options{Name: name, RemoveWhenStopFailed: &leave})
			pod(t, ns, "m", one("m", "1.0.0", name))
			readyPod(t, ns, "m")
			left := []string{}
			for _, version := range c.beside {
				pod(t, ns, "beside-"+version, one("m", version, name))
				left = append(left, "m:"+version+" DEACTIVATED")
				has(t, b, append([]string{"m:1.0.0 ACTIVATED"}, left...)...)
			}
			id := b.inject(t, fault.Fault{Kind: fault.KindError, Code: c.arklet, Match: fault.Match{Commands: []string{"uninstallBiz"}}})
			must(t, client.CoreV1().Pods(ns).Delete(t.Context(), "m", metav1.DeleteOptions{}))
			eventually(t, "the Event is there", func(ctx context.Context) error {
				return warns(ctx, ns, "m", []said{{"UninstallBizFailed", fmt.Sprintf(c.says, b.Identity())}})
			})
			if _, err := client.CoreV1().Pods(ns).Get(t.Context(), "m", metav1.GetOptions{}); err != nil {
				t.Errorf("the Pod does not wait for its module: %v", err)
			}
			b.Clear(id)
			gone(t, ns, "m")
			if last := len(c.beside) - 1; last >= 0 {
				left[last] = "m:" + c.beside[last] + " ACTIVATED"
			}
			has(t, b, left...)
		})
	}
}
