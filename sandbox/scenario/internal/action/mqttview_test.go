package action

import (
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Rules of the way to the broker are for bases by their host names, or for controllers; those that are
// left are cleared with the components, and one that never fired fails the run unless it may.
func TestMQTTRules(t *testing.T) {
	r := newRig(t)
	two := 2
	if err := r.Setup(t.Context(), []v1alpha1.BaseSet{{Name: "base", Count: &two}}); err != nil {
		t.Fatal(err)
	}
	r.sandbox.calls = nil
	if rules, err := r.MQTTRules(t.Context()); err != nil || len(rules) > 0 {
		t.Errorf("without any: %v, error %v", rules, err)
	}
	r.sandbox.fired = 2
	r.well(`mqtt: {set: {id: late, kind: delay, delay: 1s}, bases: [base]}`, "set MQTT rule late")
	r.well(`mqtt: {set: {id: second, kind: killAfter}, replica: 2}`, "set MQTT rule second")
	r.sandbox.fired = 0
	r.well(`mqtt: {set: {id: maybe, kind: note, mayNotFire: true}}`, "set MQTT rule maybe")
	r.well(`mqtt: {clear: [late, second]}`, "cleared MQTT rules late, second")
	if err := r.Repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.MQTTRules(t.Context()); err != nil {
		t.Errorf("all have fired that must: %v", err)
	}
	r.well(`mqtt: {set: {id: idle, kind: hold}}`, "set MQTT rule idle")
	if _, err := r.MQTTRules(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "the MQTT rule idle never fired: ") {
		t.Errorf("one that never fired: %v", err)
	}
	r.wantCalls("MQTT rule late delay of [run-x-base-1 run-x-base-2] 0", "MQTT rule second killAfter of [] 2", "MQTT rule maybe note of [] 0",
		"clear MQTT rule late", "clear MQTT rule second", "clear MQTT rule *", "repair run-x", "MQTT rules", "MQTT rule idle hold of [] 0", "MQTT rules")
}

// Who awaits a rule goes on when it has ended, and else hears of which it has waited for.
func TestAwait(t *testing.T) {
	r := newRig(t)
	r.well(`mqtt: {set: {id: third, kind: note, skip: 2}}`, "set MQTT rule third")
	r.ill(`mqtt: {await: [third]}`, "not within the time: rules have not ended: third, which has fired 0 times")
	r.sandbox.ending = 3
	r.well(`mqtt: {await: [third]}`, "MQTT rules have ended: third")
	if r.sandbox.ending != 0 {
		t.Errorf("it went on %d looks before the end", r.sandbox.ending)
	}
}
