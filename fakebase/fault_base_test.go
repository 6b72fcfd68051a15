package fakebase

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// newConnectedBase starts a base, and waits until it is connected to a test broker.
func newConnectedBase(t *testing.T, opts Options) (*testBroker, *Base) {
	t.Helper()
	w := newTestBroker(t)
	opts.Identity, opts.MQTT = "b1", &MQTTOptions{Dial: w.dial}
	if opts.Catalogue == nil {
		opts.Catalogue = &Catalogue{Fetch: FetchNever}
	}
	b := start(t, opts)
	w.next("base/heart")
	return w, b
}

func inject(t *testing.T, b *Base, f fault.Fault) string {
	t.Helper()
	id, err := b.Inject(f)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

const (
	topic      = "koupleless_dev/b1/"
	install1   = `{"bizName":"biz1","bizVersion":"1.0.0","bizUrl":"http://h/x.jar"}`
	install2   = `{"bizName":"biz1","bizVersion":"2.0.0","bizUrl":"http://h/y.jar"}`
	uninstall1 = `{"bizName":"biz1","bizVersion":"1.0.0"}`
)

func TestSilentAndDeafFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		sleep(5 * time.Second) // between two heartbeats
		id := inject(t, b, fault.Fault{Kind: fault.KindSilent})
		if n := w.countHeartbeats(time.Minute); n != 0 {
			t.Errorf("heartbeats with a silent fault = %d, want 0", n)
		}
		w.send(topic+"queryAllBiz", "{}")
		w.next("base/simpleBiz")
		b.Clear(id)
		id = inject(t, b, fault.Fault{Kind: fault.KindDeaf, Match: fault.Match{Commands: []string{cmdQueryAll}}})
		w.send(topic+"queryAllBiz", "{}")
		w.send(topic+"health", "{}")
		w.next("base/health")
		if n := w.countHeartbeats(64 * time.Second); n != 6 {
			t.Errorf("heartbeats with a deaf fault in 64 s = %d", n)
		}
		b.Clear(id)
		w.send(topic+"queryAllBiz", "{}")
		w.next("base/simpleBiz")
	})
}

func TestLatencyAndHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		inject(t, b, fault.Fault{Kind: fault.KindLatency, Delay: Delay{Min: Duration(3 * time.Second)},
			Match: fault.Match{Commands: []string{cmdHealth}}})
		begun := time.Now()
		w.send(topic+"health", "{}")
		w.next("base/health")
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("response to health after %s", took)
		}
		w.send(topic+"health", "{}")
		sleep(time.Second)
		b.Clear()
		w.next("base/health")
		if took := time.Since(begun); took != 4*time.Second {
			t.Errorf("response to the second health after %s; the fault was cleared after 1s",
				took)
		}
		inject(t, b, fault.Fault{Kind: fault.KindHang, Match: fault.Match{Biz: "biz1"}})
		w.send(topic+"installBiz", install1)
		synctest.Wait()
		b.Clear()
		w.send(topic+"uninstallBiz", uninstall1)
		got := w.data("base/bizOperation")["response"].(map[string]any)["message"]
		if want := "FAILED:biz1:1.0.0 uninstallBiz conflict, exist unfinished " +
			"command(installBiz) for this biz"; got != want {
			t.Errorf("response = %q, want %q", got, want)
		}
	})
}

// TestConflictCodes checks the response to a command that conflicts with a running command. The message must contain
// the name of the running command. The response must contain an error code only if the running command is an install.
func TestConflictCodes(t *testing.T) {
	answer := func(w *testBroker, command, body string) []any {
		w.send(topic+command, body)
		response := w.data("base/bizOperation")["response"].(map[string]any)
		return []any{response["message"], response["errorCode"]}
	}
	synctest.Test(t, func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		inject(t, b, fault.Fault{Kind: fault.KindError, Code: fault.CodeInstallBizExecuting, Count: 1})
		got := [][]any{answer(w, "uninstallBiz", uninstall1)}
		w.send(topic+"installBiz", install1)
		w.next("base/bizOperation")
		inject(t, b, fault.Fault{Kind: fault.KindHang, Count: 1, Match: fault.Match{Commands: []string{cmdUninstall}}})
		w.send(topic+"uninstallBiz", uninstall1)
		synctest.Wait()
		got = append(got, answer(w, "installBiz", install1))
		want := [][]any{
			{"FAILED:biz1:1.0.0 uninstallBiz conflict, exist unfinished command(installBiz) for this biz",
				"Arklet.InstallBizExecuting"},
			{"FAILED:biz1:1.0.0 installBiz conflict, exist unfinished command(uninstallBiz) for this biz", nil},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("message and errorCode (-want +got):\n%s", diff)
		}
	})
}

