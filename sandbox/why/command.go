package why

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// commandRules are for a Pod on a base that is served and heard.
var commandRules = slices.Concat([]rule{
	{InjectedContainer, refused(func(v *view, c corev1.Container, text string) *finding {
		t := v.template()
		return when(t != nil && !slices.ContainsFunc(t.Spec.Containers, func(o corev1.Container) bool { return o.Name == c.Name }),
			fmt.Sprintf("admission added the container %s, which is not in the template, and it cannot be installed as a module: %s", c.Name, text),
			"exclude module Pods from the injection of this container: a base runs no containers")
	})},
	{VersionRefUnresolved, refused(versionRef)},
	{VersionMissing, refused(func(v *view, c corev1.Container, text string) *finding {
		if version, err := workload.Version(&v.Pod.ObjectMeta, c); version != "" || err != nil {
			return nil
		}
		return refusal(text, "set "+labels.VersionEnv+" in the env of the container, in the Pod's template")
	})},
	{VersionInvalid, refused(func(v *view, c corev1.Container, text string) *finding {
		if workload.CheckVersion(&v.Pod.ObjectMeta, c) == nil {
			return nil
		}
		return refusal(text, "correct "+labels.VersionEnv+" in the env of the container, in the Pod's template")
	})},
	{ImageNotAJar, refused(func(_ *view, c corev1.Container, _ string) *finding {
		err := workload.CheckImage(c)
		if err == nil {
			return nil
		}
		return refusal(errors.Unwrap(err).Error(), "give the URL of the module's jar, such as https://host/biz1-1.0.0-ark-biz.jar")
	})},
	{KeptDeactivated, func(v *view) *finding {
		c, w := v.waiting()
		return when(w != nil && w.Reason == api.ReasonNotActivated,
			fmt.Sprintf("%s has installed %s:%s and keeps it deactivated, while an older version is active: the base does not activate new versions by itself", v.onBase(), c.Name, workload.Of(&v.Pod.ObjectMeta, c).Version),
			"start the base with -Dactivate.new.module=true, or connect it over HTTP, where the controller can switch; or delete the Pods of the older version")
	}},
	{ReplacingSameVersion, func(v *view) *finding {
		c, w := v.waiting()
		return when(w != nil && w.Reason == api.ReasonReplacing, fmt.Sprintf("%s has this version of %s from another URL: it is uninstalled and installed again, one base after the other", v.onBase(), c.Name),
			"wait; to release without a gap, raise BIZ_VERSION with each jar")
	}},
	{InstallRetrying, retrying},
}, failureRules, []rule{
	{ModuleStopped, func(v *view) *finding {
		for _, s := range v.Pod.Status.ContainerStatuses {
			if t := s.State.Terminated; t != nil {
				return &finding{cause: fmt.Sprintf("module %s has stopped on %s: %s", s.Name, v.onBase(), sentence(strings.TrimSpace(t.Reason+" "+t.Message))),
					advice: "the controller installs it anew; look at the log of the base"}
			}
		}
		return nil
	}},
}, guarded((*view).bound, []rule{
	{CommandUnderWay, underWay},
	{NotTakenUp, func(v *view) *finding {
		return when(len(v.Pod.Status.ContainerStatuses) == 0,
			fmt.Sprintf("the Pod is bound to %s for %s, and its controller has not said anything of it yet", v.onBase(), v.ago(v.scheduler().LastTransitionTime.Time)),
			"wait a second or two; if it stays so, look at the log of the module controller")
	}},
	{CommandNotSent, func(v *view) *finding {
		names := v.notReadyContainers()
		if len(names) == 0 {
			return nil
		}
		return &finding{cause: fmt.Sprintf("%s waits to be installed on %s, and the controller has not sent a command for it", names[0], v.onBase()),
			advice: fmt.Sprintf("wait: the controller installs VNODE_WORKER_NUM modules on a base concurrently, and another jar of one version on one base at a time; if this takes minutes, check that %s still runs (in a sandbox: koupsandbox base list)", v.onBase())}
	}},
}...))

