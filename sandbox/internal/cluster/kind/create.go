package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	kindcluster "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/exec"

	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
)

const (
	// logsTimeout is the timeout for collecting logs after a failure.
	logsTimeout = 20 * time.Second
	// killTimeout is the timeout for killing the nodes before the cluster is deleted.
	killTimeout = 5 * time.Second
	// noSync is the etcd flag that disables syncing to disk.
	noSync = "unsafe-no-fsync"
	// deleteInterval is the interval between attempts to delete a cluster while kind is still creating it. One
	// attempt is not enough, because kind may not have created the nodes yet.
	deleteInterval = 300 * time.Millisecond
)

// bringUp creates the cluster and connects to it. It does nothing if an existing cluster was adopted.
func (p *Provider) bringUp(ctx context.Context) error {
	if p.adopt {
		return nil
	}
	if err := p.writeOwnership(false); err != nil {
		return err
	}
	p.owned = true
	if err := p.create(ctx); err != nil {
		return err
	}
	return p.connect()
}

// create creates the cluster. If the creation fails or ctx ends, create deletes everything except a directory with
// the logs.
func (p *Provider) create(ctx context.Context) error {
	created := make(chan error, 1)
	go func() {
		created <- p.kind.Create(p.name,
			kindcluster.CreateWithV1Alpha4Config(p.clusterConfig()),
			kindcluster.CreateWithRetain(true), // until the logs have been collected
			kindcluster.CreateWithKubeconfigPath(p.o.Kubeconfig),
			kindcluster.CreateWithDisplayUsage(false),
			kindcluster.CreateWithDisplaySalutation(false),
		)
	}()
	select {
	case err := <-created:
		if err == nil {
			return nil
		}
		err = fmt.Errorf("creating kind cluster %s: %w", p.name, shortError(err))
		return errors.Join(p.keepLogs(ctx, err), checkInotify(inotifyLimit), p.delete(ctx))
	case <-ctx.Done():
	}
	// kind does not support a context, but its commands fail when their containers are removed.
	for {
		err := p.delete(ctx)
		select {
		case createErr := <-created:
			p.o.Logger.Info("the cancelled creation of the kind cluster has ended", "err", createErr)
			return errors.Join(fmt.Errorf("creating kind cluster %s: %w", p.name, context.Cause(ctx)), p.delete(ctx))
		case <-time.After(deleteInterval):
			if err != nil {
				p.o.Logger.Warn("could not delete a kind cluster during its creation", "err", err)
			}
		}
	}
}

// keepLogs collects the logs of the nodes in a directory and adds the path of this directory to err.
func (p *Provider) keepLogs(ctx context.Context, err error) error {
	dir := filepath.Join(p.o.LogDir, "kind")
	collected := make(chan error, 1)
	go func() { collected <- p.kind.CollectLogs(p.name, dir) }()
	select {
	case logErr := <-collected:
		if logErr != nil { // for example, a node lacks a binary; other logs were collected
			p.o.Logger.Warn("could not collect the logs of the nodes", "err", logErr)
		}
	case <-time.After(logsTimeout):
	case <-ctx.Done():
	}
	return fmt.Errorf("%w\nthe logs of the nodes are in %s", err, dir)
}

// delete deletes the cluster, even if ctx has ended. A missing cluster is not an error.
func (p *Provider) delete(ctx context.Context) error {
	p.kill(ctx)
	if err := p.kind.Delete(p.name, p.o.Kubeconfig); err != nil {
		return fmt.Errorf("deleting kind cluster %s: %w", p.name, shortError(err))
	}
	return nil
}

// kill kills the nodes if the engine is podman. Otherwise, podman would wait ten seconds for each node before it
// removes the node. kill only logs errors, because the subsequent deletion reports them.
func (p *Provider) kill(ctx context.Context) {
	if p.engine.Command != engine.Podman {
		return
	}
	list, err := p.kind.ListNodes(p.name)
	if err != nil || len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	if _, err := p.engine.Run(ctx, append([]string{"kill"}, names(list)...)...); err != nil {
		p.o.Logger.Info("could not kill the nodes of a kind cluster", "err", err)
	}
}

// Down deletes the cluster if it belongs to this sandbox. A missing cluster is not an error.
func (p *Provider) Down(ctx context.Context) error {
	if !p.owned {
		return nil
	}
	deleted := make(chan error, 1)
	go func() { deleted <- p.delete(ctx) }()
	select {
	case err := <-deleted:
		return err
	case <-ctx.Done():
		return fmt.Errorf("deleting kind cluster %s: %w; try again with: koupsandbox down", p.name, context.Cause(ctx))
	}
}

