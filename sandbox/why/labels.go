package why

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// NodeLabels are the labels that the controller writes to the Node of a base, from the data that the base reports.
// Labels that are useful for selecting bases come first. The controller also writes a label with the prefix
// node-role.kubernetes.io/.
var NodeLabels = []string{
	labels.BaseName, labels.BaseVersion, labels.BaseStack, labels.BaseCluster, labels.BaseHost, corev1.LabelHostname, labels.TunnelPort,
	labels.OlderBaseName, labels.OlderBaseVersion, labels.Tunnel, labels.Component, labels.Env, "kubernetes.io/role", "type", corev1.LabelTopologyZone,
}

// IsNodeLabel reports whether the controller writes a label to the Nodes of bases.
func IsNodeLabel(key string) bool {
	return slices.Contains(NodeLabels, key) || strings.HasPrefix(key, labels.RolePrefix)
}
