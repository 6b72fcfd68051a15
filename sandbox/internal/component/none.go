package component

import (
	"context"
	"fmt"
)

// None is a Part without components.
type None struct{}

var _ Part = None{}

// Components are none.
func (None) Components(context.Context) []Component { return nil }

// Act knows none.
func (None) Act(_ context.Context, name string, _ Action) error {
	return fmt.Errorf("%s: %w", name, ErrUnknown)
}

// Down names none.
func (None) Down(context.Context) []string { return nil }
