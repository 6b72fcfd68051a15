package fault

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestValidateReportsEverything(t *testing.T) {
	tests := []struct {
		name  string
		fault string
		cause error
		want  []string // for each problem: texts in the error, separated by |
	}{
		{"unknown kind", `{"kind":"gremlin"}`, errUnknown, []string{`kind "gremlin"|actuatorDown, clockSkew,`}},
		{"unknown code", `{"kind":"error","code":"Arklet.Nope"}`, errUnknown,
			[]string{`code "Arklet.Nope"|Arklet.InstallBizExecuting,`}},
		{"error without code", `{"kind":"error"}`, errUnknown, []string{`code ""`}},
		{"fields of other kinds",
			`{"kind":"silent","code":"User.DiskFull","message":"x","delay":{"min":"1s"},"period":"1s","skew":"1s","restart":{},"match":{"commands":["health"],"biz":"a","version":"1","messages":["heart"]}}`,
			errNoMeaning, strings.Fields(
				"delay:|silent match.commands: match.messages: match.biz: match.version: code: message: period: " +
					"skew: restart:")},
		{"state faults do not count", `{"kind":"webRefuse","count":1,"probability":0.5}`, errNoMeaning,
			[]string{"count:", "probability:"}},
		{"required", `{"kind":"latency"}`, errRequired, []string{"delay:|latency"}},
		{"required skew", `{"kind":"clockSkew"}`, errRequired, []string{"skew:"}},
		{"negative count", `{"kind":"hang","count":-1}`, errNegative, []string{"count -1"}},
		{"out of range", `{"kind":"hang","probability":1.5,"for":"-1s"}`, errNegative,
			[]string{"probability 1.5|0 and 1", "for, period"}},
		{"names that do not occur",
			`{"kind":"error","code":"User.DiskFull","match":{"commands":["installBiz","instalBiz"]}}`, errUnknown,
			[]string{`match.commands "instalBiz"|batchInstallBiz, health,`}},
		{"messages that do not occur", `{"kind":"corrupt","match":{"messages":["heart","hearts"]}}`, errUnknown,
			[]string{`match.messages "hearts"|batchInstallBizResponse, biz,`}},
		{"what holds does not fire", `{"kind":"webRefuse","mayNotFire":true}`, errNoMeaning, []string{"mayNotFire:"}},
		{"negative delay", `{"kind":"latency","delay":{"min":"-1s"}}`, errNegative, []string{"delay:"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f Fault
			if err := strict(tt.fault, &f); err != nil {
				t.Fatal(err)
			}
			err := f.Validate()
			if !errors.Is(err, tt.cause) {
				t.Fatalf("error %v, want %v", err, tt.cause)
			}
			for want := range strings.SplitSeq(strings.Join(tt.want, "|"), "|") {
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