func TestCrashDuringInstall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := newConnectedBase(t, Options{
			Catalogue: &Catalogue{Fetch: FetchNever, InstallTime: Delay{Min: Duration(time.Second)}}})
		w.send(topic+"installBiz", install1)
		w.next("base/bizOperation")
		var events []EventKind
		_, stop := b.Watch(func(e Event) { events = append(events, e.Kind) })
		inject(t, b, fault.Fault{Kind: fault.KindCrash, Match: fault.Match{Commands: []string{cmdInstall}},
			Restart: &fault.Restart{After: Duration(5 * time.Second), NewIdentity: true}})
		w.send(topic+"installBiz", install2)
		sleep(4 * time.Second)
		synctest.Wait()
		if s := b.Status(); s.Running || s.Connected || len(s.Biz) != 0 {
			t.Errorf("status after the crash = %+v", s)
		}
		for len(w.messages) > 0 {
			if m := <-w.messages; strings.HasSuffix(m.topic, "bizOperation") {
				t.Errorf("unexpected response of the crashed process: %s", m.payload)
			}
		}
		sleep(10 * time.Second)
		synctest.Wait()
		stop()
		s := b.Status()
		if !s.Running || !s.Connected || s.Identity == "b1" || len(s.Biz) != 0 {
			t.Errorf("status after the restart = %+v", s)
		}
		w.next(s.Identity + "/base/heart")
		want := []EventKind{EventBiz, EventDisconnected, EventDown, EventUp, EventReady, EventConnected}
		if d := cmp.Diff(want, events,
			cmpopts.IgnoreSliceElements(func(k EventKind) bool {
				return k == EventDisconnected || k == EventHealth
			})); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

func TestCrashWithoutMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Options{Identity: "b1", Faults: []fault.Fault{{
			Kind: fault.KindCrash, Count: 3, Delay: Delay{Min: Duration(10 * time.Second)},
			Restart: &fault.Restart{After: Duration(time.Second)},
		}}})
		begun := time.Now()
		var ups []time.Duration
		_, stop := b.Watch(func(e Event) {
			if e.Kind == EventUp {
				ups = append(ups, e.Time.Sub(begun))
			}
		})
		sleep(time.Hour)
		synctest.Wait()
		stop()
		want := []time.Duration{11 * time.Second, 22 * time.Second, 33 * time.Second}
		if len(ups) == 4 {
			ups = ups[1:] // the first start may be included
		}
		if d := cmp.Diff(want, ups); d != "" {
			t.Errorf("start times (-want +got):\n%s", d)
		}
	})
}

func TestCrashAndRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		before, err := New(Options{Identity: "b2"})
		if err != nil {
			t.Fatal(err)
		}
		if err := before.Restart(""); !errors.Is(err, ErrNotRunning) {
			t.Errorf("Restart() before Start = %v, want ErrNotRunning", err)
		}
		if err := b.Start(t.Context()); !errors.Is(err, ErrStarted) {
			t.Errorf("second Start() = %v, want ErrStarted", err)
		}
		if err := b.Restart("a/b"); err == nil {
			t.Error("Restart() with a slash in the identity succeeded, want an error")
		}
		b.Crash()
		sleep(time.Hour)
		synctest.Wait()
		if b.Status().Running {
			t.Error("base restarted without a call of Restart")
		}
		if err := b.Restart("b9"); err != nil {
			t.Fatal(err)
		}
		w.next("koupleless_dev/b9/base/heart")
	})
}