// The advice for failures. again is appended to it.
const (
	lookAtBase = "look at the base: it lives and does not answer; a module that takes long to start needs a larger INSTALL_TIMEOUT"
	lookAtCode = "look at the module's code, and at the log of the base"
	again      = "; the controller tries again by itself, with pauses that grow to five minutes, and at once when an annotation " + labels.Retry + " of the Pod changes"
)

// failureRules find why a command failed, by the innermost code in the message of the Pod.
var failureRules = []rule{
	{WebContextTaken, failed(webContextTaken, errcode.UserInstallBizUserError)},
	{ModuleBroken, func(v *view) *finding {
		c, w := v.waiting()
		return when(w != nil && w.Reason == api.ReasonBroken, fmt.Sprintf("module %s is BROKEN on %s: %s", c.Name, v.onBase(), sentence(messageOf(w))), lookAtCode+again)
	}},
	{ModuleBroken, failedFor(lookAtCode, errcode.UserInstallBizUserError)},
	{MetaspaceFull, failedFor("take modules off the base, or start it with a larger -XX:MaxMetaspaceSize", errcode.UserMetaspaceFull)},
	{DiskFull, failedFor("free the disk of the base, or replace the base", errcode.UserDiskFull)},
	{JarNotFetched, failed(func(v *view, f *failure) *finding {
		cause := v.cause(f)
		if image := f.container.Image; !strings.Contains(image, ".jar") {
			cause += "; its image " + image + " has no .jar in it"
		}
		return &finding{cause: cause, advice: "look whether the base reaches the URL, and whether it names a jar that is there" + again}
	}, errcode.ArkletPullBizError, errcode.ArkletPullBizTimeOut, errcode.OtherUpstreamDecodeURLFailed)},
	{CommandTimedOut, failedFor(lookAtBase, errcode.ArkletInstallModuleTimedOut, errcode.ArkletUninstallBizTimedOut)},
	{BaseUnreachable, failed(func(v *view, f *failure) *finding {
		advice := "check that the controller can reach the port of the base, or the broker"
		if v.Node != nil && nodeReady(v.Node) {
			advice = fmt.Sprintf("%s is Ready, so its heartbeats arrive: check that the controller can reach the port of the base, and its log; an answer that it rejects is logged as \"a message was rejected, or a part of it\"", v.onBase())
		}
		return &finding{cause: v.cause(f), advice: advice + again}
	}, errcode.ArkletNetworkError, errcode.ArkletArkletServiceNotFound)},
	{CommandTimedOut, failed(func(v *view, f *failure) *finding { // the base works on an install that it has not answered in time
		e, there := v.event(string(v.Pod.UID), errcode.ArkletInstallModuleTimedOut.Type())
		return when(there, fmt.Sprintf("%s has not answered an install of %s in time (%s ago), and refuses another one while that goes on", v.onBase(), f.container.Name, v.ago(eventTime(e))), lookAtBase+again)
	}, errcode.ArkletInstallBizExecuting, errcode.ArkletInstallModuleExecuting)},
	{InstalledBySomebody, failedFor("wait until that install is over", errcode.ArkletInstallBizExecuting, errcode.ArkletInstallModuleExecuting)},
	{UninstallFailing, failedFor("look at the base: what it has must go before the module can be installed anew", errcode.ArkletUninstallBizFailed, errcode.ArkletUnInstallationRequirementNotMet)},
	{InstallFailed, failedFor("look at the log of the base")},
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
		if w.Reason != api.ReasonContainerCreating && w.Reason != api.ReasonResolved {
			return v.Pod.Spec.Containers[i], w
		}
		if why == nil {
			first, why = v.Pod.Spec.Containers[i], w
		}
	}
	return first, why
}

