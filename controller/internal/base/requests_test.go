package base

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// fakeTunnel is a tunnel that passes every request to a function.
type fakeTunnel struct {
	key  tunnel.Key
	sent func(tunnel.Address, arklet.Request) error
}

func (f *fakeTunnel) Key() tunnel.Key { return f.key }
func (f *fakeTunnel) Send(_ context.Context, to tunnel.Address, r arklet.Request) error {
	return f.sent(to, r)
}

func newDialog(sent func(d *RequestTracker, r arklet.Request) error) *RequestTracker {
	r := NewRegistry(Options{})
	_, _ = r.HandleHeartbeat(overMQTT("a"), beat("1.0.0"))
	d := NewRequestTracker(r)
	d.AddTunnel(&fakeTunnel{tunnel.MQTT, func(_ tunnel.Address, r arklet.Request) error { return sent(d, r) }})
	return d
}

func TestDo(t *testing.T) {
	m := arklet.Module{Name: "biz1", Version: "1", URL: "file:///biz1.jar"}
	install := arklet.Request{Command: arklet.CommandInstallBiz, Module: m}
	answer := func(name, version string) arklet.Answer {
		return arklet.Answer{Command: arklet.CommandInstallBiz, Module: arklet.Module{Name: name, Version: version},
			Code: "SUCCESS"}
	}
	cases := []struct {
		name    string
		answers []arklet.Answer
		want    arklet.Answer
		err     error
	}{
		{"its own answer", []arklet.Answer{answer("biz1", "1")}, answer("biz1", "1"), nil},
		{"answers about others are passed over",
			[]arklet.Answer{answer("biz1", "2"), answer("biz2", "1"), answer("biz1", "1")}, answer("biz1", "1"), nil},
		{"a duplicate does no harm", []arklet.Answer{answer("biz1", "1"), answer("biz1", "1")}, answer("biz1", "1"),
			nil},
		{"generations A and B leave the module out", []arklet.Answer{answer("", "")}, answer("", ""), nil},
		{"no answer", nil, arklet.Answer{}, ErrNoAnswer},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDialog(func(d *RequestTracker, r arklet.Request) error {
					if diff := cmp.Diff(install, r); diff != "" {
						t.Errorf("request (-want +got):\n%s", diff)
					}
					for _, a := range c.answers {
						d.HandleAnswer("a", a)
					}
					return nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), resendDelay/2)
				defer cancel()
				got, err := d.Do(ctx, "a", install, nil)
				if !errors.Is(err, c.err) {
					t.Fatalf("error %v, want %v", err, c.err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				if len(d.waiting) != 0 {
					t.Errorf("%d pending requests are left", len(d.waiting))
				}
			})
		})
	}
	t.Run("an unknown base", func(t *testing.T) {
		d := newDialog(func(*RequestTracker, arklet.Request) error { return nil })
		if _, err := d.Do(t.Context(), "b", install, nil); !errors.Is(err, ErrUnknownBase) {
			t.Errorf("error %v, want ErrUnknownBase", err)
		}
	})
	t.Run("no caller waits", func(t *testing.T) {
		d := newDialog(func(*RequestTracker, arklet.Request) error { return nil })
		if d.HandleAnswer("a", answer("biz1", "1")) {
			t.Error("an answer without a request was accepted")
		}
	})
}

