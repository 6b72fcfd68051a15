package controller

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/baseline"
	"github.com/koupleless/koupsandbox/controller/internal/kubelet"
	"github.com/koupleless/koupsandbox/controller/internal/moduleview"
	"github.com/koupleless/koupsandbox/controller/internal/peer"
	"github.com/koupleless/koupsandbox/controller/internal/report"
	"github.com/koupleless/koupsandbox/controller/internal/vnode"
	"github.com/koupleless/koupsandbox/controller/internal/vpod"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// wireParts adds the optional components that are enabled.
func (c *Controller) wireParts(config *rest.Config) error {
	c.wireReports()
	if err := warnAboutDaemonSets(c.workloads.Apps().V1().DaemonSets(), c.opts.Env, c.recorder); err != nil {
		return err
	}
	if c.opts.Deployments {
		if err := c.wireDeployments(c.workloads.Apps().V1()); err != nil {
			return err
		}
	}
	c.parts = append(c.parts, func(ctx context.Context) error {
		c.workloads.Start(ctx.Done())
		<-ctx.Done()
		c.workloads.Shutdown()
		return nil
	})
	if c.opts.ModuleView {
		return c.wireModuleView(config)
	}
	return nil
}

// listenKubelet opens the listener of the kubelet API, if it is enabled.
func (c *Controller) listenKubelet() error {
	o := c.opts.Kubelet
	if o == nil {
		return nil
	}
	server, err := kubelet.New(kubelet.Options{
		Addr: net.JoinHostPort(o.Host, strconv.Itoa(o.Port)), CertFile: o.CertFile, KeyFile: o.KeyFile,
		ClientCAFile: o.ClientCAFile, Reviews: c.client.AuthorizationV1().SubjectAccessReviews(),
		Pods: c.provider, Bases: c.requests, EventLog: c.moduleLog,
		BasePods: c.client.CoreV1(), BaseLogFile: o.BaseLogFile, Logger: c.logger,
	})
	if err != nil {
		return fmt.Errorf("serving logs and exec of module Pods: %w", err)
	}
	c.kubelet = server
	c.parts = append(c.parts, server.Start)
	return nil
}

// logCommand adds an entry about a command sent to a base to the log of the module.
func (c *Controller) logCommand(identity string, r arklet.Request) {
	c.moduleLog.Add(identity, r.Module.Name, kubelet.CommandSent(time.Now(), r))
}

// recordResult adds an entry about the result of a command to the log of the module, and updates the metrics.
func (c *Controller) recordResult(o vpod.CommandResult) {
	c.metrics.ObserveOperation(string(o.Request.Command), string(o.Code), o.Took)
	e := kubelet.CommandAnswered(time.Now(), o.Request, o.Answer)
	if o.Err != nil {
		e = kubelet.CommandUnanswered(time.Now(), o.Request, o.Err)
	}
	c.moduleLog.Add(o.Identity, o.Request.Module.Name, e)
}

func (c *Controller) wireReports() {
	c.reporter = report.New(report.Options{
		Hooks: c.opts.ReportHooks,
		Counters: report.Counters{
			Sent: c.metrics.Counter("module_controller_reports_sent_total", "Reports that a webhook accepted."),
			Failed: c.metrics.Counter("module_controller_reports_failed_total",
				"Reports that a webhook did not accept after all retries."),
			Dropped: c.metrics.Counter("module_controller_reports_dropped_total",
				"Reports that were dropped because the queue of a webhook was full."),
		},
		Logger: c.logger,
	})
	c.parts = append(c.parts, c.reporter.Start)
}

// reportFailure sends a report about a failed command to the report hooks, with the scene and event names of
// ModuleController V2.
func (c *Controller) reportFailure(pod *corev1.Pod, identity string, m arklet.Module, err error) {
	c.reporter.Report(report.Event{
		TraceID: pod.Labels[labels.Trace],
		Scene:   "vpod_deploy", Event: eventOf(pod), Result: "FAILED",
		Code: errcode.Of(err), Message: err.Error(),
		Labels: map[string]string{"namespace": pod.Namespace, "pod": pod.Name, "node": pod.Spec.NodeName,
			"base": c.registry.DisplayName(identity), "module": m.Identity()},
	})
}

func eventOf(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "ContainerShutdown"
	}
	return "ContainerStart"
}

// wireDeployments adds the controller of peer Deployments, and the component that selects the baseline of a starting
// base.
func (c *Controller) wireDeployments(workloads appsinformers.Interface) error {
	deployments, daemonSets := workloads.Deployments(), workloads.DaemonSets()
	c.baseline = baseline.New(baseline.Options{
		Deployments: deployments.Lister(), DaemonSets: daemonSets.Lister(),
		Env: c.opts.Env, AddTolerationFor: c.addTolerationFor(),
	})
	replicas := peer.New(peer.Options{
		Client: c.client, Deployments: deployments, Nodes: c.nodes, Pods: c.provider.Informer().PodsOnNode,
		Env: c.opts.Env, AddTolerationFor: c.addTolerationFor(), Identity: c.opts.ClientID,
		Grace: c.opts.DeadAfter, TimeScale: c.opts.timeScale(),
		Changed: c.reportReplicas,
		Logger:  c.logger,
	})
	c.parts = append(c.parts, replicas.Start, c.checkBaselines)
	return warnAboutDeployments(deployments, c.opts.Env, c.recorder)
}

