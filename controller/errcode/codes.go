// Package errcode defines the error codes of Module Controller V2 document 5.6, with their meanings and suggestions in
// Chinese and English.
//
// A code is Source.Type, for example Arklet.InstallModuleFailed. The source is the component that caused the failure.
// The codes keep the spelling of the document, including ResourceConstraned and
// OverFiftyPercentBaseInstancesUnavaliable. The package imports only the standard library.
package errcode

import "strings"

// Code is an error code of the form Source.Type. The zero value means no error.
type Code string

// Source returns the part of the code before the dot.
func (c Code) Source() string {
	source, _, _ := strings.Cut(string(c), ".")
	return source
}

// Type returns the part of the code after the dot, or the empty string. The type is a valid reason for a condition.
func (c Code) Type() string {
	_, typ, _ := strings.Cut(string(c), ".")
	return typ
}

func (c Code) String() string { return string(c) }

// Failures of the arklet in a base, or of the network.
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

// Failures caused by the user: an error in the module code, or a base with too few resources.
const (
	UserDiskFull            Code = "User.DiskFull"
	UserMachineMalfunction  Code = "User.MachineMalfunction"
	UserMetaspaceFull       Code = "User.MetaspaceFull"
	UserInstallBizUserError Code = "User.InstallBizUserError"
	UserInstallModuleFailed Code = "User.InstallModuleFailed"
)

// Failures of the module controller.
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
	ModuleControllerOverFiftyPercentBaseInstancesUnavaliable Code = "ModuleController." +
		"OverFiftyPercentBaseInstancesUnavaliable"
)

// Failures with other sources. The error code tables of the Koupleless documentation use KubeAPIServer but do not
// list it as a source.
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