func TestMessageFaults(t *testing.T) {
	second := Delay{Min: Duration(time.Second)}
	heart := fault.Match{Messages: []string{"heart"}}
	t.Run("duplicate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, b := newConnectedBase(t, Options{})
			inject(t, b, fault.Fault{Kind: fault.KindDuplicate, Match: heart})
			if n := w.countHeartbeats(65 * time.Second); n != 12 {
				t.Errorf("heartbeats in 65 s = %d, want each twice", n)
			}
		})
	})
	runInBubble(t, "stale", func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		inject(t, b, fault.Fault{Kind: fault.KindStale, Match: heart})
		if age := time.Since(published(t, w.next("base/heart"))); age != 11*time.Second {
			t.Errorf("age of the stale message = %s", age)
		}
		w.send(topic+"health", "{}")
		if age := time.Since(published(t, w.next("base/health"))); age != 0 {
			t.Errorf("age of the next message = %s", age)
		}
	})
	runInBubble(t, "corrupt", func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		inject(t, b, fault.Fault{Kind: fault.KindCorrupt, Match: heart})
		if m := w.next("base/heart"); json.Valid(m) {
			t.Errorf("corrupt message is valid JSON: %s", m)
		}
	})
	runInBubble(t, "delay lets others overtake", func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		inject(t, b, fault.Fault{Kind: fault.KindDelay, Delay: second,
			Match: fault.Match{Messages: []string{"health"}}})
		begun := time.Now()
		w.send(topic+"health", "{}")
		synctest.Wait()
		w.send(topic+"queryAllBiz", "{}")
		w.next("base/simpleBiz")
		if time.Since(begun) != 0 {
			t.Error("the next message was delayed, too")
		}
		m := w.next("base/health")
		if took, age := time.Since(begun), time.Since(published(t, m)); took != time.Second || age != time.Second {
			t.Errorf("delay = %s, age = %s", took, age)
		}
	})
	runInBubble(t, "reorder", func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		inject(t, b, fault.Fault{Kind: fault.KindReorder, Count: 1, Match: fault.Match{Messages: []string{"health"}}})
		w.send(topic+"health", "{}")
		synctest.Wait()
		w.send(topic+"queryAllBiz", "{}")
		begun := time.Now()
		var order []string
		for range 2 {
			for m := range w.messages {
				if i := strings.Index(m.topic, "/base/"); i > 0 {
					order = append(order, m.topic[i+6:])
					break
				}
			}
		}
		if d := cmp.Diff([]string{"simpleBiz", "health"}, order); d != "" {
			t.Errorf("order (-want +got):\n%s", d)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("reordered message arrived %s after the next message", took)
		}
	})
	runInBubble(t, "reorder without a next message", func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		inject(t, b, fault.Fault{Kind: fault.KindReorder, Match: fault.Match{Messages: []string{"health"}}})
		begun := time.Now()
		w.send(topic+"health", "{}")
		w.next("base/health")
		if took := time.Since(begun); took != time.Second {
			t.Errorf("reordered message was held for %s", took)
		}
	})
	runInBubble(t, "slow link keeps order both ways", func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		inject(t, b, fault.Fault{Kind: fault.KindSlowLink,
			Delay: Delay{Min: Duration(time.Second), Spread: Duration(4 * time.Second)}})
		begun := time.Now()
		for range 20 {
			w.send(topic+"queryAllBiz", "{}")
			sleep(100 * time.Millisecond)
		}
		var last time.Time
		for range 20 {
			at := published(t, w.next("base/simpleBiz"))
			if at.Before(last) {
				t.Errorf("message of %s arrived after message of %s", at, last)
			}
			last = at
		}
		if took := time.Since(begun); took < 2*time.Second || took > 12*time.Second {
			t.Errorf("all messages arrived after %s, want 2 to 12 s", took)
		}
	})
}

func TestClockSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		inject(t, b, fault.Fault{Kind: fault.KindClockSkew, Skew: Duration(-time.Minute)})
		if age := time.Since(published(t, w.next("base/heart"))); age != time.Minute {
			t.Errorf("age of the heartbeat = %s", age)
		}
		w.send(topic+"installBiz", install1)
		w.next("base/bizOperation")
		w.send(topic+"queryAllBiz", "{}")
		var list struct {
			Data []struct{ LatestStateRecord struct{ ChangeTime int64 } }
		}
		if err := json.Unmarshal(w.next("base/simpleBiz"), &list); err != nil {
			t.Fatal(err)
		}
		if age := time.Since(time.UnixMilli(list.Data[0].LatestStateRecord.ChangeTime)); age != time.Minute {
			t.Errorf("age of the state record = %s", age)
		}
		if age := time.Since(b.Status().Biz[0].Records[0].ChangeTime); age != 0 {
			t.Errorf("age in the status = %s, want the real time", age)
		}
	})
}