// said parses a message of the controller: its codes, the outermost first, when the command is sent again (zero if the
// message does not state it), and what happened.
func said(message string) (codes []errcode.Code, next time.Time, text string) {
	codes, text = errcode.Parse(message)
	if at, rest, found := api.CutNextAttempt(text); found {
		inner, cause := errcode.Parse(rest)
		codes, next, text = append(codes, inner...), at, cause
	}
	return codes, next, sentence(text)
}

// refused is for a container that the controller does not install: its own check finds an error.
func refused(find func(v *view, c corev1.Container, text string) *finding) func(*view) *finding {
	return func(v *view) *finding {
		c, w := v.waiting()
		if w == nil {
			return nil
		}
		codes, _, text := said(w.Message)
		refusals := []errcode.Code{errcode.OtherUpstreamInvalidParameter, errcode.OtherUpstreamDecodeURLFailed, errcode.OtherUpstreamSecretAKError, errcode.ModuleControllerDBAccessError}
		if len(codes) != 1 || !slices.Contains(refusals, codes[0]) || workload.Check(&v.Pod.ObjectMeta, c) == nil {
			return nil
		}
		return find(v, c, text)
	}
}

// messageOf returns the message of a waiting container; empty if it does not wait.
func messageOf(w *corev1.ContainerStateWaiting) string {
	if w == nil {
		return ""
	}
	return w.Message
}

// template returns the template that the Pod was created from; nil if it is not known.
func (v *view) template() *corev1.PodTemplateSpec {
	if v.Template == nil && (v.Deployment != nil || v.DaemonSet != nil || v.StatefulSet != nil) {
		return v.workload().template
	}
	return v.Template
}

// versionRef is for a version that comes from a source other than a plain value in the env of the container.
func versionRef(v *view, c corev1.Container, text string) *finding {
	if keys := configMapKeys(v.Pod.Namespace, c); keys != "" && errors.Is(workload.CheckVersion(&v.Pod.ObjectMeta, c), workload.ErrUnresolved) {
		f := refusal(text, "")
		f.cause += fmt.Sprintf("; %s refers to %s", labels.VersionEnv, keys)
		f.advice = "correct or create that key of the ConfigMap; the controller reads it again within a minute"
		return f
	}
	if workload.CheckVersion(&v.Pod.ObjectMeta, c) != nil && slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == labels.VersionEnv && e.ValueFrom != nil }) {
		return refusal(text, "set that annotation or label in the metadata of the Pod's template")
	}
	return nil
}

// configMapKeys names the keys of ConfigMaps that the version of a container refers to.
func configMapKeys(namespace string, c corev1.Container) string {
	var keys []string
	for _, s := range workload.VersionSources(namespace, c) {
		keys = append(keys, fmt.Sprintf("key %s of ConfigMap %s", s.Key, s.ConfigMap.Name))
	}
	return some(keys)
}

// refusal splits an error of the controller into the cause and the advice after its semicolon.
func refusal(text, advice string) *finding {
	cause, fix, found := strings.Cut(text, "; ")
	if found {
		advice = fix
	}
	return &finding{cause: cause, advice: advice}
}

// failure is what the Pod says of a failed command.
type failure struct {
	container corev1.Container
	codes     []errcode.Code
	text      string    // what happened
	next      time.Time // of the next attempt; zero if the message does not state it
	message   string
}

// failure is nil for a container that only waits.
func (v *view) failure() *failure {
	c, w := v.waiting()
	if w == nil {
		return nil
	}
	codes, next, text := said(w.Message)
	if len(codes) == 0 {
		return nil
	}
	return &failure{c, codes, text, next, w.Message}
}

func (f *failure) innermost() errcode.Code { return f.codes[len(f.codes)-1] }

// cause says what failed, and what the base says to it.
func (v *view) cause(f *failure) string {
	return fmt.Sprintf("%s could not be installed on %s: %s (%s)", f.container.Name, v.onBase(), f.text, f.innermost())
}

