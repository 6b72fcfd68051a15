package kind

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	kindcluster "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/exec"
)

const (
	// logsTime bounds the collection of logs after a failure.
	logsTime = 20 * time.Second
	// deletePause is between two attempts to end a creation that goes on: between its steps there may be nothing to delete.
	deletePause = 300 * time.Millisecond
)

// bringUp creates the cluster unless it is there, and connects to it.
func (p *Provider) bringUp(ctx context.Context) error {
	if p.adopt {
		return nil
	}
	if err := p.noteOwned(false); err != nil {
		return err
	}
	p.owned = true
	if err := p.create(ctx); err != nil {
		return err
	}
	return p.connect()
}

// create creates the cluster. When that fails, or ctx ends, nothing of it is left but a folder of logs.
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
		err = fmt.Errorf("creating kind cluster %s: %w", p.name, plain(err))
		return errors.Join(p.keepLogs(ctx, err), p.delete())
	case <-ctx.Done():
	}
	// kind knows no context, but its commands fail when their containers are gone.
	for {
		err := p.delete()
		select {
		case createErr := <-created:
			p.o.Logger.Info("creation of the kind cluster ended", "err", createErr)
			return errors.Join(fmt.Errorf("creating kind cluster %s: %w", p.name, context.Cause(ctx)), p.delete())
		case <-time.After(deletePause):
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
	case <-time.After(logsTime):
	case <-ctx.Done():
	}
	return fmt.Errorf("%w\nthe logs of its nodes are in %s", err, dir)
}

// delete removes the cluster's containers; none is fine.
func (p *Provider) delete() error {
	if err := p.kind.Delete(p.name, p.o.Kubeconfig); err != nil {
		return fmt.Errorf("deleting kind cluster %s: %w", p.name, plain(err))
	}
	return nil
}

// Down deletes the cluster if it is this sandbox's. It is fine when there is none.
func (p *Provider) Down(ctx context.Context) error {
	if !p.owned {
		return nil
	}
	deleted := make(chan error, 1)
	go func() { deleted <- p.delete() }()
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
	// The API server finds the controller, which answers for the logs of module Pods, by an address of this type only. The two
	// versions of kubeadm's configuration, of which kind takes one by the node's version, write arguments differently.
	c.KubeadmConfigPatches = []string{`
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
apiServer:
  extraArgs:
    - name: kubelet-preferred-address-types
      value: InternalDNS,InternalIP,ExternalIP,Hostname
`, `
apiVersion: kubeadm.k8s.io/v1beta3
kind: ClusterConfiguration
apiServer:
  extraArgs:
    kubelet-preferred-address-types: InternalDNS,InternalIP,ExternalIP,Hostname
`}
	if p.engine.CgroupV1 {
		c.KubeadmConfigPatches = append(c.KubeadmConfigPatches, "kind: KubeletConfiguration\nfailCgroupV1: false\n")
	}
	return c
}

// plain makes one line of an error of kind: what failed, and the last thing that the failed command said. Of the rest, some hundred
// lines, the logs of the nodes tell.
func plain(err error) error {
	run := exec.RunErrorForError(err)
	if run == nil {
		return err
	}
	said := lastLine(string(run.Output))
	if strings.Contains(string(run.Output), "no space left on device") {
		said = "no space left on device: free some disk space for the container engine"
	}
	what, _, _ := strings.Cut(err.Error(), ": ")
	return fmt.Errorf("%s: %s", what, said)
}
