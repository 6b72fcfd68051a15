package errcode

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

// IsTransient reports whether the failure ends without a change of the module: the base is unreachable or busy.
func IsTransient(code Code) bool {
	switch code {
	case ArkletNetworkError, ArkletArkletServiceNotFound, ArkletInstallModuleExecuting,
		ModuleControllerBaseInstanceInOperation:
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
