package fakebase

import (
	"fmt"
	"strings"
)

// Arklet's two-level error codes, as the error code document lists them. No
// real base sends them; a fake one adds them as the field errorCode unless it
// is faithful (protocol 6).
const (
	CodeUnknown                   = "Arklet.UnknownError"
	CodeInvalidParameter          = "ModuleController.InvalidParameter"
	CodeInvalidRequest            = "ModuleController.InvalidRequest"
	CodeDecodeURLFailed           = "OtherUpstream.DecodeURLFailed"
	CodeNoMatchedBiz              = "Arklet.NoMatchedBiz"
	CodeInvalidBizName            = "Arklet.InvalidBizName"
	CodeInstallRequirementNotMet  = "Arklet.InstallationRequirementNotMet"
	CodePullBizError              = "Arklet.PullBizError"
	CodePullBizTimeout            = "Arklet.PullBizTimeOut"
	CodeDiskFull                  = "User.DiskFull"
	CodeMachineMalfunction        = "User.MachineMalfunction"
	CodeMetaspaceFull             = "User.MetaspaceFull"
	CodeInstallBizExecuting       = "Arklet.InstallBizExecuting"
	CodeInstallBizTimedOut        = "Arklet.InstallBizTimedOut"
	CodeInstallBizFailed          = "Arklet.InstallBizFailed"
	CodeInstallBizUserError       = "User.InstallBizUserError"
	CodeUninstallBizFailed        = "Arklet.UninstallBizFailed"
	CodeUninstallRequirementUnmet = "Arklet.UnInstallationRequirementNotMet"
)

const (
	arkletException     = "com.alipay.sofa.koupleless.arklet.core.common.exception.ArkletRuntimeException"
	validationException = "com.alipay.sofa.koupleless.arklet.core.common.exception.CommandValidationException"
	// badManifest is what sofa-ark throws when the manifest of a jar lacks something.
	badManifest = "java.lang.IllegalArgumentException"
)

// exception is what a Java handler would have thrown.
type exception struct {
	class  string
	detail string   // what getMessage gives; "" = null
	causes []string // what the exception was caused by, as Throwable.toString gives it, outermost first
	code   string   // the error code of the documents
	// plain marks an exception that arklet throws itself: its message goes out
	// as it is. Others go out wrapped, class name in front.
	plain bool
}

// thrown is an exception of the class and message, such as a download throws.
func thrown(code, class, detail string) *exception {
	return &exception{class: class, detail: detail, code: code}
}

// invalid is a request that does not pass arklet's validation.
func invalid(code, message string) *exception {
	return &exception{class: validationException, detail: message, code: code, plain: true}
}

// String is Java's Throwable.toString.
func (e *exception) String() string {
	if e.detail == "" {
		return e.class
	}
	return e.class + ": " + e.detail
}

// message is the x of ISE(x) in protocol 6.
func (e *exception) message() string {
	if e.plain {
		return e.nullableDetail()
	}
	return e.String()
}

// trace is the stack trace as the answers carry it.
func (e *exception) trace() string {
	const frames = "\n\tat com.alipay.sofa.koupleless.arklet.core.command.executor.BizCommand.handle(fakebase)"
	if e.plain {
		return e.String() + frames + "\n"
	}
	trace := arkletException + ": " + e.String() + frames
	for _, cause := range append([]string{e.String()}, e.causes...) {
		trace += "\nCaused by: " + cause + "\n\t... 1 more"
	}
	return trace + "\n"
}

// nullableDetail is getMessage as Java concatenates it.
func (e *exception) nullableDetail() string {
	if e.detail == "" {
		return "null"
	}
	return e.detail
}

// parseException reads "class: text" as a fault's message may give it.
func parseException(code, text string) *exception {
	class, detail, found := strings.Cut(text, ": ")
	if found && strings.Contains(class, ".") && !strings.ContainsAny(class, " /") {
		return thrown(code, class, detail)
	}
	if !found && strings.Contains(text, ".") && !strings.ContainsAny(text, " /") {
		return thrown(code, text, "")
	}
	return thrown(code, "java.lang.RuntimeException", text)
}

func illegalState(code, format string, args ...any) *exception {
	return thrown(code, "java.lang.IllegalStateException", fmt.Sprintf(format, args...))
}
