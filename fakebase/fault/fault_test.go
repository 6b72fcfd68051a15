package fault

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestValidateReportsAllErrors(t *testing.T) {
	tests := []struct {
		name  string
		fault string
		cause error
		want  []string // for each expected error, the substrings of its message, separated by |
	}{
		{"unknown kind", `{"kind":"gremlin"}`, errUnknown, []string{`kind "gremlin"|actuatorDown, clockSkew,`}},
		{"unknown code", `{"kind":"error","code":"Arklet.Nope"}`, errUnknown,
			[]string{`code "Arklet.Nope"|Arklet.InstallBizExecuting,`}},
		{"error without code", `{"kind":"error"}`, errUnknown, []string{`code ""`}},
		{"unsupported fields",
			`{"kind":"silent","code":"User.DiskFull","message":"x","delay":{"min":"1s"},"period":"1s","skew":"1s","restart":{},"match":{"commands":["health"],"biz":"a","version":"1","messages":["heart"]}}`,
			errUnsupported, strings.Fields(
				"delay:|silent match.commands: match.messages: match.biz: match.version: code: message: period: " +
					"skew: restart:")},
		{"count of a state fault", `{"kind":"webRefuse","count":1,"probability":0.5}`, errUnsupported,
			[]string{"count:", "probability:"}},
		{"missing delay", `{"kind":"latency"}`, errRequired, []string{"delay:|latency"}},
		{"missing skew", `{"kind":"clockSkew"}`, errRequired, []string{"skew:"}},
		{"negative count", `{"kind":"hang","count":-1}`, errNegative, []string{"count -1"}},
		{"negative skip", `{"kind":"hang","skip":-2}`, errNegative, []string{"skip -2"}},
		{"out of range", `{"kind":"hang","probability":1.5,"for":"-1s"}`, errNegative,
			[]string{"probability 1.5|0 and 1", "for, period"}},
		{"unknown command",
			`{"kind":"error","code":"User.DiskFull","match":{"commands":["installBiz","instalBiz"]}}`, errUnknown,
			[]string{`match.commands "instalBiz"|batchInstallBiz, health,`}},
		{"unknown message", `{"kind":"corrupt","match":{"messages":["heart","hearts"]}}`, errUnknown,
			[]string{`match.messages "hearts"|batchInstallBizResponse, biz,`}},
		{"mayNotFire of a state fault", `{"kind":"webRefuse","mayNotFire":true}`, errUnsupported,
			[]string{"mayNotFire:"}},
		{"negative delay", `{"kind":"latency","delay":{"min":"-1s"}}`, errNegative, []string{"delay:"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f Fault
			if err := decodeStrict(tt.fault, &f); err != nil {
				t.Fatal(err)
			}
			err := f.Validate()
			if !errors.Is(err, tt.cause) {
				t.Fatalf("Validate() = %v, want %v", err, tt.cause)
			}
			for want := range strings.SplitSeq(strings.Join(tt.want, "|"), "|") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Validate() = %q, want the text %q", err, want)
				}
			}
			if lines := strings.Count(err.Error(), "\n") + 1; lines != len(tt.want) {
				t.Errorf("Validate() returned %d errors, want %d:\n%v", lines, len(tt.want), err)
			}
		})
	}
}

func TestKindsRoundTripAsJSON(t *testing.T) {
	setRequired := map[Kind]func(*Fault){
		KindError:     func(f *Fault) { f.Code = CodeDiskFull },
		KindLatency:   func(f *Fault) { f.Delay.Min = Duration(time.Second) },
		KindSlowLink:  func(f *Fault) { f.Delay.Min = Duration(time.Second) },
		KindDelay:     func(f *Fault) { f.Delay.Min = Duration(time.Second) },
		KindClockSkew: func(f *Fault) { f.Skew = Duration(-time.Minute) },
	}
	for _, kind := range Kinds() {
		f := Fault{Kind: kind, ID: "x", For: Duration(time.Minute)}
		if set := setRequired[kind]; set != nil {
			set(&f)
		}
		if err := f.Validate(); err != nil {
			t.Errorf("Validate() of kind %s = %v", kind, err)
		}
		raw, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var decoded Fault
		if err := decodeStrict(string(raw), &decoded); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if d := cmp.Diff(f, decoded); d != "" {
			t.Errorf("kind %s after encoding and decoding (-want +got):\n%s", kind, d)
		}
	}
}

func TestDurationText(t *testing.T) {
	var d Duration
	if err := json.Unmarshal([]byte(`"1.5s"`), &d); err != nil || time.Duration(d) != 1500*time.Millisecond {
		t.Errorf("Unmarshal(1.5s) = %v, %v", d, err)
	}
	if err := json.Unmarshal([]byte(`"soon"`), &d); err == nil || !strings.Contains(err.Error(), "soon") {
		t.Errorf("Unmarshal(soon) = %v, want an error with the value", err)
	}
	if text, err := json.Marshal(Duration(time.Minute)); err != nil || string(text) != `"1m0s"` {
		t.Errorf("Marshal() = %s, %v; want 1m0s", text, err)
	}
}

func decodeStrict(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
