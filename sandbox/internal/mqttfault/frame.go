package mqttfault

// mostHeader is how long the fixed header of a packet is at most.
const mostHeader = 5

// frame knows where the packets of one direction begin and end, without keeping them.
type frame struct {
	header [mostHeader]byte
	read   int // bytes of the header
	rest   int // bytes of the packet after its header that are to come
}

// begins reports whether the next byte is the first one of a packet.
func (f *frame) begins() bool { return f.read == 0 && f.rest == 0 }

// next returns how much of data belongs to the packet that is coming, and whether that ends with it.
// data is not empty.
func (f *frame) next(data []byte) (n int, ends bool) {
	for f.rest == 0 {
		if n == len(data) {
			return n, false
		}
		f.header[f.read] = data[n]
		f.read++
		n++
		if f.read < 2 || f.header[f.read-1]&0x80 != 0 && f.read < mostHeader {
			continue
		}
		for i := f.read - 1; i > 0; i-- { // seven bits of each, the lowest first
			f.rest = f.rest<<7 | int(f.header[i]&0x7f)
		}
		f.read = 0
		if f.rest == 0 {
			return n, true
		}
	}
	some := min(f.rest, len(data)-n)
	f.rest -= some
	return n + some, f.rest == 0
}
