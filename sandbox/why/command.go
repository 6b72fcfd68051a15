package why

import (
	"errors"
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
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
)

// command explains a Pod on a base that a controller serves. It considers containers that the controller rejects,
// failed commands, and commands without a response.
func command(v *explainer) *Answer {
	if a := explainRefused(v); a != nil {
		return a
	}
	switch c, w := v.waiting(); {
	case w != nil && w.Reason == api.ReasonNotActivated:
		return v.answer(msgKeptDeactivated, args{"base": v.onBase(), "module": c.Name,
			"version": workload.ModuleOf(&v.Pod.ObjectMeta, c).Version})
	case w != nil && w.Reason == api.ReasonReplacing:
		return v.answer(msgReplacingSameVersion, args{"base": v.onBase(), "module": c.Name})
	}
	if a := explainFailed(v); a != nil {
		return a
	}
	for _, s := range v.Pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil {
			return v.answer(msgModuleStopped, args{"module": s.Name, "base": v.onBase(),
				"message": sentence(strings.TrimSpace(t.Reason + " " + t.Message))})
		}
	}
	if v.unbound() {
		return nil
	}
	return explainPending(v)
}

// explainPending explains a Pod that is not Ready although no command for its modules has failed.
func explainPending(v *explainer) *Answer {
	base, names := v.onBase(), v.notReadyContainers()
	for _, name := range names {
		if c, open := v.openCommand(name); open {
			return v.answer(msgCommandSent, args{"command": c.Command, "module": name, "base": base,
				"age": v.ago(c.At), "time": clock(c.At)})
		}
	}
	c, w := v.waiting()
	switch {
	case w != nil && w.Reason == api.ReasonResolved:
		return v.answer(msgInstalling, args{"base": base, "module": c.Name, "message": sentence(w.Message)})
	case len(v.Pod.Status.ContainerStatuses) == 0:
		return v.answer(msgNotTakenUp,
			args{"base": base, "age": v.ago(v.podScheduled().LastTransitionTime.Time)})
	case len(names) > 0:
		return v.answer(msgCommandNotSent, args{"module": names[0], "base": base})
	}
	return nil
}

// failures maps the innermost error code of a failed command to the reason and the advice. Codes that are not in this
// map have the reason InstallFailed.
var failures = map[errcode.Code]struct {
	reason Reason
	advice language.Text
}{
	errcode.UserInstallBizUserError:               {ModuleBroken, msgModuleBroken.advice},
	errcode.UserMetaspaceFull:                     {MetaspaceFull, partUninstallModules},
	errcode.UserDiskFull:                          {DiskFull, partFreeDisk},
	errcode.ArkletPullBizError:                    {JarNotFetched, partCheckURL},
	errcode.ArkletPullBizTimeOut:                  {JarNotFetched, partCheckURL},
	errcode.OtherUpstreamDecodeURLFailed:          {JarNotFetched, partCheckURL},
	errcode.ArkletInstallModuleTimedOut:           {CommandTimedOut, msgInstallNotAnswered.advice},
	errcode.ArkletUninstallBizTimedOut:            {CommandTimedOut, msgInstallNotAnswered.advice},
	errcode.ArkletNetworkError:                    {BaseUnreachable, partCheckPort},
	errcode.ArkletArkletServiceNotFound:           {BaseUnreachable, partCheckPort},
	errcode.ArkletInstallBizExecuting:             {InstalledBySomebody, partWaitForInstall},
	errcode.ArkletInstallModuleExecuting:          {InstalledBySomebody, partWaitForInstall},
	errcode.ArkletUninstallBizFailed:              {UninstallFailing, partWaitForUninstall},
	errcode.ArkletUnInstallationRequirementNotMet: {UninstallFailing, partWaitForUninstall},
}

// pathTaken matches the exception that the web server of a base throws if two modules use the same web context path.
var pathTaken = regexp.MustCompile(`Child name \[([^\]]*)\] is not unique`)

// explainFailed explains a Pod with a failed command. After several failures, the Pod status contains the time of the
// next attempt.
func explainFailed(v *explainer) *Answer {
	a := failure(v)
	_, w := v.waiting()
	if a == nil || w.Reason == api.ReasonBroken {
		return a
	}
	codes, attempt, _ := parseMessage(w.Message)
	if codes[0] != errcode.ModuleControllerRetryTimesExceeded {
		return a
	}
	next := ""
	if !attempt.IsZero() {
		next = v.in(partNextAttempt, args{"time": clock(attempt)})
		if left := attempt.Sub(v.now); left > 0 {
			next += v.in(partIn, args{"duration": left.Round(time.Second)})
		}
	}
	retrying := v.answer(msgInstallRetrying, args{"cause": a.Cause, "next": next, "advice": a.Advice})
	retrying.Because = a.Reason
	return retrying
}

