package fakebase

import (
	"fmt"
	"strings"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

const (
	arkletException     = "com.alipay.sofa.koupleless.arklet.core.common.exception.ArkletRuntimeException"
	validationException = "com.alipay.sofa.koupleless.arklet.core.common.exception.CommandValidationException"
	// badManifest is what sofa-ark throws when the manifest of a jar lacks something.
	badManifest = "java.lang.IllegalArgumentException"
)

// step is a place in the handling of a command where an error code belongs.
type step int

const (
	stepDispatch step = iota + 1 // before the command is looked up
	stepEnter                    // the handler begins
	stepValidate                 // the request is checked
	stepLock                     // the biz is locked
	stepPull                     // the jar is downloaded
	stepManifest                 // the jar is read
	stepStopOld                  // older versions are uninstalled first
	stepStart                    // main runs
	stepFind                     // the biz of an uninstall, switch or health is looked up
	stepGuard                    // may this version be uninstalled
	stepStop                     // the stop handlers run
)

// errorSpec says where an error code arises and what Java throws there.
type errorSpec struct {
	step  step
	class string
	text  string
}

// errorSpecs holds every Arklet code (protocol 6). Without class the code is
// no exception; the step knows what to answer.
var errorSpecs = map[string]errorSpec{
	fault.CodeUnknown:          {stepEnter, "java.lang.RuntimeException", "unknown error"},
	fault.CodeInvalidParameter: {stepValidate, validationException, "bizVersion should not be blank"},
	fault.CodeInvalidBizName:   {stepValidate, validationException, "bizName should not be blank"},
	fault.CodeInvalidRequest:   {stepDispatch, "", ""},
	fault.CodeDecodeURLFailed:  {stepPull, "java.net.MalformedURLException", "no protocol: $url"},
	fault.CodeNoMatchedBiz:     {stepFind, "", ""},
	fault.CodeInstallRequirementNotMet: {stepManifest, "java.lang.IllegalArgumentException",
		"Biz Name must not be empty!"},
	fault.CodePullBizError:        {stepPull, "java.io.FileNotFoundException", "$url"},
	fault.CodePullBizTimeout:      {stepPull, "java.net.SocketTimeoutException", "Read timed out"},
	fault.CodeDiskFull:            {stepPull, "java.io.IOException", "No space left on device"},
	fault.CodeMachineMalfunction:  {stepStart, "java.lang.InternalError", "machine malfunction"},
	fault.CodeMetaspaceFull:       {stepStart, "java.lang.OutOfMemoryError", "Metaspace"},
	fault.CodeInstallBizExecuting: {stepLock, "", ""},
	fault.CodeInstallBizTimedOut: {stepStopOld, "java.lang.IllegalStateException",
		"old version cannot be stopped"},
	fault.CodeInstallBizFailed:    {stepStart, "java.lang.ClassNotFoundException", "$main"},
	fault.CodeInstallBizUserError: {stepStart, "java.lang.reflect.InvocationTargetException", ""},
	fault.CodeUninstallBizFailed:  {stepStop, "java.lang.IllegalStateException", "stop handler failed"},
	fault.CodeUninstallRequirementUnmet: {stepGuard, "java.lang.IllegalStateException",
		"the active one of several versions must not be uninstalled"},
}

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