// failed is for a failure whose innermost code is one of codes; any without codes.
func failed(find func(*view, *failure) *finding, codes ...errcode.Code) func(*view) *finding {
	return func(v *view) *finding {
		f := v.failure()
		if f == nil || len(codes) > 0 && !slices.Contains(codes, f.innermost()) {
			return nil
		}
		return find(v, f)
	}
}

// failedFor is the same with a fixed advice.
func failedFor(advice string, codes ...errcode.Code) func(*view) *finding {
	return failed(func(v *view, f *failure) *finding { return &finding{cause: v.cause(f), advice: advice + again} }, codes...)
}

// pathTaken matches the exception that the web server of a base throws if two modules have the same web context
// path.
var pathTaken = regexp.MustCompile(`Child name \[([^\]]*)\] is not unique`)

// webContextTaken is for a module whose web context path another module or version on the base uses.
func webContextTaken(v *view, f *failure) *finding {
	match := pathTaken.FindStringSubmatch(f.message + "\n" + strings.Join(v.Logs[f.container.Name], "\n"))
	if match == nil {
		return nil
	}
	return &finding{cause: fmt.Sprintf("%s could not be installed on %s: another module or version there uses its web context path /%s (%s)", f.container.Name, v.onBase(), strings.TrimPrefix(match[1], "/"), match[0]),
		advice: "give each version of a web module its own web context path, or uninstall the old version first: strategy Recreate, or maxSurge: 0" + again}
}

// retrying: it failed so often that the Pod says when the next attempt is due.
func retrying(v *view) *finding {
	f := v.failure()
	if f == nil || f.codes[0] != errcode.ModuleControllerRetryTimesExceeded {
		return nil
	}
	a, found := v.evaluate(failureRules)
	if !found {
		return nil
	}
	when := ""
	if !f.next.IsZero() {
		when = fmt.Sprintf("; the next attempt is at %s", clock(f.next))
		if left := f.next.Sub(v.now); left > 0 {
			when += fmt.Sprintf(", in %s", left.Round(time.Second))
		}
	}
	return &finding{because: a.Reason, cause: "the retry limit was reached: " + a.Cause + when, advice: a.Advice}
}

// openCommand returns the last command about a module if the log has no answer to it.
func (v *view) openCommand(container string) (open api.LogCommand, found bool) {
	for _, line := range v.Logs[container] {
		c, ok := api.ParseLogCommand(line)
		switch {
		case !ok || c.Module != container:
		case c.Event == api.LogSent:
			open, found = c, true
		default:
			found = false
		}
	}
	return open, found
}

// notReadyContainers are those that wait to be installed, and nothing is wrong with.
func (v *view) notReadyContainers() (names []string) {
	for _, c := range v.Pod.Spec.Containers {
		i := slices.IndexFunc(v.Pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		if i < 0 {
			names = append(names, c.Name)
			continue
		}
		if w := v.Pod.Status.ContainerStatuses[i].State.Waiting; w != nil && (w.Reason == api.ReasonContainerCreating || w.Reason == api.ReasonResolved) {
			names = append(names, c.Name)
		}
	}
	return names
}

func underWay(v *view) *finding {
	const advice = "wait for the answer; how long a base may take says INSTALL_TIMEOUT, five minutes if nothing else is set"
	for _, name := range v.notReadyContainers() {
		if c, open := v.openCommand(name); open {
			return &finding{cause: fmt.Sprintf("%s for %s is on its way to %s for %s, since %s, and is not answered yet", c.Command, name, v.onBase(), v.ago(c.At), clock(c.At)), advice: advice}
		}
	}
	if c, w := v.waiting(); w != nil && w.Reason == api.ReasonResolved {
		return &finding{cause: fmt.Sprintf("%s is installing %s: its state is RESOLVED, %s", v.onBase(), c.Name, sentence(w.Message)), advice: advice}
	}
	return nil
}
