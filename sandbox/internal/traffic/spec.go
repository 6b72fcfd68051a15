package traffic

import (
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Spec says what a stream sends, and where.
type Spec struct {
	// Traffic as a scenario writes it, without expressions.
	v1alpha1.Traffic `json:",inline"`
	// Namespace of the Service, with ViaService.
	Namespace string `json:"namespace,omitempty"`
	// Seed makes the choice of endpoints repeatable. Zero = drawn.
	Seed uint64 `json:"seed,omitempty"`
}

// End is what a stream has led to.
type End struct {
	Summary
	// Seconds of the stream, in order.
	Seconds []Second `json:"seconds,omitempty"`
	// LostRequests are the first 1,000 that were lost.
	LostRequests []Record `json:"lostRequests,omitempty"`
}
