package why

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/redact"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// Reasons of waiting containers beside the types of error codes (controller/internal/vpod/status.go).
const (
	reasonDeactivated  = "BizDeactivate"
	reasonNotActivated = "BizNotActivated"
	reasonReplacing    = "ReplacingSameVersion"
	reasonBroken       = "BizBroken"
	reasonCreating     = "ContainerCreating"
	reasonResolved     = "BizResolved"
)

// commandRules are for a Pod on a base that is served and heard.
var commandRules = concat([]rule{
	{InjectedContainer, refused(injected, errcode.OtherUpstreamInvalidParameter, errcode.OtherUpstreamDecodeURLFailed)},
	{VersionRefUnresolved, refused(versionRef, errcode.OtherUpstreamInvalidParameter, errcode.OtherUpstreamSecretAKError, errcode.ModuleControllerDBAccessError)},
	{VersionInvalid, refused(versionInvalid, errcode.OtherUpstreamInvalidParameter)},
	{VersionMissing, refused(versionMissing, errcode.OtherUpstreamInvalidParameter)},
	{DuplicateModule, refused(duplicate, errcode.OtherUpstreamInvalidParameter)},
	{ImageWithoutScheme, refused(imageWithoutScheme, errcode.OtherUpstreamDecodeURLFailed)},
	{ImageSchemeUnsupported, refused(imageScheme, errcode.OtherUpstreamDecodeURLFailed)},
	{ImageNamesNoJar, refused(imageNamesNoJar, errcode.OtherUpstreamDecodeURLFailed)},
	{KeptDeactivated, waitsFor(reasonNotActivated, keptDeactivated)},
	{ReplacingSameVersion, waitsFor(reasonReplacing, replacing)},
	{InstallRetrying, retrying},
}, failureRules, []rule{
	{ModuleStopped, stopped},
	{CommandUnderWay, bound(underWay)},
	{NotTakenUp, bound(notTakenUp)},
	{CommandNotSent, bound(notSent)},
})

// lookAtBase is the advice where a command was not answered in time.
const lookAtBase = "look at the base: it lives and does not answer; a module that takes long to start needs a larger INSTALL_TIMEOUT"

// failureRules tell what a command failed of, by the innermost code of what the Pod says.
var failureRules = []rule{
	{WebContextTaken, webContextTaken},
	{ModuleBroken, broken},
	{MetaspaceFull, failed("take modules off the base, or start it with a larger -XX:MaxMetaspaceSize", errcode.UserMetaspaceFull)},
	{DiskFull, failed("free the disk of the base, or replace the base", errcode.UserDiskFull)},
	{JarNotFetched, failed("look whether the base reaches the URL, and whether it names a jar that is there", errcode.ArkletPullBizError, errcode.ArkletPullBizTimeOut, errcode.OtherUpstreamDecodeURLFailed)},
	{CommandTimedOut, failed(lookAtBase, errcode.ArkletInstallModuleTimedOut, errcode.ArkletUninstallBizTimedOut)},
	{BaseUnreachable, unreachable},
	{CommandTimedOut, stillInstalls},
	{InstalledBySomebody, failed("wait until that install is over", errcode.ArkletInstallBizExecuting, errcode.ArkletInstallModuleExecuting)},
	{UninstallFailing, failed("look at the base: what it has must go before the module can be installed anew", errcode.ArkletUninstallBizFailed, errcode.ArkletUnInstallationRequirementNotMet)},
	{InstallFailed, installFailed},
}

// waiting is the container that keeps the Pod from being Ready, and why: the first that says more
// than that it waits, else the first that waits.
func (v *view) waiting() (corev1.Container, *corev1.ContainerStateWaiting) {
	var first corev1.Container
	var why *corev1.ContainerStateWaiting
	if v.Pod == nil {
		return first, nil
	}
	for _, s := range v.Pod.Status.ContainerStatuses {
		i := slices.IndexFunc(v.Pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == s.Name })
		w := s.State.Waiting
		if w == nil || i < 0 {
			continue
		}
		if w.Reason != reasonCreating && w.Reason != reasonResolved {
			return v.Pod.Spec.Containers[i], w
		}
		if why == nil {
			first, why = v.Pod.Spec.Containers[i], w
		}
	}
	return first, why
}

