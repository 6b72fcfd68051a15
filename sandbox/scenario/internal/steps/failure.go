package steps

import (
	"context"
	"errors"
	"fmt"
)

// Failure is the error of a failed step. It contains the evidence that explains the error.
type Failure struct {
	// Message is the text of the error.
	Message string
	// Details is the evidence that explains the failure.
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

// Unwrap returns the cause of the failure.
func (f *Failure) Unwrap() error { return f.cause }

// Fail returns a Failure with a formatted message.
func Fail(format string, args ...any) *Failure {
	return &Failure{Message: fmt.Sprintf(format, args...)}
}

// withCause sets the cause of the failure.
func (f *Failure) withCause(cause error) *Failure {
	f.cause = cause
	return f
}

// With adds a detail to the failure, unless the text of the detail is empty.
func (f *Failure) With(title, text string) *Failure {
	if text != "" {
		f.Details = append(f.Details, Detail{title, text})
	}
	return f
}

// TimeoutFailure returns last() with err as its cause if err is the cancellation cause of ctx. It returns any other
// error unchanged.
func TimeoutFailure(ctx context.Context, err error, last func() *Failure) error {
	if err == nil || ctx.Err() == nil || !errors.Is(err, context.Cause(ctx)) {
		return err
	}
	f := last()
	f.Message = fmt.Sprintf("%s: %s", err, f.Message)
	f.cause = err
	return f
}
