package fakebase

import (
	"fmt"
	"strings"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

const (
	arkletException     = "com.alipay.sofa.koupleless.arklet.core.common.exception.ArkletRuntimeException"
	validationException = "com.alipay.sofa.koupleless.arklet.core.common.exception.CommandValidationException"
	// badManifest is the exception that sofa-ark throws if a required attribute is missing in the manifest.
	badManifest = "java.lang.IllegalArgumentException"
)

// commandStep is a step of a command in which an error with an error code can occur.
type commandStep int

const (
	stepDispatch commandStep = iota + 1 // before the handler is selected
	stepEnter                           // the handler starts
	stepValidate                        // the request is validated
	stepLock                            // the biz is locked
	stepPull                            // the jar is downloaded
	stepManifest                        // the jar is read
	stepStopOld                         // older versions are uninstalled
	stepStart                           // the main method runs
	stepFind                            // the biz is searched for uninstall, switch or health
	stepGuard                           // the base checks whether the version can be uninstalled
	stepStop                            // the stop handlers run
)

// errorSpec is the command step in which an error code occurs, and the Java exception for the code.
type errorSpec struct {
	step  commandStep
	class string
	text  string
}

// errorSpecs contains all Arklet error codes (protocol 6). A code without an exception class does not cause an
// exception: the step determines the response.
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

// exception is a Java exception that a handler throws.
type exception struct {
	class  string
	detail string   // result of getMessage; empty = null
	causes []string // causes as Throwable.toString formats them, outermost first
	code   string   // error code that the Koupleless documentation defines
	// fromArklet reports whether arklet itself throws the exception. The message of such an exception is sent without
	// the class. All other exceptions are wrapped.
	fromArklet bool
}

func newException(code, class, detail string) *exception {
	return &exception{class: class, detail: detail, code: code}
}

// newValidationException returns the exception for a request that arklet rejects as invalid.
func newValidationException(code, message string) *exception {
	return &exception{class: validationException, detail: message, code: code, fromArklet: true}
}

// String returns the text that Throwable.toString returns in Java.
func (e *exception) String() string {
	if e.detail == "" {
		return e.class
	}
	return e.class + ": " + e.detail
}

// message returns the text of the exception for the message of a response. Protocol 6 writes this text as x in
// ISE(x).
func (e *exception) message() string {
	if e.fromArklet {
		return e.nullableDetail()
	}
	return e.String()
}

// trace returns the stack trace of the exception as it appears in responses.
func (e *exception) trace() string {
	const frames = "\n\tat com.alipay.sofa.koupleless.arklet.core.command.executor.BizCommand.handle(fakebase)"
	if e.fromArklet {
		return e.String() + frames + "\n"
	}
	trace := arkletException + ": " + e.String() + frames
	for _, cause := range append([]string{e.String()}, e.causes...) {
		trace += "\nCaused by: " + cause + "\n\t... 1 more"
	}
	return trace + "\n"
}

// nullableDetail returns the result of getMessage, or "null" if getMessage returns null.
func (e *exception) nullableDetail() string {
	if e.detail == "" {
		return "null"
	}
	return e.detail
}

// parseException converts the message of an error fault to an exception. A message of the form "class: text" or
// "class" sets the exception class; see fault.Fault.Message.
func parseException(code, text string) *exception {
	class, detail, found := strings.Cut(text, ": ")
	if found && strings.Contains(class, ".") && !strings.ContainsAny(class, " /") {
		return newException(code, class, detail)
	}
	if !found && strings.Contains(text, ".") && !strings.ContainsAny(text, " /") {
		return newException(code, text, "")
	}
	return newException(code, "java.lang.RuntimeException", text)
}

func illegalState(code, format string, args ...any) *exception {
	return newException(code, "java.lang.IllegalStateException", fmt.Sprintf(format, args...))
}
