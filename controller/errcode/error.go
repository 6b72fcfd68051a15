package errcode

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Error is an error with a code. Create it with New or Wrap.
type Error struct {
	code Code
	err  error
}

// New returns an Error with a code. It formats the message in the same way as fmt.Errorf.
func New(code Code, format string, args ...any) error {
	return &Error{code: code, err: fmt.Errorf(format, args...)}
}

// Wrap returns an Error that wraps err with a code, or nil if err is nil. If err contains an Error, the error text
// contains the new code followed by the code of that Error.
func Wrap(code Code, err error) error {
	if err == nil {
		return nil
	}
	return &Error{code: code, err: err}
}

// Of returns the outermost code of an error. It returns ModuleControllerUnknownError for an error without a code, and
// the zero Code for nil.
func Of(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.code
	}
	return ModuleControllerUnknownError
}

// Message returns the text of an error for users: the outermost code, the message without suggestions, and the
// suggestion for the innermost code. It accepts errors without a code. For a nil error, it returns the empty string.
func Message(err error) string {
	if err == nil {
		return ""
	}
	return text(Of(err), problemText(err), suggestionFor(err))
}

// Error implements error. It returns the codes, the message and the suggestion.
func (e *Error) Error() string {
	return text(e.code, coded(e.err), suggestionFor(e))
}

// Code returns the code of the error.
func (e *Error) Code() Code { return e.code }

// Unwrap returns the wrapped error without the code.
func (e *Error) Unwrap() error { return e.err }

func text(code Code, problem, suggestion string) string {
	if suggestion == "" {
		return string(code) + ": " + problem
	}
	return string(code) + ": " + problem + "; " + suggestion
}

// problemText returns the text of err with all suggestions and the outermost code removed.
func problemText(err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err.Error()
	}
	return strings.Replace(err.Error(), e.Error(), coded(e.err), 1)
}

// coded returns the error text with all codes, but without suggestions.
func coded(err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err.Error()
	}
	return strings.Replace(err.Error(), e.Error(), string(e.code)+": "+coded(e.err), 1)
}

func suggestionFor(err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		info, _ := Lookup(string(ModuleControllerUnknownError))
		return info.Suggestion
	}
	if _, nested := errors.AsType[*Error](e.err); nested {
		if suggestion := suggestionFor(e.err); suggestion != "" {
			return suggestion
		}
	}
	info, _ := Lookup(string(e.code))
	return info.Suggestion
}

// Parse splits a text that Message returned into the codes, outermost first, and the rest without the suggestion.
func Parse(message string) (codes []Code, what string) {
	what = message
	suggestion := ""
	for {
		head, tail, _ := strings.Cut(what, ": ")
		info, known := Lookup(head)
		if !known {
			break
		}
		codes, what = append(codes, info.Code), tail
		suggestion = cmp.Or(info.Suggestion, suggestion)
	}
	if suggestion != "" {
		what = strings.TrimSuffix(what, "; "+suggestion)
	}
	return codes, what
}
