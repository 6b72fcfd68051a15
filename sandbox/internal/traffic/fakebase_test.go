package traffic

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// What a simulated base does, in the ledger's words.
func TestResultsOfSimulatedBases(t *testing.T) {
	slow := func(o *fakebase.Options) { o.Web = &fakebase.WebOptions{RequestDuration: time.Hour} }
	for name, c := range map[string]struct {
		options  func(*fakebase.Options)
		versions []string
		before   func(*testing.T, *fakebase.Base) // the stream
		within   func(*fakebase.Base)             // when the request is in work
		timeout  time.Duration
		want     Record
	}{
		"serves":        {want: Record{Result: OK, Status: 200, Version: "2.0"}},
		"wrong version": {versions: []string{"3.0"}, want: Record{Result: WrongVersion, Status: 200, Version: "2.0", Error: `version "2.0" answered`}},
		"no module": {
			options: func(o *fakebase.Options) { o.StaticBiz = nil },
			want:    Record{Result: NotFound, Status: 404, Error: "no active version of biz1"},
		},
		"starts": {
			options: func(o *fakebase.Options) { o.StartupTime = time.Hour },
			want:    Record{Result: Unavailable, Status: 503, Error: "the base is not ready"},
		},
		"down": {
			before: func(t *testing.T, b *fakebase.Base) {
				b.Crash()
				eventually(t, func() error {
					if b.Status().Running {
						return errors.New("the base still runs")
					}
					return nil
				})
			},
			want: Record{Result: Refused, Error: "connection refused"},
		},
		"refuses": {
			before: func(t *testing.T, b *fakebase.Base) {
				if _, err := b.Inject(fault.Fault{Kind: fault.KindWebRefuse}); err != nil {
					t.Fatal(err)
				}
			},
			want: Record{Result: Refused, Error: "connection refused"},
		},
		"crashes in mid-request": {
			options: slow, within: (*fakebase.Base).Crash, // by a reset or by an early end, as it comes
			want: Record{Result: Reset},
		},
		"hangs": {options: slow, timeout: 50 * time.Millisecond, want: Record{Result: Timeout, Error: "no complete answer in time"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const jar = "https://example.com/biz1-2.0-ark-biz.jar"
			o := fakebase.Options{
				Identity: "id", HostName: "run-base-1", IP: "198.18.0.1", StaticBiz: []string{jar},
				Catalogue: &fakebase.Catalogue{Fetch: fakebase.FetchNever, Modules: []fakebase.Module{{URL: jar, Name: "biz1", Version: "2.0"}}},
			}
			if c.options != nil {
				c.options(&o)
			}
			b, err := fakebase.New(o)
			if err != nil {
				t.Fatal(err)
			}
			run(t, b.Start)
			eventually(t, func() error {
				if s := b.Status(); !s.Running || !s.Ready && o.StartupTime == 0 {
					return errors.New("the base does not run")
				}
				return nil
			})
			web, err := b.WebAddr(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.before != nil {
				c.before(t, b)
			}
			r := newRig(t)
			r.bases.set(Target{IP: "198.18.0.1", Base: "base-1", Host: "run-base-1", Web: web})
			if c.timeout == 0 {
				c.timeout = patience
			}
			if err := r.generator.Begin(t.Context(), "g", spec("s", 1000, 1, timeout(c.timeout), func(s *Spec) { s.Versions = c.versions })); err != nil {
				t.Fatal(err)
			}
			if c.within != nil {
				eventually(t, func() error {
					if b.Status().Requests == 0 {
						return errors.New("no request is in work")
					}
					return nil
				})
				c.within(b)
			}
			end := r.finish(t, "s")
			if d := cmp.Diff(map[Result]int{c.want.Result: 1}, end.Results); d != "" {
				t.Errorf("results (-want +got):\n%s", d)
			}
			records, err := r.generator.Records("g", "s")
			if err != nil {
				t.Fatal(err)
			}
			c.want.Seq, c.want.Endpoint, c.want.Base = 1, "198.18.0.1", "base-1"
			for got := range records {
				got.Due, got.Sent, got.Done = time.Time{}, time.Time{}, time.Time{}
				if c.within != nil {
					got.Error = ""
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Errorf("record (-want +got):\n%s", d)
				}
			}
		})
	}
}