// said is what a message of the controller has: its codes, the outermost first, and the rest
// without the suggestion that package errcode puts behind it.
func said(message string) (codes []errcode.Code, rest string) {
	rest = message
	suggestion := ""
	for {
		head, tail, more := strings.Cut(rest, ": ")
		info, known := errcode.Lookup(head)
		switch {
		case more && known:
			codes = append(codes, info.Code)
			if info.Suggestion != "" {
				suggestion = info.Suggestion
			}
			rest = tail
		case more && strings.Contains(head, nextTry):
			rest = tail
		default:
			return codes, sentence(strings.TrimSuffix(rest, "; "+suggestion))
		}
	}
}

// nextTry is what a message says when the next attempt is due (controller/internal/vpod/operate.go).
const nextTry = "the next one is at "

// refused is for what the controller refuses before it asks the base: the container waits with the
// type of one of the codes.
func refused(find func(v *view, c corev1.Container, text string) *finding, codes ...errcode.Code) func(*view) *finding {
	return func(v *view) *finding {
		c, w := v.waiting()
		if w == nil || !slices.ContainsFunc(codes, func(code errcode.Code) bool { return code.Type() == w.Reason }) {
			return nil
		}
		_, text := said(w.Message)
		return find(v, c, text)
	}
}

// template returns the template that the Pod was created from; nil if it is not known.
func (v *view) template() *corev1.PodTemplateSpec {
	if v.Template == nil && (v.Deployment != nil || v.DaemonSet != nil || v.StatefulSet != nil) {
		return v.workload().template
	}
	return v.Template
}

// injected is for a container that the template does not have.
func injected(v *view, c corev1.Container, text string) *finding {
	t := v.template()
	if t == nil || slices.ContainsFunc(t.Spec.Containers, func(o corev1.Container) bool { return o.Name == c.Name }) {
		return nil
	}
	return &finding{cause: fmt.Sprintf("admission added the container %s, which is not in the template, and it cannot be installed as a module: %s", c.Name, text),
		advice: "exclude module Pods from the injection of this container: a base runs no containers"}
}

// versionRef is for a version that comes from a source other than a plain value in the env of the container.
func versionRef(v *view, c corev1.Container, text string) *finding {
	var keys []string
	for _, s := range workload.VersionSources(v.Pod.Namespace, c) {
		keys = append(keys, fmt.Sprintf("key %s of ConfigMap %s", s.Key, s.ConfigMap.Name))
	}
	switch {
	case len(keys) > 0 && strings.HasPrefix(text, versionOf):
		f := refusal(text, "")
		f.cause += "; it comes from " + some(keys)
		f.advice = "correct the value in the ConfigMap; the controller reads it again within a minute"
		return f
	case len(keys) > 0 && strings.Contains(text, "ConfigMap "):
		return &finding{cause: fmt.Sprintf("%s of container %s refers to %s: %s", labels.VersionEnv, c.Name, some(keys), text),
			advice: "create the ConfigMap with that key; the controller reads it again within a minute"}
	case slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == labels.VersionEnv && e.ValueFrom != nil }):
		return refusal(text, "set that annotation or label in the metadata of the Pod's template")
	}
	return nil
}

// versionOf begins errors about the value of a version (controller/workload/check.go).
const versionOf = labels.VersionEnv + " of container"

// refusal splits an error of the controller into the cause and the advice after its semicolon.
func refusal(text, advice string) *finding {
	cause, fix, found := strings.Cut(text, "; ")
	if found {
		advice = fix
	}
	return &finding{cause: cause, advice: advice}
}

// versionInvalid is for a version that the controller cannot read.
func versionInvalid(_ *view, _ corev1.Container, text string) *finding {
	if !strings.HasPrefix(text, versionOf) {
		return nil
	}
	return refusal(text, "correct "+labels.VersionEnv+" in the env of the container, in the Pod's template")
}

