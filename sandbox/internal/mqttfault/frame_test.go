package mqttfault

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mochi-mqtt/server/v2/packets"
)

// Packets of all lengths are told apart, however they are cut.
func TestFrames(t *testing.T) {
	var stream []byte
	var want []int
	for _, payload := range []int{0, 1, 100, 127, 128, 16_383, 16_384, 2_097_152} {
		var b bytes.Buffer
		p := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1}, PacketID: 1, TopicName: "a/b", Payload: make([]byte, payload)}
		if err := p.PublishEncode(&b); err != nil {
			t.Fatal(err)
		}
		want = append(want, b.Len(), 2)
		stream = append(append(stream, b.Bytes()...), packets.Pingreq<<4, 0)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		var f frame
		var got []int
		length := 0
		for rest := stream; len(rest) > 0; {
			some := rest[:min(len(rest), 1+r.IntN(1+r.IntN(5000)))]
			rest = rest[len(some):]
			for len(some) > 0 {
				if f.begins() != (length == 0) {
					t.Fatalf("after %d bytes of a packet it begins: %t", length, f.begins())
				}
				n, ends := f.next(some)
				length += n
				if some = some[n:]; ends {
					got, length = append(got, length), 0
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("lengths (-want +got):\n%s", diff)
		}
	}
}
