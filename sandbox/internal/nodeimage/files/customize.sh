#!/bin/sh
# Makes the root file system in $1, fresh from its packages, that of a node: nothing but containerd and the kubelet starts.
set -eu
cd "$1"
units=usr/lib/systemd/system
[ -d "$units" ] || units=lib/systemd/system
rm -f "$units"/sysinit.target.wants/systemd-tmpfiles-setup.service "$units"/multi-user.target.wants/* \
  "$units"/local-fs.target.wants/* "$units"/basic.target.wants/* \
  "$units"/sockets.target.wants/*udev* "$units"/sockets.target.wants/*initctl* etc/systemd/system/*.wants/*
mkdir -p etc/systemd/system/multi-user.target.wants etc/systemd/journald.conf.d etc/kubernetes/manifests opt/cni
for unit in containerd kubelet undo-mount-hacks; do
  ln -s "/etc/systemd/system/$unit.service" etc/systemd/system/multi-user.target.wants/
done
# It registers interpreters in the kernel, for the whole machine.
ln -s /dev/null etc/systemd/system/systemd-binfmt.service
printf '[Journal]\nReadKMsg=no\n' >etc/systemd/journald.conf.d/koupsandbox.conf
ln -s /usr/lib/cni opt/cni/bin
rm -rf var/cache/* var/log/* var/lib/apt usr/share/bug usr/share/lintian
