package fault

import "slices"

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

// Codes lists the codes that a fault of kind error may have, sorted.
func Codes() []string { return slices.Sorted(slices.Values(codes)) }
