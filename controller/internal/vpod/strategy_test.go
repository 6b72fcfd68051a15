package vpod

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// failWith makes the base answer installs of a version with an exception.
func (w *fixture) failWith(version, stackTrace string) {
	w.base.change(func(b *fakeBase) {
		b.installAnswer = func(m arklet.Module) *arklet.Answer {
			if m.Version != version {
				return nil
			}
			return &arklet.Answer{Code: "FAILED", DataCode: "FAILED",
				Message: "java.lang.reflect.InvocationTargetException", DataMessage: stackTrace}
		}
	})
}

// TestUninstallThenInstall checks that the old Pod becomes Not Ready and is drained before the base uninstalls its
// version, and that the controller never installs this version again while the new Pod exists.
func TestUninstallThenInstall(t *testing.T) {
	release := func(w *fixture) {
		w.create("old", container("biz1", "1"))
		w.advance(time.Second)
		w.base.takeCommands()
		w.strategy = labels.UninstallThenInstall
		w.create("new", container("biz1", "2"))
		w.advance(100 * time.Millisecond)
		w.wantSummary("old", "Running UninstallThenInstall")
	}
	runTest(t, "success", Options{}, func(t *testing.T, w *fixture) {
		release(w)
		w.advance(api.Drain - 200*time.Millisecond)
		wantEqual(t, "modules during the drain", map[string]string{"biz1:1": "activated"}, w.base.states())
		w.advance(time.Hour)
		w.wantSummary("old", "Running BizDeactivate")
		w.wantSummary("new", "Running Ready")
		wantEqual(t, "condition", "True Installed file:///m/biz1-2.jar", w.currentCondition("new"))
		w.delete("old")
		w.advance(time.Second)
		w.wantSummary("old", "gone")
		wantEqual(t, "commands", []string{"installBiz biz1:2 uninstallThenInstall"}, w.base.takeCommands())
		wantEqual(t, "Event", "no event", w.nextEvent())
		if len(w.store.replacePermits) > 0 {
			t.Error("the replace permit was not released")
		}
	})
	runTest(t, "failure", Options{}, func(t *testing.T, w *fixture) {
		w.failWith("2", "java.lang.IllegalStateException: boom")
		release(w)
		w.advance(time.Hour)
		w.wantSummary("old", "Running UninstallThenInstall")
		w.wantSummary("new", "Pending RetryTimesExceeded")
		wantEqual(t, "modules", map[string]string{}, w.base.states())
		for _, command := range w.base.takeCommands() {
			if command != "installBiz biz1:2 uninstallThenInstall" {
				t.Errorf("unexpected command %q", command)
			}
		}
		if w.store.replacePermits["default/biz1"].identity != "a" {
			t.Error("other bases may install the version that failed")
		}
		w.delete("new")
		w.advance(5 * time.Second)
		w.wantSummary("old", "Running Ready")
		wantEqual(t, "commands after the rollback", []string{"installBiz biz1:1"}, w.base.takeCommands())
	})
	runTest(t, "version changed in place", Options{}, func(t *testing.T, w *fixture) {
		w.strategy = labels.UninstallThenInstall
		w.create("p1", container("biz1", "1"))
		w.advance(time.Second)
		w.base.takeCommands()
		p := w.pod("p1")
		p.Spec.Containers = []corev1.Container{container("biz1", "2")}
		w.update(p)
		w.advance(time.Second)
		w.wantSummary("p1", "Running ContainerCreating")
		wantEqual(t, "modules during the drain", map[string]string{"biz1:1": "activated"}, w.base.states())
		w.advance(5 * time.Second)
		w.wantSummary("p1", "Running Ready")
		wantEqual(t, "commands", []string{"installBiz biz1:2 uninstallThenInstall"}, w.base.takeCommands())
	})
	runTest(t, "old Pod deleted first", Options{}, func(t *testing.T, w *fixture) {
		w.create("old", container("biz1", "1"))
		w.advance(time.Second)
		w.base.takeCommands()
		w.delete("old")
		w.strategy = labels.UninstallThenInstall
		w.create("new", container("biz1", "2"))
		w.advance(5 * time.Second)
		w.wantSummary("new", "Running Ready")
		wantEqual(t, "commands", []string{"uninstallBiz biz1:1", "installBiz biz1:2 uninstallThenInstall"},
			w.base.takeCommands())
	})
}

// TestWebContextTaken checks that the Event and the status of a Pod name the web context path that another version
// uses, and that changing the install strategy of the Pod retries the install.
func TestWebContextTaken(t *testing.T) {
	runTest(t, "", Options{}, func(t *testing.T, w *fixture) {
		w.failWith("2", "java.lang.reflect.InvocationTargetException\n\tat x\n"+
			"Caused by: java.lang.IllegalArgumentException: Child name [/stock] is not unique\n")
		w.create("old", container("biz1", "1"))
		w.advance(time.Second)
		w.create("new", container("biz1", "2"))
		w.advance(time.Hour)
		w.wantSummary("old", "Running Ready")
		message := w.pod("new").Status.ContainerStatuses[0].State.Waiting.Message
		for what, text := range map[string]string{"Event": w.nextEvent(), "status": message} {
			for _, want := range []string{`web context path "stock"`, "one path per version", labels.InstallStrategy} {
				if !strings.Contains(text, want) {
					t.Errorf("%s %q does not contain %q", what, text, want)
				}
			}
		}
		w.base.change(func(b *fakeBase) { b.installAnswer = nil })
		p := w.pod("new")
		p.Annotations = map[string]string{labels.InstallStrategy: labels.UninstallThenInstall}
		w.update(p)
		w.advance(5 * time.Second)
		w.wantSummary("new", "Running Ready")
	})
}

// TestUnknownInstallStrategy checks that a module with an unknown install strategy is not installed, but that an
// installed module stays installed if the annotation becomes invalid.
func TestUnknownInstallStrategy(t *testing.T) {
	runTest(t, "", Options{}, func(t *testing.T, w *fixture) {
		w.strategy = "uninstallFirst"
		w.create("p1", container("biz1", "1"))
		w.advance(5 * time.Second)
		w.wantSummary("p1", "Pending InvalidParameter")
		if e := w.nextEvent(); !strings.Contains(e, `is "uninstallFirst"; use installOnly or uninstallThenInstall`) {
			t.Errorf("unexpected Event %q", e)
		}
		wantEqual(t, "commands", []string(nil), w.base.takeCommands())
		for _, strategy := range []string{labels.InstallOnly, "typo"} {
			p := w.pod("p1")
			p.Annotations[labels.InstallStrategy] = strategy
			w.update(p)
			w.advance(time.Minute)
			w.wantSummary("p1", "Running Ready")
		}
		wantEqual(t, "commands", []string{"installBiz biz1:1"}, w.base.takeCommands())
	})
}
