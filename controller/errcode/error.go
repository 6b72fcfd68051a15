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

// New returns an Error with a message, as fmt.Errorf does.
func New(code Code, format string, args ...any) error {
	return &Error{code: code, err: fmt.Errorf(format, args...)}
}

// Wrap returns an Error with a code that wraps err, or nil if err is nil. The text of the result contains the code of a
// wrapped Error after the new code.
func Wrap(code Code, err error) error {
	if err == nil {
		return nil
	}
	return &Error{code: code, err: err}
}

// Of returns the outermost code of an error, ModuleControllerUnknownError for an error without a code, or the zero Code
// for nil.
func Of(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.code
	}
	return ModuleControllerUnknownError
}

// Message returns a text with the outermost code of an error, its message without suggestions, and the suggestion for
// the innermost code. It accepts errors without a code. The text for nil is empty.
func Message(err error) string {
	if err == nil {
		return ""
	}
	return text(Of(err), what(err), suggestionFor(err))
}

// Error returns the codes, the message and the suggestion.
func (e *Error) Error() string {
	return text(e.code, coded(e.err), suggestionFor(e))
}

// Code returns the code of the error.
func (e *Error) Code() Code { return e.code }

// Unwrap returns the error without its code.
func (e *Error) Unwrap() error { return e.err }

func text(code Code, what, suggestion string) string {
	if suggestion == "" {
		return string(code) + ": " + what
	}
	return string(code) + ": " + what + "; " + suggestion
}

// what returns the text of an error without the outermost code and without suggestions.
func what(err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err.Error()
	}
	return strings.Replace(err.Error(), e.Error(), coded(e.err), 1)
}

// coded returns the text of an error with all codes and without suggestions.
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

// Parse splits a text from Message into its codes, outermost first, and the rest without the suggestion.
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
