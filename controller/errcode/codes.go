// Package errcode is the two-level error codes of Module Controller V2 document 5.6, each with its
// meaning and its suggestion, in Chinese as the document writes them and in English.
//
// A code is written Source.Type, for example Arklet.InstallModuleFailed: the source says who is at
// fault, the type what went wrong. The spelling is the document's, including ResourceConstraned and
// OverFiftyPercentBaseInstancesUnavaliable.
//
// Everything here is immutable data and pure functions, safe for concurrent use. The package
// imports nothing but the standard library, so that a client may use it without pulling in
// Kubernetes.
package errcode

import "strings"

// Code is an error code in its full form, Source.Type. The zero value stands for "no error".
type Code string

// Source returns who is at fault, the part before the dot; the whole text if there is no dot.
func (c Code) Source() string {
	source, _, _ := strings.Cut(string(c), ".")
	return source
}

// Type returns what went wrong, the part after the dot. It fits a container's or a condition's
// reason, which Kubernetes wants as one CamelCase word. A text without a dot has no type.
func (c Code) Type() string {
	_, typ, _ := strings.Cut(string(c), ".")
	return typ
}

// String returns the full form.
func (c Code) String() string { return string(c) }

// The codes whose fault lies with the arklet of a base, or with the way to it.
const (
	ArkletUnknownError                    Code = "Arklet.UnknownError"
	ArkletNoMatchedBiz                    Code = "Arklet.NoMatchedBiz"
	ArkletInvalidBizName                  Code = "Arklet.InvalidBizName"
	ArkletInstallationRequirementNotMet   Code = "Arklet.InstallationRequirementNotMet"
	ArkletPullBizError                    Code = "Arklet.PullBizError"
	ArkletPullBizTimeOut                  Code = "Arklet.PullBizTimeOut"
	ArkletInstallBizExecuting             Code = "Arklet.InstallBizExecuting"
	ArkletInstallBizTimedOut              Code = "Arklet.InstallBizTimedOut"
	ArkletInstallBizFailed                Code = "Arklet.InstallBizFailed"
	ArkletUninstallBizFailed              Code = "Arklet.UninstallBizFailed"
	ArkletUninstallBizTimedOut            Code = "Arklet.UninstallBizTimedOut"
	ArkletUnInstallationRequirementNotMet Code = "Arklet.UnInstallationRequirementNotMet"
	ArkletArkletServiceNotFound           Code = "Arklet.ArkletServiceNotFound"
	ArkletNetworkError                    Code = "Arklet.NetworkError"
	ArkletInstallModuleTimedOut           Code = "Arklet.InstallModuleTimedOut"
	ArkletInstallModuleFailed             Code = "Arklet.InstallModuleFailed"
	ArkletInstallModuleExecuting          Code = "Arklet.InstallModuleExecuting"
)

// The codes whose fault lies with the user: the module's code, or a base that is too small for it.
const (
	UserDiskFull            Code = "User.DiskFull"
	UserMachineMalfunction  Code = "User.MachineMalfunction"
	UserMetaspaceFull       Code = "User.MetaspaceFull"
	UserInstallBizUserError Code = "User.InstallBizUserError"
	UserInstallModuleFailed Code = "User.InstallModuleFailed"
)

// The codes whose fault lies with the module controller, or with what it knows of the bases.
const (
	ModuleControllerUnknownError                             Code = "ModuleController.UnknownError"
	ModuleControllerInvalidParameter                         Code = "ModuleController.InvalidParameter"
	ModuleControllerInvalidRequest                           Code = "ModuleController.InvalidRequest"
	ModuleControllerDBAccessError                            Code = "ModuleController.DBAccessError"
	ModuleControllerRetryTimesExceeded                       Code = "ModuleController.RetryTimesExceeded"
	ModuleControllerProcessNodeMissed                        Code = "ModuleController.ProcessNodeMissed"
	ModuleControllerServiceMissed                            Code = "ModuleController.ServiceMissed"
	ModuleControllerResourceConstraned                       Code = "ModuleController.ResourceConstraned"
	ModuleControllerBaseInstanceNotFound                     Code = "ModuleController.BaseInstanceNotFound"
	ModuleControllerBaseInstanceInOperation                  Code = "ModuleController.BaseInstanceInOperation"
	ModuleControllerBaseInstanceNotReady                     Code = "ModuleController.BaseInstanceNotReady"
	ModuleControllerBaseInstanceHasBeenReplaced              Code = "ModuleController.BaseInstanceHasBeenReplaced"
	ModuleControllerInsufficientHealthyBaseInstance          Code = "ModuleController.InsufficientHealthyBaseInstance"
	ModuleControllerRescaleRequirementNotMet                 Code = "ModuleController.RescaleRequirementNotMet"
	ModuleControllerBaseInstanceOperationFailed              Code = "ModuleController.BaseInstanceOperationFailed"
	ModuleControllerBaseInstanceUnderOperation               Code = "ModuleController.BaseInstanceUnderOperation"
	ModuleControllerBaseInstanceOperationTimeOut             Code = "ModuleController.BaseInstanceOperationTimeOut"
	ModuleControllerOverFiftyPercentBaseInstancesUnavaliable Code = "ModuleController.OverFiftyPercentBaseInstancesUnavaliable"
)

// The codes whose fault lies elsewhere. KubeAPIServer is used as a source by the document's second
// table although its list of sources does not name it.
const (
	KubeAPIServerGetBaseInstanceFailed          Code = "KubeAPIServer.GetBaseInstanceFailed"
	OtherUpstreamInvalidParameter               Code = "OtherUpstream.InvalidParameter"
	OtherUpstreamDecodeURLFailed                Code = "OtherUpstream.DecodeURLFailed"
	OtherUpstreamSecretAKError                  Code = "OtherUpstream.SecretAKError"
	OtherUpstreamEmptyIPList                    Code = "OtherUpstream.EmptyIPList"
	OtherDownstreamExternalError                Code = "OtherDownstream.ExternalError"
	KouplelessBoardUnknownError                 Code = "KouplelessBoard.UnknownError"
	KouplelessBoardOperationPlanNotFound        Code = "KouplelessBoard.OperationPlanNotFound"
	KouplelessBoardOperationPlanMutualExclusion Code = "KouplelessBoard.OperationPlanMutualExclusion"
	KouplelessBoardInternalError                Code = "KouplelessBoard.InternalError"
	KouplelessBoardThreadPoolError              Code = "KouplelessBoard.ThreadPoolError"
	KouplelessBoardBaselineInconsistency        Code = "KouplelessBoard.BaselineInconsistency"
	KouplelessBoardNetworkError                 Code = "KouplelessBoard.NetworkError"
)
