package arklet

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/controller/errcode"
)

const arkletException = "com.alipay.sofa.koupleless.arklet.core.common.exception.ArkletRuntimeException"

// thrown returns the answer that a base sends over MQTT after an exception. The message contains the cause in one
// line, and the data contains the complete stack trace (protocol 3.7).
func thrown(cause, trace string) Answer {
	return Answer{
		Code: "FAILED", Message: cause, DataCode: "FAILED",
		DataMessage: arkletException + ": " + cause +
			"\n\tat com.alipay.sofa.koupleless.arklet.core.ops.UnifiedOperationServiceImpl.install\n" + trace,
	}
}

// overHTTP returns the answer that a base sends over HTTP after the exception that thrown describes.
func overHTTP(cause, trace string) Answer {
	a := thrown(cause, trace)
	return Answer{Code: "CMD_PROCESS_INTERNAL_ERROR", Message: "Internal Error: " + cause, DataMessage: a.DataMessage}
}

// classification is a test case: an answer, and its expected error codes in the Arklet and ModuleController tables.
type classification struct {
	name       string
	answer     Answer
	state      State // state of the module in the module list of the base
	arklet     errcode.Code
	controller errcode.Code
}

func checkClassified(t *testing.T, tests []classification, command Command, as func(errcode.Code) errcode.Code) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.answer.Command = command
			arklet := tt.answer.Classify(tt.state)
			if diff := cmp.Diff([]errcode.Code{tt.arklet, tt.controller},
				[]errcode.Code{arklet, as(arklet)}); diff != "" {
				t.Errorf("codes of Arklet and ModuleController (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClassifyInstall(t *testing.T) {
	const invocation = "java.lang.reflect.InvocationTargetException"
	repeat := Answer{
		Code: "FAILED", Message: "install biz not success!", DataCode: "REPEAT_BIZ",
		DataMessage: "Biz: biz1:1.0.0 has been installed or registered.",
	}
	tests := []classification{
		{"no answer", Answer{}, "", errcode.ArkletUnknownError, errcode.ArkletInstallModuleFailed},
		{"success", Answer{Code: "SUCCESS", DataCode: "SUCCESS"}, "", "", ""},
		{"success in lower case without data", Answer{Code: "success"}, "", "", ""},
		{"success around a failure", Answer{Code: "SUCCESS", DataCode: "FAILED"}, "", errcode.ArkletUnknownError,
			errcode.ArkletInstallModuleFailed},
		{"proposed code wins", Answer{Code: "FAILED", ErrorCode: "Arklet.InstallBizTimedOut", DataCode: "REPEAT_BIZ"},
			"", errcode.ArkletInstallBizTimedOut, errcode.ArkletInstallModuleFailed},
		{"unknown proposed code does not",
			Answer{Code: "FAILED", ErrorCode: "Arklet.Nonsense", Message: "java.lang.OutOfMemoryError: Metaspace"}, "",
			errcode.UserMetaspaceFull, errcode.UserInstallModuleFailed},
		{"documented outer code", Answer{Code: "User.MetaspaceFull", Message: "93 %"}, "", errcode.UserMetaspaceFull,
			errcode.UserInstallModuleFailed},
		{"documented inner code", Answer{Code: "FAILED", DataCode: "User.DiskFull"}, "", errcode.UserDiskFull,
			errcode.UserDiskFull},
		{"documented inner code in a success", Answer{Code: "SUCCESS", DataCode: "User.DiskFull"}, "",
			errcode.UserDiskFull, errcode.UserDiskFull},
		{"proposed code in a success", Answer{Code: "SUCCESS", ErrorCode: "User.DiskFull"}, "", errcode.UserDiskFull,
			errcode.UserDiskFull},
		{"documented code before the message",
			Answer{Code: "FAILED", Message: "User.MetaspaceFull: 93 % of 256 MiB are used"}, "",
			errcode.UserMetaspaceFull, errcode.UserInstallModuleFailed},
		{"documented code alone", Answer{Code: "FAILED", Message: "User.MachineMalfunction"}, "",
			errcode.UserMachineMalfunction, errcode.UserInstallModuleFailed},
		{"documented code over HTTP", overHTTP("User.MetaspaceFull: 93 %", ""), "", errcode.UserMetaspaceFull,
			errcode.UserInstallModuleFailed},
		{"documented code in an exception", thrown("java.lang.IllegalStateException: User.MetaspaceFull: 93 %", ""), "",
			errcode.UserMetaspaceFull, errcode.UserInstallModuleFailed},
		{"documented code in the inner message only",
			Answer{Code: "FAILED", DataCode: "FAILED",
				DataMessage: arkletException + ": com.x.CheckException: User.DiskFull no room"}, "",
			errcode.UserDiskFull, errcode.UserDiskFull},
		{"the controller's own code", Answer{Code: "FAILED", Message: "Arklet.InstallModuleTimedOut: 300 s"}, "",
			errcode.ArkletInstallModuleTimedOut, errcode.ArkletInstallModuleTimedOut},
		{"a code that is not documented", Answer{Code: "Arklet.Nonsense", Message: "User.Nonsense: x"}, "",
			errcode.ArkletUnknownError, errcode.ArkletInstallModuleFailed},
		{"a documented code further on", Answer{Code: "FAILED", Message: "not User.DiskFull: all is well"}, "",
			errcode.ArkletUnknownError, errcode.ArkletInstallModuleFailed},
		{"unknown command", Answer{Code: "CMD_NOT_FOUND", Message: "please follow the doc"}, "",
			errcode.ModuleControllerInvalidRequest, errcode.ArkletInstallModuleFailed},
		{"blank parameter", overHTTP("bizUrl should not be blank", ""), "", errcode.ModuleControllerInvalidParameter,
			errcode.OtherUpstreamInvalidParameter},
		{"half an identity", thrown("bizName and bizVersion should be both blank or both not blank.", ""), "",
			errcode.ModuleControllerInvalidParameter, errcode.OtherUpstreamInvalidParameter},
		{"not a URL", thrown("java.net.MalformedURLException: no protocol: biz1.jar", ""), "",
			errcode.OtherUpstreamDecodeURLFailed, errcode.OtherUpstreamDecodeURLFailed},
		{"pull 404", thrown("java.io.FileNotFoundException: http://h/x.jar", ""), "", errcode.ArkletPullBizError,
			errcode.ArkletInstallModuleFailed},
		{"pull refused over HTTP", overHTTP("java.net.ConnectException: Connection refused", ""), "",
			errcode.ArkletPullBizError, errcode.ArkletInstallModuleFailed},
		{"pull unknown host", thrown("java.net.UnknownHostException: h", ""), "", errcode.ArkletPullBizError,
			errcode.ArkletInstallModuleFailed},
		{"pull to read the manifest", thrown("refresh biz info from jar failed: h", ""), "", errcode.ArkletPullBizError,
			errcode.ArkletInstallModuleFailed},
		{"pull times out", thrown("java.net.SocketTimeoutException: Read timed out", ""), "",
			errcode.ArkletPullBizTimeOut, errcode.ArkletInstallModuleFailed},
		{"disk full", thrown("java.io.IOException: No space left on device", ""), "", errcode.UserDiskFull,
			errcode.UserDiskFull},
		{"no biz name", thrown("java.lang.IllegalArgumentException: Biz Name must not be empty!", ""), "",
			errcode.ArkletInstallationRequirementNotMet, errcode.ArkletInstallModuleFailed},
		{"no biz version", thrown("java.lang.IllegalArgumentException: Biz Version must not be empty!", ""), "",
			errcode.ArkletInstallationRequirementNotMet, errcode.ArkletInstallModuleFailed},
		{"not a biz", thrown("java.lang.IllegalArgumentException: Archive must be a ark biz!", ""), "",
			errcode.ArkletInstallationRequirementNotMet, errcode.ArkletInstallModuleFailed},
		{"not a zip", thrown("java.util.zip.ZipException: zip END header not found", ""), "",
			errcode.ArkletInstallationRequirementNotMet, errcode.ArkletInstallModuleFailed},
		{"no main class", thrown("java.lang.IllegalArgumentException: Biz Main Class must not be empty!", ""), "",
			errcode.ArkletInstallationRequirementNotMet, errcode.ArkletInstallModuleFailed},
		{"main class missing", thrown("java.lang.ClassNotFoundException: com.x.Biz1", ""), "",
			errcode.ArkletInstallBizFailed, errcode.ArkletInstallModuleFailed},
		{"no main method", overHTTP("java.lang.NoSuchMethodException: com.x.Biz1.main", ""), "",
			errcode.ArkletInstallBizFailed, errcode.ArkletInstallModuleFailed},
		{"repeated, installing", repeat, StateResolved, errcode.ArkletInstallBizExecuting,
			errcode.ArkletInstallModuleExecuting},
		{"repeated, active", repeat, StateActivated, "", ""},
		{"repeated, inactive", repeat, StateDeactivated, "", ""},
		{"repeated, broken", repeat, StateBroken, errcode.ArkletInstallationRequirementNotMet,
			errcode.ArkletInstallModuleFailed},
		{"repeated, state not known", repeat, "", errcode.ArkletInstallationRequirementNotMet,
			errcode.ArkletInstallModuleFailed},
		{"conflict", Answer{Code: "FAILED",
			Message: "FAILED:biz1:1.0.0 installBiz conflict, exist unfinished command(installBiz) for this biz"}, "",
			errcode.ArkletInstallBizExecuting, errcode.ArkletInstallModuleExecuting},
		{"conflict with an uninstall",
			Answer{Code: "FAILED",
				Message: "FAILED:biz1:1.0.0 installBiz conflict, exist unfinished command(uninstallBiz) for this biz"},
			"", errcode.ModuleControllerBaseInstanceInOperation, errcode.ModuleControllerBaseInstanceInOperation},
		{"user code throws", thrown(invocation, "Caused by: java.lang.IllegalStateException: no database"), "",
			errcode.UserInstallBizUserError, errcode.UserInstallModuleFailed},
		{"user code has I/O trouble", thrown(invocation, "Caused by: java.net.ConnectException: Connection refused"),
			"", errcode.UserInstallBizUserError, errcode.UserInstallModuleFailed},
		{"user code fills the metaspace", thrown(invocation, "Caused by: java.lang.OutOfMemoryError: Metaspace"), "",
			errcode.UserMetaspaceFull, errcode.UserInstallModuleFailed},
		{"metaspace", overHTTP("java.lang.OutOfMemoryError: Metaspace", ""), "", errcode.UserMetaspaceFull,
			errcode.UserInstallModuleFailed},
		{"heap", thrown("java.lang.OutOfMemoryError: Java heap space", ""), "", errcode.UserMachineMalfunction,
			errcode.UserInstallModuleFailed},
		{"broken disk", thrown("java.io.IOException: Input/output error", ""), "", errcode.UserMachineMalfunction,
			errcode.UserInstallModuleFailed},
		{"cause only in the stack trace",
			Answer{Code: "FAILED", DataCode: "FAILED",
				DataMessage: "x\nCaused by: java.io.FileNotFoundException: /m/x.jar"}, "", errcode.ArkletPullBizError,
			errcode.ArkletInstallModuleFailed},
		{"anything else", thrown("java.lang.NullPointerException", ""), "", errcode.ArkletUnknownError,
			errcode.ArkletInstallModuleFailed},
	}
	checkClassified(t, tests, CommandInstallBiz, errcode.ForInstall)
}

func TestClassifyUninstall(t *testing.T) {
	refused := func(code, message string) Answer {
		return Answer{Code: "FAILED", Message: "uninstall biz not success!", DataCode: code, DataMessage: message}
	}
	tests := []classification{
		{"no answer", Answer{}, "", errcode.ArkletUninstallBizFailed, errcode.ArkletUninstallBizFailed},
		{"success", Answer{Code: "SUCCESS", DataCode: "SUCCESS"}, "", "", ""},
		{"not there", refused("NOT_FOUND_BIZ", "Uninstall biz: biz1:1.0.0 not found."), "", errcode.ArkletNoMatchedBiz,
			""},
		{"master biz", refused("FAILED", "Master biz must not be uninstalled."), "",
			errcode.ModuleControllerInvalidRequest, errcode.ArkletUninstallBizFailed},
		{"proposed code", Answer{Code: "FAILED", ErrorCode: "Arklet.UnInstallationRequirementNotMet"}, "",
			errcode.ArkletUnInstallationRequirementNotMet, errcode.ArkletUninstallBizFailed},
		{"documented code before the message",
			Answer{Code: "FAILED", Message: "Arklet.UnInstallationRequirementNotMet: it is active"}, "",
			errcode.ArkletUnInstallationRequirementNotMet, errcode.ArkletUninstallBizFailed},
		{"documented code that the controller has", Answer{Code: "Arklet.UninstallBizTimedOut"}, "",
			errcode.ArkletUninstallBizTimedOut, errcode.ArkletUninstallBizTimedOut},
		{"blank name", overHTTP("bizName should not be blank", ""), "", errcode.ModuleControllerInvalidParameter,
			errcode.OtherUpstreamInvalidParameter},
		{"conflict", Answer{Code: "FAILED",
			Message: "FAILED:biz1:1.0.0 uninstallBiz conflict, exist unfinished command(installBiz) for this biz"}, "",
			errcode.ArkletInstallBizExecuting, errcode.ModuleControllerBaseInstanceInOperation},
		{"conflict with another uninstall",
			Answer{Code: "FAILED",
				Message: "FAILED:biz1:1.0.0 uninstallBiz conflict, exist unfinished " +
					"command(uninstallBiz) for this biz"}, "", errcode.ModuleControllerBaseInstanceInOperation,
			errcode.ModuleControllerBaseInstanceInOperation},
		{"still installing", thrown(
			"com.alipay.sofa.ark.exception.ArkRuntimeException: BizState must be ACTIVATED, DEACTIVATED or BROKEN.",
			""), "", errcode.ArkletInstallBizExecuting, errcode.ModuleControllerBaseInstanceInOperation},
		{"stop handler throws", thrown("java.lang.IllegalStateException: busy", ""), "",
			errcode.ArkletUninstallBizFailed, errcode.ArkletUninstallBizFailed},
	}
	checkClassified(t, tests, CommandUninstallBiz, errcode.ForUninstall)
}
