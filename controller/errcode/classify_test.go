package errcode

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const arkletException = "com.alipay.sofa.koupleless.arklet.core.common.exception.ArkletRuntimeException"

// thrown is the answer that a base gives over MQTT when the install throws: the cause in one line,
// and the whole stack trace in the data (protocol 3.6).
func thrown(cause, trace string) Answer {
	return Answer{
		Code: "FAILED", Message: cause, DataCode: "FAILED",
		DataMessage: arkletException + ": " + cause +
			"\n\tat com.alipay.sofa.koupleless.arklet.core.ops.UnifiedOperationServiceImpl.install\n" + trace,
	}
}

// overHTTP is the same over HTTP.
func overHTTP(cause, trace string) Answer {
	a := thrown(cause, trace)
	return Answer{Code: "CMD_PROCESS_INTERNAL_ERROR", Message: "Internal Error: " + cause, DataMessage: a.DataMessage}
}

// classification is what Arklet's table and the controller's call an answer.
type classification struct {
	name       string
	answer     Answer
	arklet     Code
	controller Code
}

func check(t *testing.T, tests []classification, classify func(Answer) Code, as func(Code) Code) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			arklet := classify(tt.answer)
			if diff := cmp.Diff([]Code{tt.arklet, tt.controller}, []Code{arklet, as(arklet)}); diff != "" {
				t.Errorf("Arklet's code, the controller's code (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClassifyInstall(t *testing.T) {
	const invocation = "java.lang.reflect.InvocationTargetException"
	repeat := func(state string) Answer {
		return Answer{Code: "FAILED", Message: "install biz not success!", DataCode: "REPEAT_BIZ", BizState: state,
			DataMessage: "Biz: biz1:1.0.0 has been installed or registered."}
	}
	tests := []classification{
		{"no answer", Answer{}, ArkletUnknownError, ArkletInstallModuleFailed},
		{"success", Answer{Code: "SUCCESS", DataCode: "SUCCESS"}, "", ""},
		{"success in lower case without data", Answer{Code: "success"}, "", ""},
		{"success around a failure", Answer{Code: "SUCCESS", DataCode: "FAILED"}, ArkletUnknownError, ArkletInstallModuleFailed},
		{"proposed code wins", Answer{Code: "FAILED", ErrorCode: "Arklet.InstallBizTimedOut", DataCode: "REPEAT_BIZ"}, ArkletInstallBizTimedOut, ArkletInstallModuleFailed},
		{"unknown proposed code does not", Answer{Code: "FAILED", ErrorCode: "Arklet.Nonsense", Message: "java.lang.OutOfMemoryError: Metaspace"}, UserMetaspaceFull, UserInstallModuleFailed},
		{"documented outer code", Answer{Code: "User.MetaspaceFull", Message: "93 %"}, UserMetaspaceFull, UserInstallModuleFailed},
		{"documented inner code", Answer{Code: "FAILED", DataCode: "User.DiskFull"}, UserDiskFull, UserDiskFull},
		{"documented inner code in a success", Answer{Code: "SUCCESS", DataCode: "User.DiskFull"}, UserDiskFull, UserDiskFull},
		{"proposed code in a success", Answer{Code: "SUCCESS", ErrorCode: "User.DiskFull"}, UserDiskFull, UserDiskFull},
		{"documented code before the message", Answer{Code: "FAILED", Message: "User.MetaspaceFull: 93 % of 256 MiB are used"}, UserMetaspaceFull, UserInstallModuleFailed},
		{"documented code alone", Answer{Code: "FAILED", Message: "User.MachineMalfunction"}, UserMachineMalfunction, UserInstallModuleFailed},
		{"documented code over HTTP", overHTTP("User.MetaspaceFull: 93 %", ""), UserMetaspaceFull, UserInstallModuleFailed},
		{"documented code in an exception", thrown("java.lang.IllegalStateException: User.MetaspaceFull: 93 %", ""), UserMetaspaceFull, UserInstallModuleFailed},
		{"documented code in the inner message only", Answer{Code: "FAILED", DataCode: "FAILED", DataMessage: arkletException + ": com.x.CheckException: User.DiskFull no room"}, UserDiskFull, UserDiskFull},
		{"the controller's own code", Answer{Code: "FAILED", Message: "Arklet.InstallModuleTimedOut: 300 s"}, ArkletInstallModuleTimedOut, ArkletInstallModuleTimedOut},
		{"a code that is not documented", Answer{Code: "Arklet.Nonsense", Message: "User.Nonsense: x"}, ArkletUnknownError, ArkletInstallModuleFailed},
		{"a documented code further on", Answer{Code: "FAILED", Message: "not User.DiskFull: all is well"}, ArkletUnknownError, ArkletInstallModuleFailed},
		{"unknown command", Answer{Code: "CMD_NOT_FOUND", Message: "please follow the doc"}, ModuleControllerInvalidRequest, ArkletInstallModuleFailed},
		{"blank parameter", overHTTP("bizUrl should not be blank", ""), ModuleControllerInvalidParameter, OtherUpstreamInvalidParameter},
		{"half an identity", thrown("bizName and bizVersion should be both blank or both not blank.", ""), ModuleControllerInvalidParameter, OtherUpstreamInvalidParameter},
		{"not a URL", thrown("java.net.MalformedURLException: no protocol: biz1.jar", ""), OtherUpstreamDecodeURLFailed, OtherUpstreamDecodeURLFailed},
		{"pull 404", thrown("java.io.FileNotFoundException: http://h/x.jar", ""), ArkletPullBizError, ArkletInstallModuleFailed},
		{"pull refused over HTTP", overHTTP("java.net.ConnectException: Connection refused", ""), ArkletPullBizError, ArkletInstallModuleFailed},
		{"pull unknown host", thrown("java.net.UnknownHostException: h", ""), ArkletPullBizError, ArkletInstallModuleFailed},
		{"pull to read the manifest", thrown("refresh biz info from jar failed: h", ""), ArkletPullBizError, ArkletInstallModuleFailed},
		{"pull times out", thrown("java.net.SocketTimeoutException: Read timed out", ""), ArkletPullBizTimeOut, ArkletInstallModuleFailed},
		{"disk full", thrown("java.io.IOException: No space left on device", ""), UserDiskFull, UserDiskFull},
		{"no biz name", thrown("java.lang.IllegalArgumentException: Biz Name must not be empty!", ""), ArkletInstallationRequirementNotMet, ArkletInstallModuleFailed},
		{"no biz version", thrown("java.lang.IllegalArgumentException: Biz Version must not be empty!", ""), ArkletInstallationRequirementNotMet, ArkletInstallModuleFailed},
		{"not a biz", thrown("java.lang.IllegalArgumentException: Archive must be a ark biz!", ""), ArkletInstallationRequirementNotMet, ArkletInstallModuleFailed},
		{"not a zip", thrown("java.util.zip.ZipException: zip END header not found", ""), ArkletInstallationRequirementNotMet, ArkletInstallModuleFailed},
		{"no main class", thrown("java.lang.IllegalArgumentException: Biz Main Class must not be empty!", ""), ArkletInstallationRequirementNotMet, ArkletInstallModuleFailed},
		{"main class missing", thrown("java.lang.ClassNotFoundException: com.x.Biz1", ""), ArkletInstallBizFailed, ArkletInstallModuleFailed},
		{"no main method", overHTTP("java.lang.NoSuchMethodException: com.x.Biz1.main", ""), ArkletInstallBizFailed, ArkletInstallModuleFailed},
		{"repeated, installing", repeat("resolved"), ArkletInstallBizExecuting, ArkletInstallModuleExecuting},
		{"repeated, active", repeat("ACTIVATED"), "", ""},
		{"repeated, inactive", repeat("deactivated"), "", ""},
		{"repeated, broken", repeat("broken"), ArkletInstallationRequirementNotMet, ArkletInstallModuleFailed},
		{"repeated, state not known", repeat(""), ArkletInstallationRequirementNotMet, ArkletInstallModuleFailed},
		{"conflict", Answer{Code: "FAILED", Message: "FAILED:biz1:1.0.0 installBiz conflict, exist unfinished command(installBiz) for this biz"}, ArkletInstallBizExecuting, ArkletInstallModuleExecuting},
		{"conflict with an uninstall", Answer{Code: "FAILED", Message: "FAILED:biz1:1.0.0 installBiz conflict, exist unfinished command(uninstallBiz) for this biz"}, ModuleControllerBaseInstanceInOperation, ModuleControllerBaseInstanceInOperation},
		{"user code throws", thrown(invocation, "Caused by: java.lang.IllegalStateException: no database"), UserInstallBizUserError, UserInstallModuleFailed},
		{"user code has I/O trouble", thrown(invocation, "Caused by: java.net.ConnectException: Connection refused"), UserInstallBizUserError, UserInstallModuleFailed},
		{"user code fills the metaspace", thrown(invocation, "Caused by: java.lang.OutOfMemoryError: Metaspace"), UserMetaspaceFull, UserInstallModuleFailed},
		{"metaspace", overHTTP("java.lang.OutOfMemoryError: Metaspace", ""), UserMetaspaceFull, UserInstallModuleFailed},
		{"heap", thrown("java.lang.OutOfMemoryError: Java heap space", ""), UserMachineMalfunction, UserInstallModuleFailed},
		{"broken disk", thrown("java.io.IOException: Input/output error", ""), UserMachineMalfunction, UserInstallModuleFailed},
		{"cause only in the stack trace", Answer{Code: "FAILED", DataCode: "FAILED", DataMessage: "x\nCaused by: java.io.FileNotFoundException: /m/x.jar"}, ArkletPullBizError, ArkletInstallModuleFailed},
		{"anything else", thrown("java.lang.NullPointerException", ""), ArkletUnknownError, ArkletInstallModuleFailed},
	}
	check(t, tests, ClassifyInstall, ForInstall)
}

func TestClassifyUninstall(t *testing.T) {
	refused := func(code, message string) Answer {
		return Answer{Code: "FAILED", Message: "uninstall biz not success!", DataCode: code, DataMessage: message}
	}
	tests := []classification{
		{"no answer", Answer{}, ArkletUninstallBizFailed, ArkletUninstallBizFailed},
		{"success", Answer{Code: "SUCCESS", DataCode: "SUCCESS"}, "", ""},
		{"not there", refused("NOT_FOUND_BIZ", "Uninstall biz: biz1:1.0.0 not found."), ArkletNoMatchedBiz, ""},
		{"master biz", refused("FAILED", "Master biz must not be uninstalled."), ModuleControllerInvalidRequest, ArkletUninstallBizFailed},
		{"proposed code", Answer{Code: "FAILED", ErrorCode: "Arklet.UnInstallationRequirementNotMet"}, ArkletUnInstallationRequirementNotMet, ArkletUninstallBizFailed},
		{"documented code before the message", Answer{Code: "FAILED", Message: "Arklet.UnInstallationRequirementNotMet: it is active"}, ArkletUnInstallationRequirementNotMet, ArkletUninstallBizFailed},
		{"documented code that the controller has", Answer{Code: "Arklet.UninstallBizTimedOut"}, ArkletUninstallBizTimedOut, ArkletUninstallBizTimedOut},
		{"blank name", overHTTP("bizName should not be blank", ""), ModuleControllerInvalidParameter, OtherUpstreamInvalidParameter},
		{"conflict", Answer{Code: "FAILED", Message: "FAILED:biz1:1.0.0 uninstallBiz conflict, exist unfinished command(installBiz) for this biz"}, ArkletInstallBizExecuting, ModuleControllerBaseInstanceInOperation},
		{"conflict with another uninstall", Answer{Code: "FAILED", Message: "FAILED:biz1:1.0.0 uninstallBiz conflict, exist unfinished command(uninstallBiz) for this biz"}, ModuleControllerBaseInstanceInOperation, ModuleControllerBaseInstanceInOperation},
		{"still installing", thrown("com.alipay.sofa.ark.exception.ArkRuntimeException: BizState must be ACTIVATED, DEACTIVATED or BROKEN.", ""), ArkletInstallBizExecuting, ModuleControllerBaseInstanceInOperation},
		{"stop handler throws", thrown("java.lang.IllegalStateException: busy", ""), ArkletUninstallBizFailed, ArkletUninstallBizFailed},
	}
	check(t, tests, ClassifyUninstall, ForUninstall)
}

func TestPasses(t *testing.T) {
	var got []Code
	for _, info := range All() {
		if info.Component == ModuleController && Passes(info.Code) {
			got = append(got, info.Code)
		}
	}
	want := []Code{ArkletArkletServiceNotFound, ArkletNetworkError, ArkletInstallModuleExecuting, ModuleControllerBaseInstanceInOperation}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("codes that pass (-want +got):\n%s", diff)
	}
}
