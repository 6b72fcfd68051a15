package errcode

import (
	"regexp"
	"strings"
)

// Answer is what a base says of one install or uninstall. The zero value is no answer at all and is
// classified as ArkletUnknownError.
type Answer struct {
	// ErrorCode is the field that this project proposes to add to the answer; real bases leave it
	// empty.
	ErrorCode string
	// Code and Message are the outer fields of the answer (protocol 4.3). Empty means absent.
	//
	// A code of the document in any of the fields is what the base calls the failure, and is kept:
	// as the whole of ErrorCode, Code or DataCode, or at the head of a message
	// ("User.MetaspaceFull: 93 %"). The first of them counts, in that order.
	Code, Message string
	// DataCode and DataMessage are code and message of the answer's data. Over MQTT DataMessage is
	// the stack trace of a failure; over HTTP pass errorStackTrace when there is no data.
	DataCode, DataMessage string
	// BizState is the state in which the base has the biz at this moment, in any case; empty if
	// that is not known. It decides what a refused repeated install means.
	BizState string
}

// Repeated reports whether the base refused an install because it has that biz and version already.
func (a Answer) Repeated() bool { return strings.EqualFold(a.DataCode, "REPEAT_BIZ") }

// NotFound reports whether the base does not know the biz that it was asked about.
func (a Answer) NotFound() bool { return strings.EqualFold(a.DataCode, "NOT_FOUND_BIZ") }

// Succeeded reports whether the base says that it did what it was asked for.
func (a Answer) Succeeded() bool {
	return strings.EqualFold(a.Code, "SUCCESS") && (a.DataCode == "" || strings.EqualFold(a.DataCode, "SUCCESS")) && a.ErrorCode == ""
}

// ClassifyInstall returns the code of Arklet's table that fits the answer to an install, and the
// zero Code for a success, which includes a repeated install of a biz that is activated or
// deactivated. The rules and their order are those of protocol 6. A failed removal of the old
// version (InstallBizTimedOut) cannot be told from the text of today's bases, only from ErrorCode.
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

// ClassifyUninstall returns the code of Arklet's table that fits the answer to an uninstall, and
// the zero Code for a success. ArkletNoMatchedBiz means that the biz is not there (any more), which
// ForUninstall counts as done.
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

// ForInstall returns what the module controller calls the failure of an install that Arklet's table
// calls arklet: the same code where the controller's table has it, else InstallModuleFailed of the
// user for a User code and of Arklet for the rest. The zero Code stays zero. Keep Arklet's code in
// the message, by wrapping the error that bears it.
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

// ForUninstall is ForInstall for an uninstall; a biz that is not there is a success. One that is
// being installed is ModuleControllerBaseInstanceInOperation: the documents have no code for an
// uninstall that another command is in the way of.
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

// Passes reports whether the failure with this code, one of the controller's table, is not the
// module's fault and ends by itself: the base cannot be reached, or is busy with the module.
func Passes(code Code) bool {
	switch code {
	case ArkletNetworkError, ArkletArkletServiceNotFound, ArkletInstallModuleExecuting, ModuleControllerBaseInstanceInOperation:
		return true
	}
	return false
}

// shared returns what the controller's table calls a code of Arklet's that means the same in both,
// and the zero Code if there is none.
func shared(arklet Code) Code {
	if arklet == ModuleControllerInvalidParameter {
		return OtherUpstreamInvalidParameter
	}
	if _, ok := LookupIn(ModuleController, string(arklet)); ok {
		return arklet
	}
	return ""
}

// common decides what needs no look at the command.
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

// documented returns the code of the document that the base itself gives, and the zero Code if it
// gives none.
func (a Answer) documented() Code {
	for _, text := range []string{a.ErrorCode, a.Code, a.DataCode, heading(a.Message), heading(a.DataMessage)} {
		if info, ok := Lookup(text); ok {
			return info.Code
		}
	}
	return ""
}

// heading returns what a message says first, up to a colon or a space: "Internal Error: " and the
// class of an exception (protocol 6) stand before what was said.
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

// exception returns the class of the exception that the message names first, and "" if it names
// none. The message is the cause in one line: what stands deeper in the stack trace may be the
// module's own trouble, an IOException of the user's code for example.
func (a Answer) exception() string {
	return exception.FindString(strings.TrimPrefix(a.Message, internalError))
}

// throws reports whether the named exception is of a kind; where the message names none, whether
// the stack trace has one of the kind.
func (a Answer) throws(head string, kind *regexp.Regexp) bool {
	if head != "" {
		return kind.MatchString(head)
	}
	return kind.MatchString(a.Message + "\n" + a.DataMessage)
}

// internalError stands before the message of an exception over HTTP (protocol 6).
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