func failure(v *explainer) *Answer {
	c, w := v.waiting()
	if w == nil {
		return nil
	}
	codes, _, text := parseMessage(w.Message)
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
	a := args{"module": c.Name, "base": v.onBase(), "message": text, "code": code, "image": c.Image,
		"age": v.ago(events.LastTime(&timedOut)), "again": partAgain}
	m := msgInstallFailed
	if f, known := failures[code]; known {
		m.reason, m.advice = f.reason, f.advice
	}
	switch {
	case code == errcode.UserInstallBizUserError && taken != nil:
		a["path"], a["message"] = strings.TrimPrefix(taken[1], "/"), taken[0]
		return v.answer(msgWebContextTaken, a)
	case broken:
		a["message"] = sentence(w.Message)
		return v.answer(msgModuleBroken, a)
	case m.reason == InstalledBySomebody && found: // the base processes an install that it has not answered in time
		return v.answer(msgInstallNotAnswered, a)
	case m.reason == BaseUnreachable && v.Node != nil && nodeReady(v.Node):
		m.advice = partUnreachableReady
	}
	answer := v.answer(m, a)
	if m.reason == JarNotFetched && !strings.Contains(c.Image, ".jar") {
		answer.Cause += v.in(partNoJar, a)
	}
	return answer
}

// waiting returns the container that prevents the Pod from being Ready, and the waiting state of this container. It
// prefers the first container that waits for a reason other than its installation. Otherwise, it returns the first
// waiting container. The state is nil if no container is waiting.
func (v *explainer) waiting() (corev1.Container, *corev1.ContainerStateWaiting) {
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

// parseMessage parses a status message of the controller. It returns the error codes, the outermost first, the time
// of the next attempt (zero if the message does not contain it), and the text that describes the failure.
func parseMessage(message string) (codes []errcode.Code, next time.Time, text string) {
	codes, text = errcode.Parse(message)
	if at, rest, found := api.CutNextAttempt(text); found {
		inner, cause := errcode.Parse(rest)
		codes, next, text = append(codes, inner...), at, cause
	}
	return codes, next, sentence(text)
}

// explainRefused explains a container that the controller does not install because it has rejected the Pod as invalid.
func explainRefused(v *explainer) *Answer {
	c, w := v.waiting()
	if w == nil {
		return nil
	}
	codes, _, text := parseMessage(w.Message)
	refusals := []errcode.Code{errcode.OtherUpstreamInvalidParameter, errcode.OtherUpstreamDecodeURLFailed,
		errcode.OtherUpstreamSecretAKError, errcode.ModuleControllerDBAccessError}
	if len(codes) != 1 || !slices.Contains(refusals, codes[0]) || workload.Check(&v.Pod.ObjectMeta, c) == nil {
		return nil
	}
	version, versionErr := workload.Version(&v.Pod.ObjectMeta, c)
	invalid, imageErr := workload.CheckVersion(&v.Pod.ObjectMeta, c), workload.CheckImage(c)
	keys := v.configMapKeys(c)
	switch t := v.template(); {
	case t != nil && imageOf(t, c.Name) == "":
		return v.answer(msgInjectedContainer, args{"container": c.Name, "error": text})
	case keys != "" && errors.Is(invalid, workload.ErrUnresolved):
		cause, _, _ := strings.Cut(text, "; ")
		return v.answer(msgConfigMapUnresolved, args{"error": cause, "keys": keys})
	case invalid != nil && slices.ContainsFunc(c.Env,
		func(e corev1.EnvVar) bool { return e.Name == labels.VersionEnv && e.ValueFrom != nil }):
		return v.refusal(msgVersionRefUnresolved, text)
	case version == "" && versionErr == nil:
		return v.refusal(msgVersionMissing, text)
	case invalid != nil:
		return v.refusal(msgVersionInvalid, text)
	case imageErr != nil && t != nil && rewritten(imageOf(t, c.Name), c.Image):
		return v.answer(msgImageChanged, args{"container": c.Name, "image": imageOf(t, c.Name),
			"error": errors.Unwrap(imageErr)})
	case imageErr != nil:
		return v.refusal(msgImageNotAJar, errors.Unwrap(imageErr).Error())
	}
	return nil
}

// template returns the Pod template from which the Pod was created, or nil if it is not known.
func (v *explainer) template() *corev1.PodTemplateSpec {
	if v.Template == nil && (v.Deployment != nil || v.DaemonSet != nil || v.StatefulSet != nil) {
		return v.workload().template
	}
	return v.Template
}

// imageOf returns the image of the named container in a Pod template. It returns "" if the template has no such
// container.
func imageOf(t *corev1.PodTemplateSpec, container string) string {
	for _, c := range t.Spec.Containers {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

// rewritten reports whether two images differ but have the same file name. This is the case if the host or the scheme
// of the image was replaced with those of a mirror.
func rewritten(image, mirrored string) bool {
	return image != mirrored && path.Base(image) == path.Base(mirrored)
}

// configMapKeys describes the ConfigMap keys to which the version of a container refers.
func (v *explainer) configMapKeys(c corev1.Container) string {
	var keys []string
	for _, s := range workload.VersionSources(v.Pod.Namespace, c) {
		keys = append(keys, v.in(partConfigMapKey, args{"key": s.Key, "name": s.ConfigMap.Name}))
	}
	return v.join(keys)
}

// refusal returns an answer with an error of the controller. It splits the error at the semicolon into the cause and
// the advice. If the error has no semicolon, the answer has the advice of m.
func (v *explainer) refusal(m message, text string) *Answer {
	cause, fix, found := strings.Cut(text, "; ")
	a := v.answer(m, args{"error": cause})
	if found {
		a.Advice = fix + v.recreate(m)
	}
	return a
}

// openCommand returns the last command for a module. It returns false if there is none, or if the log contains the
// response to this command.
func (v *explainer) openCommand(container string) (open api.LogCommand, found bool) {
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

// notReadyContainers returns the names of the containers that are waiting for their installation.
func (v *explainer) notReadyContainers() (names []string) {
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
