package fault

import "slices"

// The two-level error codes of the Koupleless documentation. Real bases do not send error codes. Simulated bases send
// them in the field errorCode, unless they run in faithful mode (protocol 6).
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

var codes = []string{
	CodeInstallBizExecuting,
	CodeInstallBizFailed,
	CodeInstallBizTimedOut,
	CodeInstallRequirementNotMet,
	CodeInvalidBizName,
	CodeNoMatchedBiz,
	CodePullBizError,
	CodePullBizTimeout,
	CodeUninstallRequirementUnmet,
	CodeUninstallBizFailed,
	CodeUnknown,
	CodeInvalidParameter,
	CodeInvalidRequest,
	CodeDecodeURLFailed,
	CodeDiskFull,
	CodeInstallBizUserError,
	CodeMachineMalfunction,
	CodeMetaspaceFull,
}

// Codes returns the error codes that a fault of kind error accepts, sorted.
func Codes() []string { return slices.Sorted(slices.Values(codes)) }
