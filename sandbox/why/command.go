package why

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// command explains a Pod on a base with a controller: a container that is not a module, a failed command, or a command
// without an answer.
func command(v *view) *Answer {
	if a := refused(v); a != nil {
		return a
	}
	switch c, w := v.waiting(); {
	case w != nil && w.Reason == api.ReasonNotActivated:
		return &Answer{Reason: KeptDeactivated,
			Cause: fmt.Sprintf(
				"%s has installed %s:%s and keeps it deactivated, while an older version is active: the base does not activate new versions by itself", v.onBase(), c.Name, workload.ModuleOf(&v.Pod.ObjectMeta, c).Version),
			Advice: "start the base with -Dactivate.new.module=true, or connect it over HTTP, where the controller can switch; or delete the Pods of the older version"}
	case w != nil && w.Reason == api.ReasonReplacing:
		return &Answer{Reason: ReplacingSameVersion,
			Cause: fmt.Sprintf(
				"%s has this version of %s from another URL: it is uninstalled and installed again, one base after the other", v.onBase(), c.Name),
			Advice: "wait; to release without a gap, raise BIZ_VERSION with each jar"}
	}
	if a := failed(v); a != nil {
		return a
	}
	for _, s := range v.Pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			return &Answer{Reason: ModuleStopped,
				Cause: fmt.Sprintf("module %s has stopped on %s: %s", s.Name, v.onBase(),
					sentence(strings.TrimSpace(t.Reason+" "+t.Message))),
				Advice: "the controller installs it again; check the log of the base"}
		}
	}
	if v.unbound() {
		return nil
	}
	return pending(v)
}

// pending explains a Pod for which no command has failed.
func pending(v *view) *Answer {
	const wait = "wait for the answer; INSTALL_TIMEOUT limits the time, by default to five minutes"
	names := v.notReadyContainers()
	for _, name := range names {
		if c, open := v.openCommand(name); open {
			return &Answer{Reason: CommandUnderWay,
				Cause: fmt.Sprintf("%s for %s was sent to %s %s ago, at %s, and has no answer yet", c.Command, name,
					v.onBase(), v.ago(c.At), clock(c.At)), Advice: wait}
		}
	}
	c, w := v.waiting()
	switch {
	case w != nil && w.Reason == api.ReasonResolved:
		return &Answer{Reason: CommandUnderWay,
			Cause: fmt.Sprintf("%s is installing %s: its state is RESOLVED, %s", v.onBase(), c.Name,
				sentence(w.Message)), Advice: wait}
	case len(v.Pod.Status.ContainerStatuses) == 0:
		return &Answer{Reason: NotTakenUp,
			Cause: fmt.Sprintf("the Pod is bound to %s for %s, and the controller has not reported on it yet",
				v.onBase(), v.ago(v.scheduler().LastTransitionTime.Time)),
			Advice: "wait a few seconds; then check the log of the module controller"}
	case len(names) > 0:
		return &Answer{Reason: CommandNotSent,
			Cause: fmt.Sprintf("%s waits to be installed on %s, and the controller has not sent a command for it",
				names[0], v.onBase()),
			Advice: fmt.Sprintf(
				"wait: the controller installs VNODE_WORKER_NUM modules on a base concurrently, and another jar of one version on one base at a time; if this takes minutes, check that %s still runs (in a sandbox: koupsandbox base list)", v.onBase())}
	}
	return nil
}

// The advice for failures. again is appended to it.
const (
	lookAtBase = "check the base: it is alive, but does not answer; a module that starts slowly needs a larger " +
		"INSTALL_TIMEOUT"
	lookAtCode = "check the code of the module, and the log of the base"
	again      = "; the controller retries with pauses of up to five minutes, and immediately when the annotation " +
		labels.Retry + " of the Pod changes"
)

// failures has the reason and the advice for the innermost code of a failed command. Other codes are InstallFailed.
var failures = map[errcode.Code]struct {
	reason Reason
	advice string
}{
	errcode.UserInstallBizUserError: {ModuleBroken, lookAtCode},
	errcode.UserMetaspaceFull: {MetaspaceFull,
		"uninstall modules, or start the base with a larger -XX:MaxMetaspaceSize"},
	errcode.UserDiskFull:                          {DiskFull, "free the disk of the base, or replace the base"},
	errcode.ArkletPullBizError:                    {JarNotFetched, lookAtURL},
	errcode.ArkletPullBizTimeOut:                  {JarNotFetched, lookAtURL},
	errcode.OtherUpstreamDecodeURLFailed:          {JarNotFetched, lookAtURL},
	errcode.ArkletInstallModuleTimedOut:           {CommandTimedOut, lookAtBase},
	errcode.ArkletUninstallBizTimedOut:            {CommandTimedOut, lookAtBase},
	errcode.ArkletNetworkError:                    {BaseUnreachable, lookAtPort},
	errcode.ArkletArkletServiceNotFound:           {BaseUnreachable, lookAtPort},
	errcode.ArkletInstallBizExecuting:             {InstalledBySomebody, waitForInstall},
	errcode.ArkletInstallModuleExecuting:          {InstalledBySomebody, waitForInstall},
	errcode.ArkletUninstallBizFailed:              {UninstallFailing, waitForUninstall},
	errcode.ArkletUnInstallationRequirementNotMet: {UninstallFailing, waitForUninstall},
}

