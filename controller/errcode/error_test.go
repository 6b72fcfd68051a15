package errcode

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestError(t *testing.T) {
	pull := New(ArkletPullBizError, "GET %s: 404", "http://h/biz1.jar")
	tests := []struct {
		name    string
		err     error
		code    Code
		message string
		advice  Code // code whose suggestion must be at the end of the message
	}{
		{"nil", nil, "", "", ""},
		{"no code", io.EOF, ModuleControllerUnknownError, "ModuleController.UnknownError: EOF",
			ModuleControllerUnknownError},
		{"new", pull, ArkletPullBizError, "Arklet.PullBizError: GET http://h/biz1.jar: 404", ArkletPullBizError},
		{"wrapped nil", Wrap(UserDiskFull, nil), "", "", ""},
		{"wrapped", Wrap(UserDiskFull, io.EOF), UserDiskFull, "User.DiskFull: EOF", UserDiskFull},
		{
			"the controller's code around Arklet's", Wrap(ArkletInstallModuleFailed, pull), ArkletInstallModuleFailed,
			"Arklet.InstallModuleFailed: Arklet.PullBizError: GET http://h/biz1.jar: 404", ArkletPullBizError,
		},
		{
			"nearest code without a suggestion", Wrap(ArkletUninstallBizFailed, New(ArkletNoMatchedBiz, "biz1")),
			ArkletUninstallBizFailed,
			"Arklet.UninstallBizFailed: Arklet.NoMatchedBiz: biz1", ArkletUninstallBizFailed,
		},
		{
			"context around a code", fmt.Errorf("installing biz1 on base-1: %w", pull), ArkletPullBizError,
			"Arklet.PullBizError: installing biz1 on base-1: GET http://h/biz1.jar: 404", ArkletPullBizError,
		},
		{
			"context between codes", Wrap(ArkletInstallModuleFailed, fmt.Errorf("base-1: %w", pull)),
			ArkletInstallModuleFailed,
			"Arklet.InstallModuleFailed: base-1: Arklet.PullBizError: GET http://h/biz1.jar: 404", ArkletPullBizError,
		},
		{"a code of one's own", New("User.Odd", "odd"), "User.Odd", "User.Odd: odd", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Of(tt.err); got != tt.code {
				t.Errorf("Of = %q, want %q", got, tt.code)
			}
			if info, known := Lookup(string(tt.advice)); known {
				tt.message += "; " + info.Suggestion
			}
			if diff := cmp.Diff(tt.message, Message(tt.err)); diff != "" {
				t.Errorf("Message (-want +got):\n%s", diff)
			}
			var coded *Error
			own, ok := tt.err.(*Error) //nolint:errorlint // only the outermost error has the form
			if ok && own.Error() != tt.message {
				t.Errorf("Error = %q, want %q", own.Error(), tt.message)
			} else if errors.As(tt.err, &coded) && coded.Code() != tt.code {
				t.Errorf("Code = %q, want %q", coded.Code(), tt.code)
			}
		})
	}
}

func TestErrorKeepsItsCause(t *testing.T) {
	for _, err := range []error{Wrap(UserDiskFull, io.EOF), New(UserDiskFull, "reading: %w", io.EOF)} {
		if !errors.Is(err, io.EOF) {
			t.Errorf("%v is not io.EOF any more", err)
		}
	}
}

func TestParse(t *testing.T) {
	type parsed struct {
		Codes []Code
		What  string
	}
	for message, want := range map[string]parsed{
		"": {}, "no code: EOF": {What: "no code: EOF"},
		Message(Wrap(ArkletInstallModuleFailed, New(ArkletPullBizError, "GET http://h/biz1.jar: 404"))): {
			[]Code{ArkletInstallModuleFailed, ArkletPullBizError}, "GET http://h/biz1.jar: 404"},
		Message(Wrap(ArkletUninstallBizFailed, New(ArkletNoMatchedBiz, "biz1"))): {
			[]Code{ArkletUninstallBizFailed, ArkletNoMatchedBiz}, "biz1"},
	} {
		codes, what := Parse(message)
		if diff := cmp.Diff(want, parsed{codes, what}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", message, diff)
		}
	}
}