func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		w.send(topic+"installBiz", install1)
		w.next("base/bizOperation")
		inject(t, b, fault.Fault{Kind: fault.KindFlapping, Match: fault.Match{Biz: "biz1"}})
		var states []string
		for range 4 {
			w.send(topic+"queryAllBiz", "{}")
			var list struct{ Data []struct{ State string } }
			if err := json.Unmarshal(w.next("base/simpleBiz"), &list); err != nil {
				t.Fatal(err)
			}
			states = append(states, list.Data[0].State)
			sleep(5 * time.Second)
		}
		if d := cmp.Diff([]string{"activated", "deactivated", "activated", "deactivated"}, states); d != "" {
			t.Errorf("states (-want +got):\n%s", d)
		}
		if got := b.Status().Biz[0].State; got != StateActivated {
			t.Errorf("state of the module = %s", got)
		}
	})
}

// TestFlappingBase checks that only a fault with the name of the base changes the state of the base in its health.
func TestFlappingBase(t *testing.T) {
	for biz, want := range map[string]string{"": "ACTIVATED", "biz1": "ACTIVATED", "shop": "DEACTIVATED"} {
		synctest.Test(t, func(t *testing.T) {
			w, b := newConnectedBase(t, Options{Name: "shop"})
			id := inject(t, b, fault.Fault{Kind: fault.KindFlapping, Match: fault.Match{Biz: biz}})
			state := func() string {
				w.send(topic+"health", "{}")
				var health struct {
					Data struct {
						Data struct {
							HealthData struct{ MasterBizInfo struct{ BizState string } }
						}
					}
				}
				if err := json.Unmarshal(w.next("base/health"), &health); err != nil {
					t.Fatal(err)
				}
				return health.Data.Data.HealthData.MasterBizInfo.BizState
			}
			sleep(5 * time.Second)
			if got := state(); got != want {
				t.Errorf("fault for %q: the base is %s, want %s", biz, got, want)
			}
			b.Clear(id)
			if got := state(); got != "ACTIVATED" {
				t.Errorf("fault for %q was cleared: the base is %s", biz, got)
			}
		})
	}
}

func TestMetaspaceFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		id := inject(t, b, fault.Fault{Kind: fault.KindMetaspaceFull})
		w.send(topic+"installBiz", install1)
		response := w.data("base/bizOperation")["response"].(map[string]any)
		if got := response["errorCode"]; got != fault.CodeMetaspaceFull {
			t.Errorf("response to install = %v", got)
		}
		want := MetaspaceStatus{Used: 256 * mib, Committed: 256 * mib, Max: 256 * mib}
		if d := cmp.Diff(want, b.Status().Metaspace); d != "" {
			t.Errorf("metaspace (-want +got):\n%s", d)
		}
		b.Clear(id)
		w.send(topic+"installBiz", install1)
		if got := w.data("base/bizOperation")["response"].(map[string]any)["code"]; got != codeSuccess {
			t.Errorf("response to install after the fault = %v", got)
		}
	})
}

// TestErrorCodes triggers a fault with each error code, and checks the error code in the response.
func TestErrorCodes(t *testing.T) {
	for _, code := range fault.Codes() {
		runInBubble(t, code, func(t *testing.T) {
			w, b := newConnectedBase(t, Options{})
			w.send(topic+"installBiz", install1)
			w.next("base/bizOperation")
			w.send(topic+"installBiz", install2)
			w.next("base/bizOperation")
			id := inject(t, b, fault.Fault{Kind: fault.KindError, Code: code})
			command, request := "installBiz",
				`{"bizName":"biz1","bizVersion":"3","bizUrl":"http://h/z.jar","installStrategy":"uninstallThenInstall"}`
			switch errorSpecs[code].step {
			case stepFind, stepGuard, stepStop:
				command, request = "uninstallBiz", uninstall1
			case stepDispatch:
				w.send(topic+"health", "{}")
				synctest.Wait()
				if got := b.Faults()[0].Triggered; got != 1 {
					t.Errorf("%s was triggered %d times", id, got)
				}
				return // no response, as the transcripts show
			}
			w.send(topic+command, request)
			if got := w.data("base/bizOperation")["response"].(map[string]any)["errorCode"]; got != code {
				t.Errorf("errorCode = %v, want %s", got, code)
			}
		})
	}
}
