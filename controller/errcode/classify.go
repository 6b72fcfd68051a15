package errcode

import (
	"regexp"
	"strings"
)

// Answer is the answer of a base to an install or uninstall. The zero value is classified as ArkletUnknownError.
type Answer struct {
	// ErrorCode is a field that this project proposes; real bases leave it empty.
	ErrorCode string
	// Code and Message are the outer fields of the answer (protocol 4.3).
	//
	// A code of the document is kept: as the whole of ErrorCode, Code or DataCode, or at the beginning of a message
	// ("User.MetaspaceFull: 93 %"). The first one in this order is used.
	Code, Message string
	// DataCode and DataMessage are those of the answer's data. Over MQTT, DataMessage is the stack trace of a
	// failure.
	DataCode, DataMessage string
	// BizState is the current state of the module in any case; empty if unknown. It decides what a refused install
	// means.
	BizState string
}

// Repeated reports whether the base refused an install because it has that biz and version already.
func (a Answer) Repeated() bool { return strings.EqualFold(a.DataCode, "REPEAT_BIZ") }

// NotFound reports whether the base does not know the biz that it was asked about.
func (a Answer) NotFound() bool { return strings.EqualFold(a.DataCode, "NOT_FOUND_BIZ") }

// Succeeded reports whether the base reports a success.
func (a Answer) Succeeded() bool {
	return strings.EqualFold(a.Code, "SUCCESS") && (a.DataCode == "" || strings.EqualFold(a.DataCode, "SUCCESS")) && a.ErrorCode == ""
}

// ClassifyInstall returns Arklet's code of the answer to an install. It is zero for a success, which includes a
// repeated install of an active or deactivated module. The rules are those of protocol 6, in this order.
func ClassifyInstall(a Answer) Code {
	if code, ok := a.common(); ok {
		return code
	}
	if a.Repeated() {
		return a.repeated()
	}
	head, all := a.exception(), a.Message+"\n"+a.DataMessage
	switch {
	case a.throws(head, malformedURL):
		return OtherUpstreamDecodeURLFailed
	case strings.Contains(all, "No space left on device"):
		return UserDiskFull
	case metaspace.MatchString(all):
		return UserMetaspaceFull
	case machine.MatchString(all):
		return UserMachineMalfunction
	case a.throws(head, socketTimeout):
		return ArkletPullBizTimeOut
	case a.throws(head, ioException):
		return ArkletPullBizError
	case strings.Contains(all, "java.lang.reflect.InvocationTargetException"):
		return UserInstallBizUserError
	case notABiz.MatchString(all):
		return ArkletInstallationRequirementNotMet
	case validation.MatchString(a.Message):
		return ModuleControllerInvalidParameter
	case a.throws(head, classLoading):
		return ArkletInstallBizFailed
	}
	return ArkletUnknownError
}

// ClassifyUninstall returns Arklet's code of the answer to an uninstall; zero for a success. ArkletNoMatchedBiz means
// that the module does not exist.
func ClassifyUninstall(a Answer) Code {
	if code, ok := a.common(); ok {
		return code
	}
	switch {
	case a.NotFound():
		return ArkletNoMatchedBiz
	case strings.Contains(a.DataMessage, "Master biz must not be uninstalled"):
		return ModuleControllerInvalidRequest
	case validation.MatchString(a.Message):
		return ModuleControllerInvalidParameter
	}
	return ArkletUninstallBizFailed
}

// ForInstall returns the controller's code for an install with Arklet's code: the same if the controller's table has
// it, else InstallModuleFailed. The zero Code stays zero.
func ForInstall(arklet Code) Code {
	switch {
	case arklet == ArkletInstallBizExecuting:
		return ArkletInstallModuleExecuting
	case shared(arklet) != "" || arklet == "":
		return shared(arklet)
	case arklet.Source() == UserInstallModuleFailed.Source():
		return UserInstallModuleFailed
	}
	return ArkletInstallModuleFailed
}

// ForUninstall returns the controller's code for an uninstall with Arklet's code. A module that does not exist is a
// success. The document has no code for an uninstall that another command blocks.
func ForUninstall(arklet Code) Code {
	switch {
	case arklet == ArkletNoMatchedBiz:
		return ""
	case arklet == ArkletInstallBizExecuting:
		return ModuleControllerBaseInstanceInOperation
	case shared(arklet) != "" || arklet == "":
		return shared(arklet)
	}
	return ArkletUninstallBizFailed
}

