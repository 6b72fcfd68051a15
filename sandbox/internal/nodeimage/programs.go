package nodeimage

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// The file names of binaries in the cache.
const (
	koupNode = "koup-node" // Kubernetes and etcd in one binary; see the doc comment of koup-node
	coredns  = "coredns"
	pause    = "pause"
)

// nodeLinks lists the names under which koup-node is installed on a node. imageLinks lists the names under which it
// is installed in the control plane images.
var (
	nodeLinks  = []string{"kubeadm", "kubectl", "kubelet"}
	imageLinks = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler"}
)

// containerdPrograms lists the containerd binaries to build from github.com/containerd/containerd/v2/cmd.
var containerdPrograms = []string{"containerd", "containerd-shim-runc-v2", "ctr"}

func (b *builder) program(name string) string { return b.cached("bin/" + name) }

// programs compiles all binaries of the node image. It compiles them on each call, but unchanged packages are in the
// Go build cache.
func (b *builder) programs(ctx context.Context) error {
	if err := os.MkdirAll(b.cached("bin"), 0o755); err != nil { //nolint:gosec // a cache of public packages
		return fmt.Errorf("creating the directory for binaries: %w", err)
	}
	minor := strings.Split(b.kubernetes, ".")[1]
	version := ""
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		version += fmt.Sprintf(
			" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=%[3]s -X %[1]s.gitTreeState=archive",
			pkg, b.kubernetes, minor)
	}
	builds := []struct{ name, dir, pkg, flags, tags string }{
		{name: koupNode, dir: "sandbox/controlplane", pkg: "./node", flags: version},
		{name: coredns, dir: "sandbox/internal/nodeimage/coredns", pkg: "."},
		{name: pause, dir: ".", pkg: "./sandbox/internal/nodeimage/pause"},
	}
	for _, name := range containerdPrograms {
		builds = append(builds, struct{ name, dir, pkg, flags, tags string }{
			name: name, dir: "sandbox/internal/nodeimage/containerd",
			pkg:  "github.com/containerd/containerd/v2/cmd/" + name,
			tags: "no_btrfs no_zfs no_devmapper",
		})
	}
	for _, p := range builds {
		start := time.Now()
		// With the flags of make build, Go does not compile the packages of the control plane again.
		_, err := output(ctx, b.in(p.dir), []string{"CGO_ENABLED=0",
			"GOFLAGS=-trimpath -buildvcs=false -gcflags=all=-dwarf=false"},
			"go", "build", "-tags", p.tags, "-ldflags", "-s -w"+p.flags, "-o", b.program(p.name), p.pkg)
		if err != nil {
			return fmt.Errorf("compiling %s: %w", p.name, err)
		}
		b.Progress(p.name, time.Since(start))
	}
	// The build runs kubeadm to list the required images.
	link := b.program("kubeadm")
	if err := os.Symlink(koupNode, link); err != nil && !os.IsExist(err) {
		return fmt.Errorf("linking kubeadm: %w", err)
	}
	return nil
}
