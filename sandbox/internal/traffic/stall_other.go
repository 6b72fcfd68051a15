//go:build !linux

package traffic

// processors are none here, where a thread can't be told on which one to run: only the generator's
// own delay is known.
func processors() []int { return nil }

func pin(int) error { return nil }