const (
	lookAtURL        = "check that the base reaches the URL, and that the jar exists"
	lookAtPort       = "check that the controller can reach the port of the base, or the broker"
	waitForInstall   = "wait until that install is over"
	waitForUninstall = "check the base: it must uninstall the present version before it can install the module again"
)

// pathTaken matches the exception that the web server of a base throws if two modules have the same web context path.
var pathTaken = regexp.MustCompile(`Child name \[([^\]]*)\] is not unique`)

// failed explains a Pod with a failed command. After several failures, the Pod states the time of the next attempt.
func failed(v *view) *Answer {
	a := failure(v)
	_, w := v.waiting()
	if a == nil || w.Reason == api.ReasonBroken {
		return a
	}
	codes, next, _ := said(w.Message)
	if codes[0] != errcode.ModuleControllerRetryTimesExceeded {
		return a
	}
	a.Because, a.Reason, a.Cause = a.Reason, InstallRetrying, "the retry limit was reached: "+a.Cause
	if !next.IsZero() {
		a.Cause += fmt.Sprintf("; the next attempt is at %s", clock(next))
		if left := next.Sub(v.now); left > 0 {
			a.Cause += fmt.Sprintf(", in %s", left.Round(time.Second))
		}
	}
	return a
}

func failure(v *view) *Answer {
	c, w := v.waiting()
	if w == nil {
		return nil
	}
	codes, _, text := said(w.Message)
	broken := w.Reason == api.ReasonBroken
	if len(codes) == 0 && !broken {
		return nil
	}
	var code errcode.Code
	if len(codes) > 0 {
		code = codes[len(codes)-1]
	}
	timedOut, found := v.event(string(v.Pod.UID), errcode.ArkletInstallModuleTimedOut.Type())
	taken := pathTaken.FindStringSubmatch(w.Message + "\n" + strings.Join(v.Logs[c.Name], "\n"))
	cause := fmt.Sprintf("%s could not be installed on %s: %s (%s)", c.Name, v.onBase(), text, code)
	f, known := failures[code]
	if !known {
		f.reason, f.advice = InstallFailed, "check the log of the base"
	}
	switch {
	case code == errcode.UserInstallBizUserError && taken != nil:
		cause = fmt.Sprintf("%s could not be installed on %s: another module or version there uses its web context path /%s (%s)", c.Name, v.onBase(), strings.TrimPrefix(taken[1], "/"), taken[0])
		f.reason, f.advice = WebContextTaken, "give each version of a web module its own web context path, or uninstall the old version first: strategy Recreate, or maxSurge: 0"
	case broken:
		cause = fmt.Sprintf("module %s is BROKEN on %s: %s", c.Name, v.onBase(), sentence(w.Message))
		f.reason, f.advice = ModuleBroken, lookAtCode
	case f.reason == JarNotFetched && !strings.Contains(c.Image, ".jar"):
		cause += "; its image " + c.Image + " has no .jar in it"
	case f.reason == BaseUnreachable && v.Node != nil && nodeReady(v.Node):
		f.advice = fmt.Sprintf(
			"%s is Ready, so its heartbeats arrive: check that the controller can reach the port of the base, and its log; an answer that it rejects is logged as \"a message was rejected, or a part of it\"", v.onBase())
	case f.reason == InstalledBySomebody && found: // the base works on an install that it has not answered in time
		cause = fmt.Sprintf("%s has not answered an install of %s in time (%s ago), and rejects other installs until then", v.onBase(), c.Name, v.ago(events.LastTime(&timedOut)))
		f.reason, f.advice = CommandTimedOut, lookAtBase
	}
	return &Answer{Reason: f.reason, Cause: cause, Advice: f.advice + again}
}

// waiting returns the container that keeps the Pod from being Ready, and its state: the first container with a reason
// other than that it is being installed, otherwise the first waiting container. The state may be nil.
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

