package errcode

// ForInstall converts the Arklet code of a failed install to a code in the table of ModuleController: the same code if
// the table contains it, else InstallModuleFailed. It returns the zero Code for the zero Code.
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

// ForUninstall converts the Arklet code of a failed uninstall to a code in the table of ModuleController. It returns
// the zero Code, which means success, if the module did not exist. An uninstall that another command blocks becomes
// BaseInstanceInOperation, because the document has no code for it.
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

// IsTransient reports whether a failed command can succeed later without a change of the module, because the base is
// unreachable or busy.
func IsTransient(code Code) bool {
	switch code {
	case ArkletNetworkError, ArkletArkletServiceNotFound, ArkletInstallModuleExecuting,
		ModuleControllerBaseInstanceInOperation:
		return true
	}
	return false
}

// shared returns the code in the table of ModuleController that has the same meaning as an Arklet code, or the zero
// Code.
func shared(arklet Code) Code {
	if arklet == ModuleControllerInvalidParameter {
		return OtherUpstreamInvalidParameter
	}
	if _, ok := LookupIn(ModuleController, string(arklet)); ok {
		return arklet
	}
	return ""
}