func versionMissing(_ *view, c corev1.Container, text string) *finding {
	if !strings.Contains(text, "has no environment variable") {
		return nil
	}
	if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == labels.VersionEnv }) {
		text = fmt.Sprintf("%s of container %q is empty", labels.VersionEnv, c.Name)
	}
	return refusal(text, "set "+labels.VersionEnv+" in the env of the container, in the Pod's template")
}

func duplicate(_ *view, _ corev1.Container, text string) *finding {
	if !strings.Contains(text, "occurs twice") { // controller/internal/vpod/modules.go
		return nil
	}
	return &finding{cause: text, advice: "give each container a name of its own: it is the module's"}
}

const jarURL = "give the URL of the module's jar, such as https://host/biz1-1.0.0-ark-biz.jar"

func imageWithoutScheme(_ *view, c corev1.Container, text string) *finding {
	if u, err := url.Parse(c.Image); err == nil && u.Scheme != "" && u.Opaque == "" { // nginx:1.27 has nginx for its scheme
		return nil
	}
	if strings.Contains(c.Image, "://") { // text has the mistake in the URL
		return &finding{cause: text, advice: jarURL}
	}
	return &finding{cause: fmt.Sprintf("the image of container %s is %s, which is not a file://, http:// or https:// URL", c.Name, c.Image), advice: jarURL}
}

func imageScheme(_ *view, c corev1.Container, _ string) *finding {
	u, err := url.Parse(c.Image)
	if err != nil || slices.Contains([]string{"file", "http", "https"}, u.Scheme) {
		return nil
	}
	return &finding{cause: fmt.Sprintf("the image of container %s is %s, and bases do not fetch from %s://", c.Name, redact.URL(c.Image), u.Scheme), advice: jarURL}
}

func imageNamesNoJar(_ *view, _ corev1.Container, text string) *finding {
	return &finding{cause: text, advice: jarURL}
}

// waitsFor is for a container that waits with a reason.
func waitsFor(reason string, find func(v *view, c corev1.Container, message string) *finding) func(*view) *finding {
	return func(v *view) *finding {
		c, w := v.waiting()
		if w == nil || w.Reason != reason {
			return nil
		}
		return find(v, c, w.Message)
	}
}

func keptDeactivated(v *view, c corev1.Container, _ string) *finding {
	return &finding{cause: fmt.Sprintf("%s has installed %s:%s and keeps it deactivated, while an older version is active: the base does not activate new versions by itself", v.onBase(), c.Name, workload.Of(&v.Pod.ObjectMeta, c).Version),
		advice: "start the base with -Dactivate.new.module=true, or connect it over HTTP, where the controller can switch; or delete the Pods of the older version"}
}

func replacing(v *view, c corev1.Container, _ string) *finding {
	return &finding{cause: fmt.Sprintf("%s has this version of %s from another URL: it is uninstalled and installed again, one base after the other", v.onBase(), c.Name),
		advice: "wait; to release without a gap, raise BIZ_VERSION with each jar"}
}

// failure is what the Pod says of a failed command.
type failure struct {
	container corev1.Container
	codes     []errcode.Code
	text      string // what happened
	message   string
}

// failure is nil for a container that only waits.
func (v *view) failure() *failure {
	c, w := v.waiting()
	if w == nil {
		return nil
	}
	codes, text := said(w.Message)
	if len(codes) == 0 {
		return nil
	}
	return &failure{c, codes, text, w.Message}
}

func (f *failure) innermost() errcode.Code { return f.codes[len(f.codes)-1] }

// cause says what failed, and what the base says to it.
func (v *view) cause(f *failure) string {
	return fmt.Sprintf("%s could not be installed on %s: %s (%s)", f.container.Name, v.onBase(), f.text, f.innermost())
}

// again says when the command is sent again.
const again = "; the controller tries again by itself, with pauses that grow to five minutes, and at once when an annotation " + labels.Retry + " of the Pod changes"

