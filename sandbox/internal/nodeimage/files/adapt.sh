#!/bin/bash
# Adapts a node, before containerd starts, to what its engine gives it. Doing it twice does no harm.
set -euo pipefail

extra=()
# Cgroup v1 is more than the kubelet asks for by itself.
[[ -f /sys/fs/cgroup/cgroup.controllers ]] || extra+=(--fail-cgroupv1=false)

# CAP_SYS_RESOURCE is bit 24 of the capabilities. Without it runc can start no privileged Pod and nobody can make a process
# likelier to survive than its parent.
while read -r key value; do
  [[ $key == CapBnd: ]] && bounding=$((16#$value))
done </proc/self/status
if (((bounding >> 24 & 1) == 0)); then
  extra+=(--feature-gates=KubeletInUserNamespace=true)
  sed -i -e 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' \
    -e '/BinaryName/d' -e 's#^\( *\)SystemdCgroup = true#&\n\1BinaryName = "/kind/bin/runc-without-sys-resource"#' \
    /etc/containerd/config.toml
fi
echo "KUBELET_EXTRA_ARGS=--runtime-cgroups=/system.slice/containerd.service ${extra[*]}" >/etc/default/kubelet
