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
	// logsTimeout bounds the collection of logs after a failure.
	logsTimeout = 20 * time.Second
	// killTimeout bounds the end of the nodes that are to be removed anyway.
	killTimeout = 5 * time.Second
	// noSync is the flag of etcd by which it does not wait for the disk.
	noSync = "unsafe-no-fsync"
	// deleteInterval is between two attempts to end a creation that continues: between its steps there
	// may be nothing to delete.
	deleteInterval = 300 * time.Millisecond
)

// bringUp creates the cluster unless it is there, and connects to it.
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

// create creates the cluster. When that fails, or ctx ends, nothing of it is left but a directory of
// logs.
func (p *Provider) create(ctx context.Context) error {
	created := make(chan error, 1)
	go func() {
		created <- p.kind.Create(p.name,
			kindcluster.CreateWithV1Alpha4Config(p.clusterConfig()),
			kindcluster.CreateWithRetain(true), // until its logs are kept
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
	// kind knows no context, but its commands fail when their containers are gone.
	for {
		err := p.delete(ctx)
		select {
		case createErr := <-created:
			p.o.Logger.Info("creation of the kind cluster ended", "err", createErr)
			return errors.Join(fmt.Errorf("creating kind cluster %s: %w", p.name, context.Cause(ctx)), p.delete(ctx))
		case <-time.After(deleteInterval):
			if err != nil {
				p.o.Logger.Warn("ending the creation of a kind cluster", "err", err)
			}
		}
	}
}

// keepLogs collects the logs of the nodes, and adds to err where they are.
func (p *Provider) keepLogs(ctx context.Context, err error) error {
	dir := filepath.Join(p.o.LogDir, "kind")
	collected := make(chan error, 1)
	go func() { collected <- p.kind.CollectLogs(p.name, dir) }()
	select {
	case logErr := <-collected:
		if logErr != nil { // such as a program that the node lacks; the others are there
			p.o.Logger.Warn("collecting the logs of the nodes", "err", logErr)
		}
	case <-time.After(logsTimeout):
	case <-ctx.Done():
	}
	return fmt.Errorf("%w\nthe logs of its nodes are in %s", err, dir)
}

// delete removes the cluster's containers, though ctx may have ended; none is fine.
func (p *Provider) delete(ctx context.Context) error {
	p.kill(ctx)
	if err := p.kind.Delete(p.name, p.o.Kubeconfig); err != nil {
		return fmt.Errorf("deleting kind cluster %s: %w", p.name, shortError(err))
	}
	return nil
}

// kill ends the containers in podman, which would otherwise wait ten seconds for each before it removes them. It
// ignores errors: the removal fails if a container still runs.
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
		p.o.Logger.Info("killing the nodes of a kind cluster", "err", err)
	}
}

// Down deletes the cluster if it is this sandbox's. It is fine when there is none.
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

// clusterConfig is what kind is told of the cluster.
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

// lastError is what a command said last, stack traces apart: kubeadm prints one under its error.
func lastError(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	for _, line := range slices.Backward(lines) {
		if rest, ok := strings.CutPrefix(line, "error: "); ok {
			return rest
		}
	}
	return lines[len(lines)-1]
}

// componentArgs are flags of the control plane's components that differ from kubeadm's.
var componentArgs = []struct{ component, flag, value string }{
	// The API server finds the controller, which answers for the logs of module Pods, by an address
	// of the first type only.
	{"apiServer", "kubelet-preferred-address-types", "InternalDNS,InternalIP,ExternalIP,Hostname"},
	// By default they write 20 and 50 objects a second, and bases come by the hundred.
	{"controllerManager", "kube-api-qps", "1000"},
	{"controllerManager", "kube-api-burst", "2000"},
	{"scheduler", "kube-api-qps", "1000"},
	{"scheduler", "kube-api-burst", "2000"},
	// There is one of each: without an election they begin at once, also after the node was started
	// again.
	{"controllerManager", "leader-elect", "false"},
	{"scheduler", "leader-elect", "false"},
}

// restartPeriodSince is the first version of Kubernetes with a setting for the longest back-off of container restarts.
// A scenario may kill the controller ten times.
var restartPeriodSince = version.MustParseSemantic("v1.35.0")

// versionOf is the version of Kubernetes in an image, by its tag; nil if that tells none.
func versionOf(image string) *version.Version {
	image = shortName(image)
	v, err := version.ParseSemantic(image[strings.LastIndexByte(image, ':')+1:])
	if err != nil {
		return nil
	}
	return v
}

// kubeadmPatches sets componentArgs, and faster settings, in both versions of kubeadm's configuration; kind uses the
// one for its version of Kubernetes. The older version supports only RSA keys, which take a second or two to generate.
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
		text, err := json.Marshal(config) // which is YAML too
		if err != nil {
			panic(err) // it is made of strings
		}
		patches = append(patches, string(text))
	}
	return patches
}

// shortError makes one line of an error of kind: what failed, and the last thing that the failed command
// said. Of the rest, some hundred lines, the logs of the nodes tell.
func shortError(err error) error {
	var run *exec.RunError
	if !errors.As(err, &run) {
		return err
	}
	said := lastError(string(run.Output))
	if strings.Contains(string(run.Output), "no space left on device") {
		said = "no space left on device: free some disk space for the container engine"
	}
	what, _, _ := strings.Cut(err.Error(), ": ")
	return fmt.Errorf("%s: %s", what, said)
}
