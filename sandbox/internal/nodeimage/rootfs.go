package nodeimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// nodePackages lists the Debian packages that are installed on a node, in addition to the Go binaries.
var nodePackages = []string{
	"systemd", "systemd-sysv", // starts containerd and the kubelet
	"runc", "libseccomp2", "containernetworking-plugins", // of containerd
	// of kubelet and kube-proxy
	"conntrack", "iptables", "nftables", "iproute2", "ethtool", "kmod", "mount", "util-linux",
	"bash", "jq", "procps", "mawk", "hostname", // of kind's scripts
	"ca-certificates", // for registries that a user has
}

// proxyPackages lists the Debian packages whose files the kube-proxy image contains, in addition to the kube-proxy
// binary.
var proxyPackages = []string{"iptables", "nftables", "conntrack"}

// unused lists dpkg options that exclude files of Debian packages, such as documentation and translations. Licences
// are kept.
var unused = []string{
	"path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright",
	"path-exclude=/usr/share/man/*", "path-exclude=/usr/share/info/*", "path-exclude=/usr/share/locale/*",
	"path-exclude=/usr/share/bash-completion/*", "path-exclude=/usr/share/zsh/*", "path-exclude=/usr/share/i18n/*",
	"path-exclude=/usr/lib/*/gconv/*", "path-exclude=/usr/lib/systemd/boot/*", "path-exclude=/lib/udev/hwdb.d/*",
	"path-exclude=/usr/lib/udev/hwdb.d/*",
	"path-exclude=/usr/lib/cni/*", "path-include=/usr/lib/cni/ptp", "path-include=/usr/lib/cni/host-local",
	"path-include=/usr/lib/cni/portmap", "path-include=/usr/lib/cni/loopback",
}

// rootfs returns the path of a tar file that contains the root file system of a node.
func (b *builder) rootfs(ctx context.Context) (string, error) {
	hook := b.cached("customize.sh")
	text, err := files.ReadFile("files/customize.sh")
	if err == nil {
		err = os.WriteFile(hook, text, 0o755) //nolint:gosec // a script that others read in the image
	}
	if err != nil {
		return "", fmt.Errorf("writing the mmdebstrap hook: %w", err)
	}
	return b.debian(ctx, "root file system", "rootfs", nodePackages, string(text),
		"--variant=essential", "--customize-hook="+shellQuoted(hook)+` "$1"`)
}

// proxyRootfs returns the path of a tar file that contains the tools that kube-proxy runs. Their Debian packages are
// extracted, but not configured.
func (b *builder) proxyRootfs(ctx context.Context) (string, error) {
	return b.debian(ctx, "programs of kube-proxy", "proxyfs", proxyPackages, "", "--variant=extract")
}

// debian returns the path of a tar file with Debian packages and their dependencies. The tar file is cached: calls
// with the same suite, mirror, packages, flags and extra reuse it, even if newer package versions are available.
func (b *builder) debian(ctx context.Context, what, kind string, packages []string, extra string,
	flags ...string) (string, error) {
	args := []string{"--quiet", "--format=tar", "--include=" + strings.Join(packages, ",")}
	args = append(args, flags...)
	for _, option := range unused {
		args = append(args, "--dpkgopt="+option)
	}
	inputs := []string{b.Suite, b.Mirror, extra}
	for _, arg := range args { // without the path of the cache
		inputs = append(inputs, strings.ReplaceAll(arg, b.Cache, ""))
	}
	return b.part(what, fmt.Sprintf("%s-%s.tar", kind, shortHash(inputs...)), func(path string) error {
		if _, err := exec.LookPath("mmdebstrap"); err != nil {
			return fmt.Errorf(
				"mmdebstrap, which creates the Debian root file system, is not installed; install the package "+
					"mmdebstrap (%w)", err)
		}
		args := append(args, b.Suite, path)
		if b.Mirror != "" {
			args = append(args, b.Mirror)
		}
		// The same packages give the same file.
		_, err := output(ctx, "", []string{"SOURCE_DATE_EPOCH=0", "TMPDIR=" + b.Cache}, "mmdebstrap", args...)
		return err
	})
}

func shortHash(inputs ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(inputs, "\x00")))
	return hex.EncodeToString(sum[:])[:12]
}

func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
