package fakebase

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestValidateReportsEverything(t *testing.T) {
	tests := []struct {
		name  string
		fault string
		want  []string
	}{
		{"unknown kind", `{"kind":"gremlin"}`, []string{`kind "gremlin": unknown, use one of actuatorDown, clockSkew,`}},
		{"unknown code", `{"kind":"error","code":"Arklet.Nope"}`, []string{`code "Arklet.Nope": unknown, use one of Arklet.InstallBizExecuting,`}},
		{"error without code", `{"kind":"error"}`, []string{`code "": unknown`}},
		{"fields of other kinds", `{"kind":"silent","code":"User.DiskFull","message":"x","delay":{"min":"1s"},"period":"1s","skew":"1s","restart":{},"match":{"commands":["health"],"biz":"a","version":"1","messages":["heart"]}}`,
			[]string{"delay: has no meaning for kind silent", "match.commands: has", "match.messages: has", "match.biz: has", "match.version: has", "code: has", "message: has", "period: has", "skew: has", "restart: has"}},
		{"state faults do not count", `{"kind":"webRefuse","count":1,"probability":0.5}`, []string{"count: has no meaning", "probability: has no meaning"}},
		{"required", `{"kind":"latency"}`, []string{"delay: is required for kind latency"}},
		{"required skew", `{"kind":"clockSkew"}`, []string{"skew: is required"}},
		{"out of range", `{"kind":"hang","count":-1,"probability":1.5,"for":"-1s"}`, []string{"count -1: must not be negative", "probability 1.5: must be between 0 and 1", "a time must not be negative"}},
		{"negative delay", `{"kind":"latency","delay":{"min":"-1s"}}`, []string{"delay: a time must not be negative"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f Fault
			if err := strict(tt.fault, &f); err != nil {
				t.Fatal(err)
			}
			err := f.Validate()
			if err == nil {
				t.Fatal("valid")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if lines := strings.Count(err.Error(), "\n") + 1; lines != len(tt.want) {
				t.Errorf("%d problems reported, want %d:\n%v", lines, len(tt.want), err)
			}
		})
	}
}

func TestEveryKindHasAValidForm(t *testing.T) {
	extra := map[FaultKind]func(*Fault){
		FaultError:     func(f *Fault) { f.Code = CodeDiskFull },
		FaultLatency:   func(f *Fault) { f.Delay.Min = Duration(time.Second) },
		FaultSlowLink:  func(f *Fault) { f.Delay.Min = Duration(time.Second) },
		FaultDelay:     func(f *Fault) { f.Delay.Min = Duration(time.Second) },
		FaultClockSkew: func(f *Fault) { f.Skew = Duration(-time.Minute) },
	}
	for _, kind := range FaultKinds() {
		f := Fault{Kind: kind, ID: "x", For: Duration(time.Minute)}
		if set := extra[kind]; set != nil {
			set(&f)
		}
		if err := f.Validate(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		raw, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var back Fault
		if err := strict(string(raw), &back); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if d := cmp.Diff(f, back); d != "" {
			t.Errorf("%s does not survive JSON (-want +got):\n%s", kind, d)
		}
	}
}

func TestCountProbabilityAndSeed(t *testing.T) {
	hits := func(f Fault, n int) (pattern string) {
		s := faultSet{seed: 42}
		if _, err := s.add(f); err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, hit := s.fire(f.Kind, subject{command: cmdHealth}); hit {
				pattern += "x"
			} else {
				pattern += "."
			}
		}
		return pattern
	}
	if got := hits(Fault{Kind: FaultHang, Count: 2}, 5); got != "xx..." {
		t.Errorf("count 2: %s", got)
	}
	half := Fault{Kind: FaultHang, Probability: 0.5, Seed: 7}
	first := hits(half, 200)
	if n := strings.Count(first, "x"); n < 70 || n > 130 {
		t.Errorf("probability 0.5 hit %d of 200", n)
	}
	if second := hits(half, 200); first != second {
		t.Errorf("the same seed gave\n%s and\n%s", first, second)
	}
	half.Seed = 8
	if other := hits(half, 200); first == other {
		t.Error("another seed gave the same")
	}
	if got := hits(Fault{Kind: FaultHang, Match: Match{Commands: []string{cmdInstall}}}, 3); got != "..." {
		t.Errorf("another command: %s", got)
	}
}

func TestInjectClearAndExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, Options{Identity: "b1"})
		id, err := b.Inject(Fault{Kind: FaultSilent})
		if err != nil || id == "" {
			t.Fatal(id, err)
		}
		if _, err := b.Inject(Fault{Kind: FaultSilent, ID: id}); err == nil || !strings.Contains(err.Error(), "clear it first") {
			t.Errorf("the same id twice: %v", err)
		}
		if _, err := b.Inject(Fault{Kind: FaultDeaf, ID: "short", For: Duration(time.Minute)}); err != nil {
			t.Fatal(err)
		}
		pass(59 * time.Second)
		synctest.Wait()
		if n := len(b.Faults()); n != 2 {
			t.Errorf("%d faults before the expiry", n)
		}
		pass(time.Second)
		synctest.Wait()
		want := []FaultStatus{{Fault: Fault{ID: id, Kind: FaultSilent, Probability: 1}}}
		if d := cmp.Diff(want, b.Faults(), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("faults after the expiry (-want +got):\n%s", d)
		}
		if n := b.Clear("nobody"); n != 0 {
			t.Errorf("%d cleared by an unknown id", n)
		}
		if n := b.Clear(); n != 1 || len(b.Faults()) != 0 {
			t.Errorf("%d cleared, %d left", n, len(b.Faults()))
		}
	})
}
