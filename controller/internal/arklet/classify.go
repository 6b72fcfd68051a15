package arklet

import (
	"regexp"
	"strings"

	"github.com/koupleless/koupsandbox/controller/errcode"
)

// Classify returns the Arklet error code of an answer to an install, uninstall or switch command. The code is zero if
// the command succeeded. state is the state of the module in the module list of the base.
func (a Answer) Classify(state State) errcode.Code {
	if a.Command == CommandUninstallBiz {
		return a.classifyUninstall()
	}
	return a.classifyInstall(state)
}

// classifyInstall returns the Arklet error code of an answer to an install command. The code is zero if the command
// succeeded, or if it repeated the install of an active or deactivated module. The rules are in the order of protocol
// 6.
func (a Answer) classifyInstall(state State) errcode.Code {
	if code, ok := a.common(); ok {
		return code
	}
	if a.AlreadyInstalled() {
		return repeated(state)
	}
	head, all := a.exception(), a.Message+"\n"+a.DataMessage
	switch {
	case a.throws(head, malformedURL):
		return errcode.OtherUpstreamDecodeURLFailed
	case strings.Contains(all, "No space left on device"):
		return errcode.UserDiskFull
	case metaspace.MatchString(all):
		return errcode.UserMetaspaceFull
	case machine.MatchString(all):
		return errcode.UserMachineMalfunction
	case a.throws(head, socketTimeout):
		return errcode.ArkletPullBizTimeOut
	case a.throws(head, ioException):
		return errcode.ArkletPullBizError
	case strings.Contains(all, "java.lang.reflect.InvocationTargetException"):
		return errcode.UserInstallBizUserError
	case notABiz.MatchString(all):
		return errcode.ArkletInstallationRequirementNotMet
	case validation.MatchString(a.Message):
		return errcode.ModuleControllerInvalidParameter
	case a.throws(head, classLoading):
		return errcode.ArkletInstallBizFailed
	}
	return errcode.ArkletUnknownError
}

// classifyUninstall returns the Arklet error code of an answer to an uninstall command. The code is zero if the
// command succeeded, and errcode.ArkletNoMatchedBiz if the module does not exist.
func (a Answer) classifyUninstall() errcode.Code {
	if code, ok := a.common(); ok {
		return code
	}
	switch {
	case a.NotInstalled():
		return errcode.ArkletNoMatchedBiz
	case strings.Contains(a.DataMessage, "Master biz must not be uninstalled"):
		return errcode.ModuleControllerInvalidRequest
	case validation.MatchString(a.Message):
		return errcode.ModuleControllerInvalidParameter
	}
	return errcode.ArkletUninstallBizFailed
}

// common returns the error code of an answer if the code does not depend on the command. Otherwise, it returns false.
func (a Answer) common() (errcode.Code, bool) {
	if a.Succeeded() {
		return "", true
	}
	if code := a.documented(); code != "" {
		return code, true
	}
	switch {
	case strings.Contains(a.Message, "conflict, exist unfinished command(uninstallBiz)"):
		return errcode.ModuleControllerBaseInstanceInOperation, true
	case strings.Contains(a.Message, "conflict, exist unfinished command"),
		strings.Contains(a.Message, "BizState must be ACTIVATED, DEACTIVATED or BROKEN"):
		return errcode.ArkletInstallBizExecuting, true
	case strings.EqualFold(a.Code, "CMD_NOT_FOUND"):
		return errcode.ModuleControllerInvalidRequest, true
	}
	return "", false
}

// documented returns the documented error code in an answer, or the zero Code if the answer contains none.
func (a Answer) documented() errcode.Code {
	for _, text := range []string{a.ErrorCode, a.Code, a.DataCode, heading(a.Message), heading(a.DataMessage)} {
		if info, ok := errcode.Lookup(text); ok {
			return info.Code
		}
	}
	return ""
}

// heading returns the start of a message, up to the first colon or space. It ignores the prefix "Internal Error: "
// and exception classes (protocol 6).
func heading(message string) string {
	message = strings.TrimPrefix(message, internalError)
	for range 2 { // over MQTT, the trace begins with an exception of arklet that wraps the cause
		if class := exception.FindString(message); class != "" {
			message = strings.TrimPrefix(message[len(class):], ": ")
		}
	}
	if end := strings.IndexAny(message, ": \t\r\n"); end >= 0 {
		return message[:end]
	}
	return message
}

// repeated returns the error code for the install of a module that is already on the base, depending on the state of
// the module.
func repeated(state State) errcode.Code {
	switch state {
	case StateActivated, StateDeactivated:
		return ""
	case StateResolved:
		return errcode.ArkletInstallBizExecuting
	}
	return errcode.ArkletInstallationRequirementNotMet
}

// exception returns the exception class at the start of the message, or the empty string. It does not search the
// stack trace, because the trace may contain exceptions of the module.
func (a Answer) exception() string {
	return exception.FindString(strings.TrimPrefix(a.Message, internalError))
}

// throws reports whether kind matches head, an exception class. If head is empty, throws reports whether kind matches
// the message or the stack trace.
func (a Answer) throws(head string, kind *regexp.Regexp) bool {
	if head != "" {
		return kind.MatchString(head)
	}
	return kind.MatchString(a.Message + "\n" + a.DataMessage)
}

// internalError is the message prefix for an exception over HTTP (protocol 6).
const internalError = "Internal Error: "

var (
	exception     = regexp.MustCompile(`^(?:[a-z]\w*\.)+[A-Z]\w*`)
	malformedURL  = regexp.MustCompile(`\bjava\.net\.MalformedURLException\b`)
	metaspace     = regexp.MustCompile(`\bjava\.lang\.OutOfMemoryError: (?:Metaspace|Compressed class space)`)
	machine       = regexp.MustCompile(`\bjava\.lang\.(?:OutOfMemoryError|InternalError)\b|Input/output error`)
	socketTimeout = regexp.MustCompile(`\bjava\.net\.SocketTimeoutException\b`)
	ioException   = regexp.MustCompile(
		`\b(?:java\.(?:io|net|nio\.file)|javax\.net\.ssl)\.\w+Exception\b|refresh biz info from jar failed`)
	notABiz = regexp.MustCompile(
		`Biz Name must not be empty|Biz Version must not be empty|Biz Main Class must not be empty|Archive must be a ark biz|\bjava\.util\.zip\.ZipException\b`)
	validation = regexp.MustCompile(
		`should not be blank|should be both blank or both not blank|bizList is null|request is null|requestId is blank`)
	classLoading = regexp.MustCompile(
		`\bjava\.lang\.(?:ClassNotFoundException|NoClassDefFoundError|NoSuch(?:Method|Field)(?:Exception|Error)|\w*LinkageError|UnsupportedClassVersionError|IncompatibleClassChangeError|ExceptionInInitializerError|VerifyError|ClassFormatError|AbstractMethodError)\b|\bcom\.alipay\.sofa\.ark\.\w*(?:\.\w+)*Exception\b`)
)