// Passes reports whether the failure ends without a change of the module: the base is unreachable or busy.
func Passes(code Code) bool {
	switch code {
	case ArkletNetworkError, ArkletArkletServiceNotFound, ArkletInstallModuleExecuting, ModuleControllerBaseInstanceInOperation:
		return true
	}
	return false
}

// shared returns the controller's code with the meaning of Arklet's code, or the zero Code.
func shared(arklet Code) Code {
	if arklet == ModuleControllerInvalidParameter {
		return OtherUpstreamInvalidParameter
	}
	if _, ok := LookupIn(ModuleController, string(arklet)); ok {
		return arklet
	}
	return ""
}

// common returns the code that does not depend on the command.
func (a Answer) common() (Code, bool) {
	if a.Succeeded() {
		return "", true
	}
	if code := a.documented(); code != "" {
		return code, true
	}
	switch {
	case strings.Contains(a.Message, "conflict, exist unfinished command(uninstallBiz)"):
		return ModuleControllerBaseInstanceInOperation, true
	case strings.Contains(a.Message, "conflict, exist unfinished command"),
		strings.Contains(a.Message, "BizState must be ACTIVATED, DEACTIVATED or BROKEN"):
		return ArkletInstallBizExecuting, true
	case strings.EqualFold(a.Code, "CMD_NOT_FOUND"):
		return ModuleControllerInvalidRequest, true
	}
	return "", false
}

// documented returns the document's code in the answer, or the zero Code.
func (a Answer) documented() Code {
	for _, text := range []string{a.ErrorCode, a.Code, a.DataCode, heading(a.Message), heading(a.DataMessage)} {
		if info, ok := Lookup(text); ok {
			return info.Code
		}
	}
	return ""
}

// heading returns the beginning of a message up to a colon or a space, after "Internal Error: " and exception classes
// (protocol 6).
func heading(message string) string {
	message = strings.TrimPrefix(message, internalError)
	for range 2 { // over MQTT the trace begins with arklet's exception around the cause
		if class := exception.FindString(message); class != "" {
			message = strings.TrimPrefix(message[len(class):], ": ")
		}
	}
	if end := strings.IndexAny(message, ": \t\r\n"); end >= 0 {
		return message[:end]
	}
	return message
}

func (a Answer) repeated() Code {
	switch strings.ToLower(a.BizState) {
	case "activated", "deactivated":
		return ""
	case "resolved":
		return ArkletInstallBizExecuting
	}
	return ArkletInstallationRequirementNotMet
}

// exception returns the first exception class in the message, or the empty string. The stack trace is no evidence: it
// may have exceptions of the module's code.
func (a Answer) exception() string {
	return exception.FindString(strings.TrimPrefix(a.Message, internalError))
}

// throws reports whether the exception matches. Without one in the message, the stack trace may match.
func (a Answer) throws(head string, kind *regexp.Regexp) bool {
	if head != "" {
		return kind.MatchString(head)
	}
	return kind.MatchString(a.Message + "\n" + a.DataMessage)
}

// internalError precedes the message of an exception over HTTP (protocol 6).
const internalError = "Internal Error: "

var (
	exception     = regexp.MustCompile(`^(?:[a-z]\w*\.)+[A-Z]\w*`)
	malformedURL  = regexp.MustCompile(`\bjava\.net\.MalformedURLException\b`)
	metaspace     = regexp.MustCompile(`\bjava\.lang\.OutOfMemoryError: (?:Metaspace|Compressed class space)`)
	machine       = regexp.MustCompile(`\bjava\.lang\.(?:OutOfMemoryError|InternalError)\b|Input/output error`)
	socketTimeout = regexp.MustCompile(`\bjava\.net\.SocketTimeoutException\b`)
	ioException   = regexp.MustCompile(`\b(?:java\.(?:io|net|nio\.file)|javax\.net\.ssl)\.\w+Exception\b|refresh biz info from jar failed`)
	notABiz       = regexp.MustCompile(`Biz Name must not be empty|Biz Version must not be empty|Biz Main Class must not be empty|Archive must be a ark biz|\bjava\.util\.zip\.ZipException\b`)
	validation    = regexp.MustCompile(`should not be blank|should be both blank or both not blank|bizList is null|request is null|requestId is blank`)
	classLoading  = regexp.MustCompile(`\bjava\.lang\.(?:ClassNotFoundException|NoClassDefFoundError|NoSuch(?:Method|Field)(?:Exception|Error)|\w*LinkageError|UnsupportedClassVersionError|IncompatibleClassChangeError|ExceptionInInitializerError|VerifyError|ClassFormatError|AbstractMethodError)\b|\bcom\.alipay\.sofa\.ark\.\w*(?:\.\w+)*Exception\b`)
)
