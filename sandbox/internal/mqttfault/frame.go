package mqttfault

// maxHeader is the maximum length of the fixed header of a packet.
const maxHeader = 5

// framer finds the packet boundaries in the data of one direction of a connection. It does not store packets.
type framer struct {
	header [maxHeader]byte
	read   int // number of header bytes read so far
	rest   int // number of packet bytes that remain after the header
}

// atPacketStart reports whether the next byte is the first byte of a packet.
func (f *framer) atPacketStart() bool { return f.read == 0 && f.rest == 0 }

// next returns how many bytes at the start of data belong to the current packet, and reports whether these bytes
// complete the packet. data must not be empty.
func (f *framer) next(data []byte) (n int, ends bool) {
	for f.rest == 0 {
		if n == len(data) {
			return n, false
		}
		f.header[f.read] = data[n]
		f.read++
		n++
		if f.read < 2 || f.header[f.read-1]&0x80 != 0 && f.read < maxHeader {
			continue
		}
		for i := f.read - 1; i > 0; i-- { // seven bits per byte, the lowest bits first
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
