package fault

import (
	"fmt"
	"time"
)

// Duration is a time.Duration that is encoded in JSON and YAML as a Go duration string, such as "1.5s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts the duration strings that time.ParseDuration accepts.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("invalid duration %q; use a value such as 1.5s or 200ms", text)
	}
	*d = Duration(v)
	return nil
}

// Delay is a random duration between Min and Min+Spread, uniformly distributed.
type Delay struct {
	// Min is the minimum duration. Default: 0.
	Min Duration `json:"min,omitempty"`
	// Spread is the maximum random duration that is added to Min. Default: 0.
	Spread Duration `json:"spread,omitempty"`
}

// Validate returns an error that names the field if Min or Spread is negative.
func (d Delay) Validate(field string) error {
	if d.Min < 0 || d.Spread < 0 {
		return fmt.Errorf("%s: %w", field, errNegative)
	}
	return nil
}

// Sample returns a random duration. The argument random returns a number in [0, 1).
func (d Delay) Sample(random func() float64) time.Duration {
	if d.Spread == 0 {
		return time.Duration(d.Min)
	}
	return time.Duration(d.Min) + time.Duration(random()*float64(d.Spread))
}
