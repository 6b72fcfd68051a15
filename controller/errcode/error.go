package errcode

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Error is an error with a code. Make one with New or Wrap; find it with errors.As, or its code
// with Of.
type Error struct {
	code Code
	err  error
}

// New returns an error with a code; the rest tells what happened, as for fmt.Errorf (%w included).
func New(code Code, format string, args ...any) error {
	return &Error{code: code, err: fmt.Errorf(format, args...)}
}

// Wrap puts a code on an error; nil stays nil. A code that err bears already stays in the text,
// after the new one: so does Arklet's code inside the controller's (Module Controller V2 document
// 5.6).
func Wrap(code Code, err error) error {
	if err == nil {
		return nil
	}
	return &Error{code: code, err: err}
}

// Of returns the code of an error: the outermost in its chain. An error without one has
// ModuleControllerUnknownError, the document's default, and nil has the zero Code.
func Of(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.code
	}
	return ModuleControllerUnknownError
}

// Message returns the text for people: the full code, what happened, and the suggestion of the code
// that is nearest to the cause. It is Error of an Error, and has the same form for an error that
// wraps one or that has no code at all. Message of nil is empty.
func Message(err error) string {
	if err == nil {
		return ""
	}
	return text(Of(err), what(err), suggestionFor(err))
}

// Error returns the full code, what happened and the suggestion.
func (e *Error) Error() string {
	return text(e.code, coded(e.err), suggestionFor(e))
}

// Code returns the code that the error was made with.
func (e *Error) Code() Code { return e.code }

// Unwrap returns the error without its code.
func (e *Error) Unwrap() error { return e.err }

func text(code Code, what, suggestion string) string {
	if suggestion == "" {
		return string(code) + ": " + what
	}
	return string(code) + ": " + what + "; " + suggestion
}

// what is the text of an error without the outermost code and without suggestions.
func what(err error) string {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err.Error()
	}
	return strings.Replace(err.Error(), e.Error(), coded(e.err), 1)
}

// coded is the text of an error with all codes and without suggestions, so that the one suggestion
// stands at the end however often the error was wrapped.
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

// Parse splits a text of Message into its codes, the outermost first, and what happened, without the suggestion. A text
// without a code has no codes.
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