// TestFailPendingAndFailTunnel checks that FailPending fails only the pending calls for one base, and FailTunnel only
// the pending calls for the bases of one tunnel.
func TestFailPendingAndFailTunnel(t *testing.T) {
	install := func(name string) arklet.Request {
		return arklet.Request{Command: arklet.CommandInstallBiz, Module: arklet.Module{Name: name, Version: "1"}}
	}
	for name, c := range map[string]struct {
		lose func(*RequestTracker)
		want error
	}{
		"of this base":    {func(d *RequestTracker) { d.FailPending("a", "it has restarted") }, ErrNoAnswer},
		"of another base": {func(d *RequestTracker) { d.FailPending("b", "it has restarted") }, nil},
		"of all bases of a tunnel": {func(d *RequestTracker) { d.FailTunnel(tunnel.MQTT, "the broker was away") },
			ErrNoAnswer},
		"of another tunnel": {func(d *RequestTracker) { d.FailTunnel(tunnel.HTTP, "nobody listens") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDialog(func(d *RequestTracker, r arklet.Request) error {
				c.lose(d)
				d.HandleAnswer("a", arklet.Answer{Command: r.Command, Module: r.Module, Code: "SUCCESS"})
				return nil
			})
			if _, err := d.Do(t.Context(), "a", install("biz1"), nil); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestModulesReturnsListNotOlderThanRequested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		d := newDialog(func(d *RequestTracker, _ arklet.Request) error {
			sent++
			say := func(ms int64, list ...arklet.Biz) {
				d.registry.SetModules(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a", At: time.UnixMilli(ms)}, list)
			}
			if sent == 1 { // the list of an earlier query, older than the install
				say(100)
				return nil
			}
			say(300, biz("biz1", "1", arklet.StateActivated))
			return nil
		})
		s, err := d.Modules(t.Context(), "a", time.UnixMilli(200))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]arklet.Biz{biz("biz1", "1", arklet.StateActivated)}, s.Modules); diff != "" {
			t.Errorf("modules (-want +got):\n%s", diff)
		}
		if sent != 2 {
			t.Errorf("%d queries, want 2", sent)
		}
	})
}

func TestModulesReturnsErrNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDialog(func(*RequestTracker, arklet.Request) error { return nil })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := d.Modules(ctx, "a", time.Time{}); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("error %v, want ErrNoAnswer", err)
		}
	})
}

func TestDoWithoutAnswer(t *testing.T) {
	install := arklet.Request{Command: arklet.CommandInstallBiz, Module: arklet.Module{Name: "biz1", Version: "1"}}
	reset := errors.New("connection reset")
	for name, c := range map[string]struct {
		said         error
		is, isNot    error
		otherRequest arklet.Request
	}{
		"refused":   {said: tunnel.ErrRefused, is: tunnel.ErrRefused, isNot: ErrNoAnswer},
		"timed out": {said: tunnel.ErrTimedOut, is: ErrNoAnswer, isNot: tunnel.ErrRefused},
		"reset":     {said: reset, is: reset, isNot: ErrNoAnswer},
		"errors of other requests are ignored": {is: ErrNoAnswer, isNot: tunnel.ErrRefused,
			otherRequest: arklet.Request{Command: arklet.CommandUninstallBiz, Module: install.Module}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDialog(func(d *RequestTracker, r arklet.Request) error {
					if c.said == nil {
						if d.HandleNoAnswer("a", c.otherRequest, tunnel.ErrRefused) {
							t.Error("a call waited for the answer to another request")
						}
						return nil
					}
					if !d.HandleNoAnswer("a", r, c.said) {
						t.Error("no call waited")
					}
					return nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				if _, err := d.Do(ctx, "a", install, nil); !errors.Is(err, c.is) || errors.Is(err, c.isNot) {
					t.Errorf("error %v, want %v and not %v", err, c.is, c.isNot)
				}
				if took := time.Since(began); c.said != nil && took != 0 {
					t.Errorf("waited %s although there will be no answer", took)
				}
			})
		})
	}
}

func TestHealth(t *testing.T) {
	fresh := arklet.Health{RunTime: time.Second, MetaspaceMax: arklet.Unlimited}
	reset := errors.New("connection reset")
	for name, c := range map[string]struct {
		sent func(*RequestTracker) error
		want arklet.Health
		err  error
	}{
		"the next document": {
			func(d *RequestTracker) error {
				d.HandleHealth("b", arklet.Health{})
				d.HandleHealth("a", fresh)
				return nil
			}, fresh,
			nil},
		"error of the tunnel": {func(d *RequestTracker) error {
			d.HandleNoAnswer("a", arklet.Request{Command: arklet.CommandHealth}, reset)
			return nil
		}, arklet.Health{}, reset},
		"not sent": {func(*RequestTracker) error { return tunnel.ErrNotSupported }, arklet.Health{},
			tunnel.ErrNotSupported},
		"no answer": {func(*RequestTracker) error { return nil }, arklet.Health{}, ErrNoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDialog(func(d *RequestTracker, _ arklet.Request) error { return c.sent(d) })
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				got, err := d.Health(ctx, "a")
				if !errors.Is(err, c.err) {
					t.Errorf("error %v, want %v", err, c.err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("health (-want +got):\n%s", diff)
				}
				if len(d.listening) != 0 {
					t.Errorf("%d listeners are left", len(d.listening))
				}
			})
		})
	}
}

func TestModulesWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := []error{errors.New("connection reset"), tunnel.ErrRefused}
		d := newDialog(func(d *RequestTracker, r arklet.Request) error {
			d.HandleNoAnswer("a", r, said[0])
			said = said[1:]
			return nil
		})
		began := time.Now()
		if _, err := d.Modules(t.Context(), "a", time.Time{}); !errors.Is(err, tunnel.ErrRefused) {
			t.Errorf("error %v, want ErrRefused", err)
		}
		if took := time.Since(began); took != resendList {
			t.Errorf("returned after %s, want one more attempt after %s", took, resendList)
		}
	})
}

// TestListShowsResultOfRequest checks that a request without an answer succeeds if module lists show its result for
// some seconds.
func TestListShowsResultOfRequest(t *testing.T) {
	const installed, kept, going = arklet.StateActivated, arklet.StateDeactivated, arklet.StateResolved
	for name, c := range map[string]struct {
		command arklet.Command
		before  arklet.State   // state before the request; empty if not listed
		lists   []arklet.State // states in the module lists, one list every two seconds
		want    time.Duration  // time until the request succeeds; 0 means ErrNoAnswer
	}{
		"installed": {arklet.CommandInstallBiz, "",
			[]arklet.State{going, installed, installed, installed, installed}, 10 * time.Second},
		"installed, and kept deactivated": {arklet.CommandInstallBiz, "", []arklet.State{kept, kept, kept, kept},
			8 * time.Second},
		"to be installed again": {arklet.CommandInstallBiz, kept,
			[]arklet.State{kept, kept, kept, kept, kept}, 0},
		"being installed": {arklet.CommandInstallBiz, "",
			[]arklet.State{going, going, going, going, going}, 0},
		"not installed": {arklet.CommandInstallBiz, "", []arklet.State{"", "", "", "", ""}, 0},
		"installed for a moment only": {arklet.CommandInstallBiz, "",
			[]arklet.State{installed, installed, installed, "", installed}, 0},
		"uninstalled": {arklet.CommandUninstallBiz, installed, []arklet.State{"", "", "", ""},
			8 * time.Second},
		"not uninstalled": {arklet.CommandUninstallBiz, installed,
			[]arklet.State{kept, kept, kept, kept}, 0},
		"switched": {arklet.CommandSwitchBiz, kept,
			[]arklet.State{installed, installed, installed, installed}, 8 * time.Second},
		"not switched": {arklet.CommandSwitchBiz, kept, []arklet.State{kept, kept, kept, kept},
			0},
		"a list that comes before an answer": {arklet.CommandInstallBiz, "",
			[]arklet.State{installed, installed, installed}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDialog(func(*RequestTracker, arklet.Request) error { return nil })
				m := arklet.Module{Name: "biz1", Version: "1"}
				list := func(s arklet.State) {
					all := []arklet.Biz{biz("other", "1", arklet.StateActivated)}
					if s != "" {
						all = append(all, biz(m.Name, m.Version, s))
					}
					d.registry.SetModules(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a", At: time.Now()}, all)
					d.HandleList("a")
				}
				list(c.before)
				for i, s := range c.lists {
					time.AfterFunc(time.Duration(i+1)*2*time.Second, func() { list(s) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				got, err := d.Do(ctx, "a", arklet.Request{Command: c.command, Module: m}, nil)
				if c.want == 0 {
					if !errors.Is(err, ErrNoAnswer) {
						t.Errorf("answer %+v, error %v, want ErrNoAnswer", got, err)
					}
					return
				}
				if err != nil || !got.Succeeded() || got.Module != m || got.PublishedAt != time.Now() {
					t.Errorf("answer %+v, error %v", got, err)
				}
				if took := time.Since(start); took != c.want {
					t.Errorf("Do returned after %v, want %v", took, c.want)
				}
			})
		})
	}
}

// TestDelayedListDoesNotCauseResend checks that a module list that is older than the request, because it was delayed,
// does not cause a resend.
func TestDelayedListDoesNotCauseResend(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} { // clock of the base
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var sent []time.Duration
			d := newDialog(func(_ *RequestTracker, r arklet.Request) error {
				if r.Command == arklet.CommandInstallBiz {
					sent = append(sent, time.Since(start))
				}
				return nil
			})
			list := func(made time.Duration) {
				d.registry.SetModules(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a", At: start.Add(ahead + made)},
					[]arklet.Biz{biz("other", "1", arklet.StateActivated)})
				d.HandleList("a")
			}
			list(0)
			for after, made := range map[time.Duration]time.Duration{11: 5, 12: 9, 13: 13, 15: 15} {
				time.AfterFunc(after*time.Second, func() { list(made * time.Second) })
			}
			ctx, cancel := context.WithTimeout(t.Context(), 17*time.Second)
			defer cancel()
			if _, err := d.Do(ctx, "a",
				arklet.Request{Command: arklet.CommandInstallBiz, Module: arklet.Module{Name: "biz1", Version: "1"}},
				nil); !errors.Is(err, ErrNoAnswer) {
				t.Error(err)
			}
			if diff := cmp.Diff([]time.Duration{0, 15 * time.Second}, sent); diff != "" {
				t.Errorf("clock ahead by %v: sent at (-want +got):\n%s", ahead, diff)
			}
		})
	}
}

