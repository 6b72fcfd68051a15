package fault

import (
	"fmt"
	"time"
)

// Duration is a time.Duration that JSON and YAML spell as Go does: "1.5s".
type Duration time.Duration

// MarshalText spells the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads the spelling of time.ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 1.5s or 200ms", text)
	}
	*d = Duration(v)
	return nil
}

// Delay is a time between Min and Min+Spread, every one as likely as another.
type Delay struct {
	// Min is the least; zero = no time.
	Min Duration `json:"min,omitempty"`
	// Spread is what chance may add; zero = nothing.
	Spread Duration `json:"spread,omitempty"`
}

// Validate reports a negative time, under the name of the field.
func (d Delay) Validate(field string) error {
	if d.Min < 0 || d.Spread < 0 {
		return fmt.Errorf("%s: a time %w", field, errNegative)
	}
	return nil
}

// Sample picks a time; share gives a number in [0, 1).
func (d Delay) Sample(share func() float64) time.Duration {
	if d.Spread == 0 {
		return time.Duration(d.Min)
	}
	return time.Duration(d.Min) + time.Duration(share()*float64(d.Spread))
}
