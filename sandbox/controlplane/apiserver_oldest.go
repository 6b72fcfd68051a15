//go:build oldest

package main

import (
	"github.com/spf13/cobra"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

const oldest = true

func newAPIServerCommand() *cobra.Command { return apiserver.NewAPIServerCommand() }
