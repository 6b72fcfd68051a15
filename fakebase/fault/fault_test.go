package fault

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
		{"names that do not occur", `{"kind":"error","code":"User.DiskFull","match":{"commands":["installBiz","instalBiz"]}}`, []string{`match.commands "instalBiz": unknown, use one of batchInstallBiz, health,`}},
		{"messages that do not occur", `{"kind":"corrupt","match":{"messages":["heart","hearts"]}}`, []string{`match.messages "hearts": unknown, use one of batchInstallBizResponse, biz,`}},
		{"what holds does not fire", `{"kind":"webRefuse","mayNotFire":true}`, []string{"mayNotFire: has no meaning for kind webRefuse"}},
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
	extra := map[Kind]func(*Fault){
		KindError:     func(f *Fault) { f.Code = CodeDiskFull },
		KindLatency:   func(f *Fault) { f.Delay.Min = Duration(time.Second) },
		KindSlowLink:  func(f *Fault) { f.Delay.Min = Duration(time.Second) },
		KindDelay:     func(f *Fault) { f.Delay.Min = Duration(time.Second) },
		KindClockSkew: func(f *Fault) { f.Skew = Duration(-time.Minute) },
	}
	for _, kind := range Kinds() {
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

func TestDurationText(t *testing.T) {
	var d Duration
	if err := json.Unmarshal([]byte(`"1.5s"`), &d); err != nil || time.Duration(d) != 1500*time.Millisecond {
		t.Errorf("%v %v", d, err)
	}
	if err := json.Unmarshal([]byte(`"soon"`), &d); err == nil || !strings.Contains(err.Error(), "soon") {
		t.Errorf("soon: %v", err)
	}
	if text, err := json.Marshal(Duration(time.Minute)); err != nil || string(text) != `"1m0s"` {
		t.Errorf("%s %v, want 1m0s", text, err)
	}
}

func strict(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