func (c *Controller) reportReplicas(change peer.ReplicaChange) {
	if change.Err == nil {
		return
	}
	c.reporter.Report(report.Event{
		Scene: "vpod_deploy", Event: "PeerDeploymentReplicaModify", Result: "FAILED",
		Code: errcode.Of(change.Err), Message: change.Err.Error(),
		Labels: map[string]string{"namespace": change.Namespace, "deployment": change.Name},
	})
}

// workloadsWait is the maximum time to wait until the list of workloads is available. It is long enough for most
// clusters, because a base queries its baseline only once. It is limited, because a controller without permission to
// list workloads must still serve modules.
const workloadsWait = 10 * time.Second

func (c *Controller) workloadsKnown(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, c.opts.timeScale().Of(workloadsWait))
	defer cancel()
	apps := c.workloads.Apps().V1()
	return cache.WaitForCacheSync(ctx.Done(), apps.Deployments().Informer().HasSynced,
		apps.DaemonSets().Informer().HasSynced)
}

// baselineFor returns the modules that a starting base must install. It blocks until the list of workloads is
// available, for at most workloadsWait. If the list is not available then, it returns nil.
func (c *Controller) baselineFor(b base.Info) []arklet.Module {
	if c.baseline == nil {
		return nil
	}
	if !c.workloadsKnown(context.Background()) {
		c.logger.Warn("a base queried its baseline before the workloads were listed", "base", b.Identity)
		return nil
	}
	settings := c.settings()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: vnode.Name(b.Identity), Labels: settings.Labels(b)},
		Spec:       corev1.NodeSpec{Taints: settings.Taints()},
	}
	// A user may have changed the labels or taints of the Node, or cordoned it.
	if before, err := c.nodes.Lister().Get(node.Name); err == nil {
		own := node.Labels
		node.Labels = maps.Clone(before.Labels)
		maps.Copy(node.Labels, own)
		for _, taint := range before.Spec.Taints {
			if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint.Key }) {
				node.Spec.Taints = append(node.Spec.Taints, taint)
			}
		}
		node.Spec.Unschedulable = before.Spec.Unschedulable
	}
	modules, err := c.baseline.Select(node)
	if err != nil {
		c.logger.Warn("could not select all modules of a baseline", "base", b.Identity, "err", err)
	}
	c.logger.Log(context.Background(), c.limitedLevel(slog.LevelInfo), "a base queried its baseline", "base",
		b.Identity,
		"modules", len(modules))
	c.recordBaseline(b.Identity, modules)
	return modules
}

// A base queries its baseline before its first heartbeat, and installs the modules in between. Any client can invent
// identities, so the number of bases in this state is limited.
const (
	maxRegistering     = 1000
	registrationPeriod = 10 * time.Minute
)

// recordBaseline records the baseline that was sent to a base. It passes the baseline to the provider if the base has
// already sent a heartbeat. Otherwise, the first heartbeat of the base passes it.
func (c *Controller) recordBaseline(identity string, modules []arklet.Module) {
	c.modulesAtRegistration.Add(identity, modules, registrationPeriod)
	if _, known := c.registry.Get(identity); known {
		c.passBaseline(identity)
	}
}

// passBaseline passes the recorded baseline of a registered base to the provider.
func (c *Controller) passBaseline(identity string) {
	recorded, _ := c.modulesAtRegistration.Get(identity)
	c.modulesAtRegistration.Remove(identity)
	if modules, _ := recorded.([]arklet.Module); len(modules) > 0 {
		c.provider.ExpectBaseline(identity, modules)
	}
}

func (c *Controller) wireModuleView(config *rest.Config) error {
	// The API server serves custom resources only as JSON.
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating the client for Module objects: %w", err)
	}
	c.moduleView = moduleview.New(moduleview.Options{
		Client: client, Pods: c.provider.Informer(), Nodes: c.nodes.Lister(),
		Owns: func(nodeName string) bool {
			return nodeName == "" && !c.opts.Cluster || c.provider.Serves(nodeName)
		},
		Records: c.records,
		Logger:  c.logger,
	})
	c.parts = append(c.parts, c.moduleView.Start)
	return nil
}

// records returns the history of a module version on the base of a Node; nil if the base does not list the version.
func (c *Controller) records(nodeName, module, version string) []moduleview.Record {
	b, ok := c.registry.Get(c.provider.Identity(nodeName))
	if !ok {
		return nil
	}
	biz, ok := b.Module(module, version)
	if !ok {
		return nil
	}
	history := biz.Records
	if len(history) == 0 && !biz.Latest.At.IsZero() {
		history = []arklet.Record{biz.Latest}
	}
	records := make([]moduleview.Record, 0, len(history))
	for _, r := range history {
		at := metav1.NewTime(r.At)
		records = append(records,
			moduleview.Record{State: string(r.State), Reason: r.Reason, Message: r.Message, ChangeTime: &at})
	}
	return records
}
