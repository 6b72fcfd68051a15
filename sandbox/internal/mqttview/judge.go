package mqttview

import (
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// verdict is what becomes of a packet.
type verdict struct {
	delay time.Duration
	lose  bool // it never comes
	again bool // it comes twice
	aside bool // it comes after the next one of another topic
	kill  bool // its sender, or who it is for
	shut  bool // the connection
}

// judge says what becomes of a packet. Delays add up; of what strikes single messages the rule that was
// set first decides.
func (v *View) judge(c *conn, d v1alpha1.Direction, m *packet) (out verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	decided := false
	for _, x := range append([]*rule(nil), v.rules...) {
		if !x.live() || !x.meets(c.party) || !x.in(d) && x.Kind != v1alpha1.MQTTCut {
			continue
		}
		switch x.Kind {
		case v1alpha1.MQTTCut:
			out.shut = true
		case v1alpha1.MQTTHalfOpen:
			out.lose = true
			if x.lost == nil {
				x.lost = map[*conn]bool{}
			}
			x.lost[c] = true
			v.fired(x, c.party, m.String())
		case v1alpha1.MQTTHold:
			v.fired(x, c.party, m.String())
		case v1alpha1.MQTTDelay:
			out.delay += x.Delay.Duration
			v.fired(x, c.party, m.String())
		default:
			if !x.about(c.party, m, v.o.Who) || x.Kind != v1alpha1.MQTTNote && decided || !x.strikes() {
				continue
			}
			switch x.Kind {
			case v1alpha1.MQTTDuplicate:
				out.again = true
			case v1alpha1.MQTTReorder:
				out.aside = true
			case v1alpha1.MQTTKillBefore:
				out.kill, out.lose = true, true
			case v1alpha1.MQTTKillAfter:
				out.kill = true
			}
			decided = decided || x.Kind != v1alpha1.MQTTNote
			v.fired(x, c.party, m.String())
		}
	}
	return out
}
