package supervise

import (
	"slices"
	"strings"
)

// The following lists contain the names of the environment variables that processes inherit from the command up. A
// trailing * matches any suffix. Processes do not inherit other variables, because a variable can contain a secret,
// or change the settings of a component, like METRICS_ADDR or ETCD_NAME. Additional variables can be set in Spec.Env.
var (
	// common lists the variables that most programs need.
	common = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "JAVA_HOME", "TMPDIR", "TZ", "LANG", "LANGUAGE",
		"LC_*"}
	// goRuntime lists the variables that configure the Go runtime.
	goRuntime = []string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG", "GOTRACEBACK", "GORACE", "GOCOVERDIR"}
	// daemon lists the additional variables that the daemon needs: variables of the container engine, of kind, and of
	// Go HTTP clients.
	daemon = []string{
		"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS", "DOCKER_TLS_VERIFY",
		"DOCKER_API_VERSION", "SSH_AUTH_SOCK",
		"CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINER_SSHKEY", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF",
		"CONTAINERS_REGISTRIES_CONF",
		"REGISTRY_AUTH_FILE", "KIND_EXPERIMENTAL_*", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
		"XDG_CACHE_HOME", "DBUS_SESSION_BUS_ADDRESS",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE",
		"SSL_CERT_DIR",
	}
)

// ScriptEnviron returns the environment variables for scripts in scenarios.
func ScriptEnviron(environ []string) []string { return filter(environ, common) }

// ComponentEnviron returns the environment variables for a component, including a custom controller.
func ComponentEnviron(environ []string) []string { return filter(environ, common, goRuntime) }

// DaemonEnviron returns the environment variables for a daemon. existing reports whether the sandbox uses an existing
// cluster. The daemon then inherits all variables, because a credential plugin in the kubeconfig may need any of
// them.
func DaemonEnviron(environ []string, existing bool) []string {
	if existing {
		return environ
	}
	return filter(environ, common, goRuntime, daemon)
}

func filter(environ []string, lists ...[]string) []string {
	kept := []string{} // not nil, which exec.Cmd treats as the whole environment
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if slices.ContainsFunc(slices.Concat(lists...), func(pattern string) bool {
			prefix, isPrefix := strings.CutSuffix(pattern, "*")
			return name == pattern || isPrefix && strings.HasPrefix(name, prefix)
		}) {
			kept = append(kept, variable)
		}
	}
	return kept
}