// refused explains a container that the controller does not install, because its check of the Pod finds an error.
func refused(v *view) *Answer {
	c, w := v.waiting()
	if w == nil {
		return nil
	}
	codes, _, text := said(w.Message)
	refusals := []errcode.Code{errcode.OtherUpstreamInvalidParameter, errcode.OtherUpstreamDecodeURLFailed,
		errcode.OtherUpstreamSecretAKError, errcode.ModuleControllerDBAccessError}
	if len(codes) != 1 || !slices.Contains(refusals, codes[0]) || workload.Check(&v.Pod.ObjectMeta, c) == nil {
		return nil
	}
	version, versionErr := workload.Version(&v.Pod.ObjectMeta, c)
	invalid, imageErr := workload.CheckVersion(&v.Pod.ObjectMeta, c), workload.CheckImage(c)
	keys := configMapKeys(v.Pod.Namespace, c)
	switch t := v.template(); {
	case t != nil && imageOf(t, c.Name) == "":
		return &Answer{Reason: InjectedContainer,
			Cause: fmt.Sprintf(
				"admission added the container %s, which is not in the template, and it cannot be installed as a module: %s", c.Name, text),
			Advice: "exclude module Pods from the injection of this container: a base runs no containers"}
	case keys != "" && errors.Is(invalid, workload.ErrUnresolved):
		cause, _, _ := strings.Cut(text, "; ")
		return &Answer{Reason: VersionRefUnresolved,
			Cause:  fmt.Sprintf("%s; %s refers to %s", cause, labels.VersionEnv, keys),
			Advice: "correct or create that key of the ConfigMap; the controller reads it again within a minute"}
	case invalid != nil && slices.ContainsFunc(c.Env,
		func(e corev1.EnvVar) bool { return e.Name == labels.VersionEnv && e.ValueFrom != nil }):
		return refusal(VersionRefUnresolved, text, "set that annotation or label in the metadata of the Pod's template")
	case version == "" && versionErr == nil:
		return refusal(VersionMissing, text,
			"set "+labels.VersionEnv+" in the env of the container, in the Pod's template")
	case invalid != nil:
		return refusal(VersionInvalid, text,
			"correct "+labels.VersionEnv+" in the env of the container, in the Pod's template")
	case imageErr != nil && t != nil && rewritten(imageOf(t, c.Name), c.Image):
		return &Answer{Reason: ImageNotAJar,
			Cause: fmt.Sprintf("admission changed the image of the container %s, which is %s in the template: %s",
				c.Name, imageOf(t, c.Name), errors.Unwrap(imageErr)),
			Advice: "exclude module Pods from the policy that changes images: the image of a module is the URL of its jar"}
	case imageErr != nil:
		return refusal(ImageNotAJar, errors.Unwrap(imageErr).Error(),
			"give the URL of the module's jar, such as https://host/biz1-1.0.0-ark-biz.jar")
	}
	return nil
}

// template returns the template that the Pod was created from; nil if it is not known.
func (v *view) template() *corev1.PodTemplateSpec {
	if v.Template == nil && (v.Deployment != nil || v.DaemonSet != nil || v.StatefulSet != nil) {
		return v.workload().template
	}
	return v.Template
}

// imageOf returns the image of a container of a template; empty if the template has no such container.
func imageOf(t *corev1.PodTemplateSpec, container string) string {
	for _, c := range t.Spec.Containers {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

// rewritten reports whether an image is another one with the host, or the scheme, of a mirror.
func rewritten(image, mirrored string) bool {
	return image != mirrored && path.Base(image) == path.Base(mirrored)
}

// configMapKeys returns the keys of ConfigMaps that the version of a container refers to.
func configMapKeys(namespace string, c corev1.Container) string {
	var keys []string
	for _, s := range workload.VersionSources(namespace, c) {
		keys = append(keys, fmt.Sprintf("key %s of ConfigMap %s", s.Key, s.ConfigMap.Name))
	}
	return some(keys)
}

// refusal splits an error of the controller into the cause and the advice after its semicolon. The default advice is
// advice.
func refusal(r Reason, text, advice string) *Answer {
	cause, fix, found := strings.Cut(text, "; ")
	if found {
		advice = fix
	}
	return &Answer{Reason: r, Cause: cause, Advice: advice}
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

// notReadyContainers returns the containers that wait to be installed.
func (v *view) notReadyContainers() (names []string) {
	for _, c := range v.Pod.Spec.Containers {
		i := slices.IndexFunc(v.Pod.Status.ContainerStatuses,
			func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		if i < 0 {
			names = append(names, c.Name)
			continue
		}
		if w := v.Pod.Status.ContainerStatuses[i].State.Waiting; w != nil &&
			(w.Reason == api.ReasonContainerCreating || w.Reason == api.ReasonResolved) {
			names = append(names, c.Name)
		}
	}
	return names
}
