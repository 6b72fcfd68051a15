package steps

import (
	"context"
	"errors"
	"fmt"
)

// Failure is why a step failed.
type Failure struct {
	// Message is a sentence.
	Message string
	// Details help to understand it.
	Details []Detail
	cause   error
}

// Detail is a piece of evidence.
type Detail struct {
	Title string `json:"title"`
	Text  string `json:"text"`
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the error behind it.
func (f *Failure) Unwrap() error { return f.cause }

// Fail returns a Failure.
func Fail(format string, args ...any) *Failure {
	return &Failure{Message: fmt.Sprintf(format, args...)}
}

// withCause sets the error behind the failure.
func (f *Failure) withCause(cause error) *Failure {
	f.cause = cause
	return f
}

// With adds a detail, unless its text is empty.
func (f *Failure) With(title, text string) *Failure {
	if text != "" {
		f.Details = append(f.Details, Detail{title, text})
	}
	return f
}

// TimeoutFailure turns the end of a step's time into a failure that says what was last seen; other errors
// stay as they are.
func TimeoutFailure(ctx context.Context, err error, last func() *Failure) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	f := last()
	f.Message = fmt.Sprintf("%s: %s", err, f.Message)
	f.cause = err
	return f
}