// clusterConfig returns the kind configuration of the new cluster.
func (p *Provider) clusterConfig() *v1alpha4.Cluster {
	c := &v1alpha4.Cluster{Nodes: []v1alpha4.Node{{Role: v1alpha4.ControlPlaneRole, Image: p.image}}}
	for range p.o.Nodes - 1 {
		c.Nodes = append(c.Nodes, v1alpha4.Node{Role: v1alpha4.WorkerRole, Image: p.image})
	}
	c.KubeadmConfigPatches = kubeadmPatches(p.o.Durable)
	if v := versionOf(p.image); v != nil && v.AtLeast(restartPeriodSince) {
		c.KubeadmConfigPatches = append(c.KubeadmConfigPatches,
			"kind: KubeletConfiguration\ncrashLoopBackOff: {maxContainerRestartPeriod: 1s}\n")
	}
	if p.engine.CgroupV1 {
		c.KubeadmConfigPatches = append(c.KubeadmConfigPatches, "kind: KubeletConfiguration\nfailCgroupV1: false\n")
	}
	return c
}

// lastError returns the last error line in the output of a command, or the last line if there is no error line. It is
// needed because kubeadm prints a stack trace after the error.
func lastError(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for _, line := range slices.Backward(lines) {
		if rest, ok := strings.CutPrefix(line, "error: "); ok {
			return rest
		}
	}
	return lines[len(lines)-1]
}

// componentArgs contains control plane flags with values that differ from the kubeadm defaults.
var componentArgs = []struct{ component, flag, value string }{
	// The API server requests logs of module Pods from the controller, at the first address type that the Node has.
	{"apiServer", "kubelet-preferred-address-types", "InternalDNS,InternalIP,ExternalIP,Hostname"},
	// The defaults, 20 and 50 writes per second, are too low for hundreds of bases.
	{"controllerManager", "kube-api-qps", "1000"},
	{"controllerManager", "kube-api-burst", "2000"},
	{"scheduler", "kube-api-qps", "1000"},
	{"scheduler", "kube-api-burst", "2000"},
	// There is only one instance of each. Without leader election they start faster, also after a restart of the node.
	{"controllerManager", "leader-elect", "false"},
	{"scheduler", "leader-elect", "false"},
}

// restartPeriodSince is the first Kubernetes version that can limit the back-off of container restarts. The limit is
// needed because a scenario may kill the controller ten times.
var restartPeriodSince = version.MustParseSemantic("v1.35.0")

// versionOf returns the Kubernetes version in an image tag, or nil if the tag is not a version.
func versionOf(image string) *version.Version {
	image = shortName(image)
	v, err := version.ParseSemantic(image[strings.LastIndexByte(image, ':')+1:])
	if err != nil {
		return nil
	}
	return v
}

// kubeadmPatches returns kubeadm configuration patches that set componentArgs and reduce the startup time. There is
// one patch for each version of the kubeadm configuration; kind applies the patch that fits the Kubernetes version.
// Only the newer version can replace RSA keys, which take seconds to generate.
func kubeadmPatches(durable bool) []string {
	type m = map[string]any
	list, dictionary := m{"encryptionAlgorithm": "ECDSA-P256"}, m{}
	for _, a := range componentArgs {
		args, _ := list[a.component].(m)
		if args == nil {
			list[a.component], dictionary[a.component] = m{"extraArgs": []any{}}, m{"extraArgs": m{}}
			args = list[a.component].(m)
		}
		args["extraArgs"] = append(args["extraArgs"].([]any), m{"name": a.flag, "value": a.value})
		dictionary[a.component].(m)["extraArgs"].(m)[a.flag] = a.value
	}
	if !durable {
		list["etcd"] = m{"local": m{"extraArgs": []any{m{"name": noSync, "value": "true"}}}}
		dictionary["etcd"] = m{"local": m{"extraArgs": m{noSync: "true"}}}
	}
	var patches []string
	for version, config := range map[string]m{"v1beta4": list, "v1beta3": dictionary} {
		config["apiVersion"], config["kind"] = "kubeadm.k8s.io/"+version, "ClusterConfiguration"
		text, err := json.Marshal(config) // JSON is valid YAML
		if err != nil {
			panic(err) // cannot fail: the values are strings
		}
		patches = append(patches, string(text))
	}
	return patches
}

// shortError shortens a kind error to one line that contains the failed step and the last error of the failed
// command. The full output is about a hundred lines long, and the node logs contain the details.
func shortError(err error) error {
	var run *exec.RunError
	if !errors.As(err, &run) {
		return err
	}
	reason := lastError(string(run.Output))
	if strings.Contains(string(run.Output), "no space left on device") {
		reason = "no space left on device: free some disk space for the container engine"
	}
	step, _, _ := strings.Cut(err.Error(), ": ")
	return fmt.Errorf("%s: %s", step, reason)
}