// TestLostRequestIsResent checks that a lost request is resent if module lists do not show it, but not while the base
// executes it. If the base rejects the resent request because it is already executing the command, this answer must
// be ignored.
func TestLostRequestIsResent(t *testing.T) {
	const none, going = arklet.State(""), arklet.StateResolved
	m := arklet.Module{Name: "biz1", Version: "1"}
	success := arklet.Answer{Command: arklet.CommandInstallBiz, Module: m, Code: arklet.CodeSuccess}
	conflict := arklet.Answer{Command: arklet.CommandInstallBiz, Module: m, Code: "FAILED",
		Message: "FAILED:biz1:1 installBiz conflict, exist unfinished command(installBiz) for this biz"}
	other := conflict
	other.Message = "FAILED:biz1:1 installBiz conflict, exist unfinished command(uninstallBiz) for this biz"
	seconds := func(all ...int) (at []time.Duration) {
		for _, s := range all {
			at = append(at, time.Duration(s)*time.Second)
		}
		return at
	}
	for name, c := range map[string]struct {
		tunnel  tunnel.Key
		list    arklet.State                    // state of the module in the module lists
		answers map[int][]arklet.Answer         // answers by number of the sent request, from 0
		later   map[time.Duration]arklet.Answer // answers by delay after the first request
		mute    bool                            // whether sending fails after the first request
		sent    []time.Duration
		want    arklet.Answer // expected answer; zero means no answer within a minute
	}{
		"it got lost": {tunnel.MQTT, none, map[int][]arklet.Answer{1: {success}}, nil, false,
			seconds(0, 11), success},
		"it got lost, and failed": {tunnel.MQTT, none, map[int][]arklet.Answer{1: {other}}, nil, false,
			seconds(0, 11), other},
		"it is under way": {tunnel.MQTT, none, map[int][]arklet.Answer{1: {conflict}},
			map[time.Duration]arklet.Answer{25 * time.Second: success}, false, seconds(0, 11), success},
		"the command of another client is in progress": {tunnel.MQTT, none, map[int][]arklet.Answer{0: {conflict}}, nil,
			false, seconds(0), conflict},
		"a list shows that it is under way": {tunnel.MQTT, going, nil, nil, false, seconds(0), arklet.Answer{}},
		"the base does not answer": {tunnel.MQTT, none, nil, nil, false, seconds(0, 11, 32),
			arklet.Answer{}},
		"the controller may not act for a while": {tunnel.MQTT, none, nil,
			map[time.Duration]arklet.Answer{25 * time.Second: success}, true, seconds(0), success},
		"over HTTP": {tunnel.HTTP, none, nil, nil, false, seconds(0), arklet.Answer{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := NewRegistry(Options{})
				origin := tunnel.Origin{Tunnel: c.tunnel, Identity: "a"}
				_, _ = r.HandleHeartbeat(origin, beat("1.0.0"))
				d := NewRequestTracker(r)
				start := time.Now()
				var sent []time.Duration
				d.AddTunnel(&fakeTunnel{c.tunnel, func(_ tunnel.Address, q arklet.Request) error {
					if c.mute && len(sent) > 0 {
						return errors.New("not now")
					}
					if q.Command == arklet.CommandQueryAllBiz {
						all := []arklet.Biz{biz("other", "1", arklet.StateActivated)}
						if c.list != none {
							all = append(all, biz(m.Name, m.Version, c.list))
						}
						origin.At = time.Now()
						r.SetModules(origin, all)
						d.HandleList("a")
						return nil
					}
					for _, a := range c.answers[len(sent)] {
						d.HandleAnswer("a", a)
					}
					sent = append(sent, time.Since(start))
					return nil
				}})
				for after, a := range c.later {
					time.AfterFunc(after, func() { d.HandleAnswer("a", a) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				got, err := d.Do(ctx, "a", arklet.Request{Command: arklet.CommandInstallBiz, Module: m}, nil)
				if (err != nil) != (c.want == arklet.Answer{}) || err != nil && !errors.Is(err, ErrNoAnswer) ||
					got != c.want {
					t.Errorf("answer %+v, error %v, want %+v", got, err, c.want)
				}
				if diff := cmp.Diff(c.sent, sent); diff != "" {
					t.Errorf("sent at (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestResendDeclined checks that a lost request is not resent if the callback of Do returns false.
func TestResendDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry(Options{})
		origin := tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a"}
		_, _ = r.HandleHeartbeat(origin, beat("1.0.0"))
		list := []arklet.Biz{biz("biz", "1", arklet.StateActivated)}
		r.SetModules(origin, list)
		d := NewRequestTracker(r)
		start := time.Now()
		var sent []time.Duration
		d.AddTunnel(&fakeTunnel{tunnel.MQTT, func(_ tunnel.Address, q arklet.Request) error {
			if q.Command != arklet.CommandQueryAllBiz {
				sent = append(sent, time.Since(start))
				return nil
			}
			origin.At = time.Now()
			r.SetModules(origin, list)
			d.HandleList("a")
			return nil
		}})
		asked := 0
		_, err := d.Do(t.Context(), "a",
			arklet.Request{Command: arklet.CommandUninstallBiz, Module: arklet.Module{Name: "biz", Version: "1"}},
			func() bool {
				asked++
				return asked < 2
			})
		if !errors.Is(err, ErrResendDeclined) {
			t.Errorf("Do returned %v", err)
		}
		if diff := cmp.Diff([]time.Duration{0, 11 * time.Second}, sent); diff != "" {
			t.Errorf("sent at (-want +got):\n%s", diff)
		}
	})
}

// TestRequestIsResentAfterTwoLists checks that a request is resent only after two module lists do not show it. The
// base may have made one of the lists before it handled the request, and a list may be lost.
func TestRequestIsResentAfterTwoLists(t *testing.T) {
	const lost = arklet.State("lost")
	m := arklet.Module{Name: "biz1", Version: "1"}
	for name, c := range map[string]struct {
		lists []arklet.State // states in the module lists, in this order; the last one repeats
		sent  []time.Duration
		took  time.Duration // time until Do returns; zero means no answer within a minute
	}{
		"the first overtakes the request": {[]arklet.State{"", arklet.StateActivated}, []time.Duration{0},
			resendDelay + relistDelay + answerDelay},
		"the first gets lost": {[]arklet.State{lost, arklet.StateActivated}, []time.Duration{0},
			2*resendDelay + answerDelay},
		"the second gets lost": {[]arklet.State{"", lost, "", lost}, []time.Duration{0, 2*resendDelay + relistDelay},
			0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, asked := time.Now(), 0
				var sent []time.Duration
				d := newDialog(func(d *RequestTracker, r arklet.Request) error {
					if r.Command != arklet.CommandQueryAllBiz {
						sent = append(sent, time.Since(start))
						return nil
					}
					shows := c.lists[min(asked, len(c.lists)-1)]
					asked++
					if shows == lost {
						return nil
					}
					all := []arklet.Biz{biz("other", "1", arklet.StateActivated)}
					if shows != "" {
						all = append(all, biz(m.Name, m.Version, shows))
					}
					d.registry.SetModules(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a", At: time.Now()}, all)
					d.HandleList("a")
					return nil
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := d.Do(ctx, "a", arklet.Request{Command: arklet.CommandInstallBiz, Module: m}, nil)
				if took := time.Since(start); (err == nil) != (c.took > 0) || err == nil && took != c.took {
					t.Errorf("error %v after %v, want an answer after %v", err, took, c.took)
				}
				if diff := cmp.Diff(c.sent, sent); diff != "" {
					t.Errorf("sent at (-want +got):\n%s", diff)
				}
			})
		})
	}
}
