package errcode

// ForInstall converts the Arklet code of a failed install to a ModuleController code: the code with the same meaning
// if the ModuleController table contains one, and InstallModuleFailed otherwise. For the zero Code, it returns the
// zero Code.
func ForInstall(arklet Code) Code {
	switch {
	case arklet == ArkletInstallBizExecuting:
		return ArkletInstallModuleExecuting
	case equivalentCode(arklet) != "" || arklet == "":
		return equivalentCode(arklet)
	case arklet.Source() == UserInstallModuleFailed.Source():
		return UserInstallModuleFailed
	}
	return ArkletInstallModuleFailed
}

// ForUninstall converts the Arklet code of a failed uninstall to a ModuleController code. If the module did not
// exist, it returns the zero Code, which means success. If another command blocked the uninstall, it returns
// BaseInstanceInOperation, because the document has no code for this failure.
func ForUninstall(arklet Code) Code {
	switch {
	case arklet == ArkletNoMatchedBiz:
		return ""
	case arklet == ArkletInstallBizExecuting:
		return ModuleControllerBaseInstanceInOperation
	case equivalentCode(arklet) != "" || arklet == "":
		return equivalentCode(arklet)
	}
	return ArkletUninstallBizFailed
}

// IsTransient reports whether the failure is temporary: the base is unreachable or busy, so a retry can succeed
// without a change to the module.
func IsTransient(code Code) bool {
	switch code {
	case ArkletNetworkError, ArkletArkletServiceNotFound, ArkletInstallModuleExecuting,
		ModuleControllerBaseInstanceInOperation:
		return true
	}
	return false
}

// equivalentCode returns the ModuleController code with the same meaning as an Arklet code, or the zero Code if no such
// code exists.
func equivalentCode(arklet Code) Code {
	if arklet == ModuleControllerInvalidParameter {
		return OtherUpstreamInvalidParameter
	}
	if _, ok := LookupIn(ModuleController, string(arklet)); ok {
		return arklet
	}
	return ""
}