// stillInstalls is for a base that works on an install that it has not answered in time: it refuses
// the next one as it would while somebody else installs.
func stillInstalls(v *view) *finding {
	f := v.failure()
	if f == nil || !slices.Contains([]errcode.Code{errcode.ArkletInstallBizExecuting, errcode.ArkletInstallModuleExecuting}, f.innermost()) {
		return nil
	}
	e, there := v.event(string(v.Pod.UID), errcode.ArkletInstallModuleTimedOut.Type())
	if !there {
		return nil
	}
	return &finding{cause: fmt.Sprintf("%s has not answered an install of %s in time (%s ago), and refuses another one while that goes on", v.onBase(), f.container.Name, v.ago(eventTime(e))),
		advice: lookAtBase + again}
}

func failed(advice string, codes ...errcode.Code) func(*view) *finding {
	return func(v *view) *finding {
		f := v.failure()
		if f == nil || !slices.Contains(codes, f.innermost()) {
			return nil
		}
		cause := v.cause(f)
		if image := f.container.Image; slices.Contains(codes, errcode.ArkletPullBizError) && !strings.Contains(image, ".jar") {
			cause += "; its image " + image + " has no .jar in it"
		}
		return &finding{cause: cause, advice: advice + again}
	}
}

// pathTaken matches the exception that the web server of a base throws if two modules have the same web context
// path.
var pathTaken = regexp.MustCompile(`Child name \[([^\]]*)\] is not unique`)

// webContextTaken is for a module whose web context path another module or version on the base uses.
func webContextTaken(v *view) *finding {
	f := v.failure()
	if f == nil || f.innermost() != errcode.UserInstallBizUserError {
		return nil
	}
	match := pathTaken.FindStringSubmatch(f.message + "\n" + strings.Join(v.Logs[f.container.Name], "\n"))
	if match == nil {
		return nil
	}
	return &finding{cause: fmt.Sprintf("%s could not be installed on %s: another module or version there uses its web context path /%s (%s)", f.container.Name, v.onBase(), strings.TrimPrefix(match[1], "/"), match[0]),
		advice: "give each version of a web module its own web context path, or uninstall the old version first: strategy Recreate, or maxSurge: 0" + again}
}

// unreachable distinguishes a base without a connection from one whose answers the controller ignores.
func unreachable(v *view) *finding {
	f := failed("check that the controller can reach the port of the base, or the broker", errcode.ArkletNetworkError, errcode.ArkletArkletServiceNotFound)(v)
	if f != nil && v.Node != nil && nodeReady(v.Node) && strings.Contains(f.cause, "did not answer in time") {
		f.advice = fmt.Sprintf("check the base and the log of the module controller: %s is Ready, so its heartbeats arrive; an answer that the controller rejects is logged as \"a message was rejected, or a part of it\"", v.onBase()) + again
	}
	return f
}

// broken: the module's own code, or what the base says of a module that is BROKEN.
func broken(v *view) *finding {
	const advice = "look at the module's code, and at the log of the base" + again
	if c, w := v.waiting(); w != nil && w.Reason == reasonBroken {
		return &finding{cause: fmt.Sprintf("module %s is BROKEN on %s: %s", c.Name, v.onBase(), sentence(w.Message)), advice: advice}
	}
	return failed("look at the module's code, and at the log of the base", errcode.UserInstallBizUserError)(v)
}

func installFailed(v *view) *finding {
	f := v.failure()
	if f == nil {
		return nil
	}
	return &finding{cause: v.cause(f), advice: "look at the log of the base" + again}
}

// retrying: it failed so often that the Pod says when the next attempt is due.
func retrying(v *view) *finding {
	f := v.failure()
	if f == nil || f.codes[0] != errcode.ModuleControllerRetryTimesExceeded {
		return nil
	}
	_, due, _ := strings.Cut(f.message, nextTry)
	due, _, _ = strings.Cut(due, ": ")
	for _, r := range failureRules {
		if why := r.find(v); why != nil {
			when := ""
			if at, err := time.Parse(time.RFC3339, due); err == nil {
				when = fmt.Sprintf("; the next attempt is at %s", clock(at))
				if left := at.Sub(v.now); left > 0 {
					when += fmt.Sprintf(", in %s", left.Round(time.Second))
				}
			}
			return &finding{because: r.reason, cause: "it was tried many times in vain: " + why.cause + when, advice: why.advice}
		}
	}
	return nil
}

func stopped(v *view) *finding {
	for _, s := range v.Pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			return &finding{cause: fmt.Sprintf("module %s has stopped on %s: %s", s.Name, v.onBase(), sentence(strings.TrimSpace(t.Reason+" "+t.Message))),
				advice: "the controller installs it anew; look at the log of the base"}
		}
	}
	return nil
}

// command is what the log has of the last command about a module.
type command struct {
	name string
	sent time.Time
	open bool // there is no answer yet
}

// logLayout is the time at the start of each line (controller/internal/kubelet/entry.go).
const logLayout = "2006-01-02 15:04:05.000"

// lastCommand reads the lines of a container's log: TIME MODULE:VERSION COMMAND sent, answered, or not answered.
func (v *view) lastCommand(container string) (last command, ok bool) {
	for _, line := range v.Logs[container] {
		if len(line) <= len(logLayout) {
			continue
		}
		at, err := time.Parse(logLayout, line[:len(logLayout)])
		if err != nil {
			continue
		}
		words := strings.Fields(line[len(logLayout):])
		if len(words) < 3 || !strings.HasPrefix(words[0], container+":") {
			continue
		}
		switch strings.TrimSuffix(words[2], ":") {
		case "sent":
			last, ok = command{name: words[1], sent: at, open: true}, true
		case "answered", "not":
			last.open = false
		}
	}
	return last, ok
}

// notReadyContainers are those that wait to be installed, and nothing is wrong with.
func (v *view) notReadyContainers() (names []string) {
	for _, c := range v.Pod.Spec.Containers {
		i := slices.IndexFunc(v.Pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		if i < 0 {
			names = append(names, c.Name)
			continue
		}
		if w := v.Pod.Status.ContainerStatuses[i].State.Waiting; w != nil && (w.Reason == reasonCreating || w.Reason == reasonResolved) {
			names = append(names, c.Name)
		}
	}
	return names
}

func underWay(v *view) *finding {
	const advice = "wait for the answer; how long a base may take says INSTALL_TIMEOUT, five minutes if nothing else is set"
	for _, name := range v.notReadyContainers() {
		if c, there := v.lastCommand(name); there && c.open {
			return &finding{cause: fmt.Sprintf("%s for %s is on its way to %s for %s, since %s, and is not answered yet", c.name, name, v.onBase(), v.ago(c.sent), clock(c.sent)), advice: advice}
		}
	}
	if c, w := v.waiting(); w != nil && w.Reason == reasonResolved {
		return &finding{cause: fmt.Sprintf("%s is installing %s: its state is RESOLVED, %s", v.onBase(), c.Name, sentence(w.Message)), advice: advice}
	}
	return nil
}

func notTakenUp(v *view) *finding {
	if len(v.Pod.Status.ContainerStatuses) > 0 {
		return nil
	}
	return &finding{cause: fmt.Sprintf("the Pod is bound to %s for %s, and its controller has not said anything of it yet", v.onBase(), v.ago(v.scheduler().LastTransitionTime.Time)),
		advice: "wait a second or two; if it stays so, look at the log of the module controller"}
}

func notSent(v *view) *finding {
	names := v.notReadyContainers()
	if len(names) == 0 {
		return nil
	}
	return &finding{cause: fmt.Sprintf("%s waits to be installed on %s, and the controller has not sent a command for it", names[0], v.onBase()),
		advice: fmt.Sprintf("wait: the controller installs VNODE_WORKER_NUM modules on a base concurrently, and another jar of one version on one base at a time; if this takes minutes, check that %s still runs (in a sandbox: koupsandbox base list)", v.onBase())}
}
