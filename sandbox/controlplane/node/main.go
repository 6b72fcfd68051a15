// Command koup-node is every Kubernetes program of a kind node in one file: kubeadm, kubectl,
// kubelet, kube-proxy, and the components that run as static Pods. Which of them it is says the
// name by which it is called, so a node image holds it once and links to it.
//
// Most of the eight are the same packages, and the file is a third of their sum.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register" // offers --logging-format=json, as the upstream programs do
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmerrors "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs maps each program name to a function that replaces the upstream main function of the program. The function
// returns the exit status, or exits the process itself.
var programs = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-proxy":              func() int { return cli.Run(proxy.NewProxyCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubeadm":                 runKubeadm,
	"kubectl":                 runKubectl,
	"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
}

func main() {
	os.Exit(run(os.Args[0], os.Stderr, programs))
}

// run runs the program that the last element of the path name selects, and returns the exit status.
func run(name string, stderr io.Writer, programs map[string]func() int) int {
	if program := programs[filepath.Base(name)]; program != nil {
		return program()
	}
	names := make([]string, 0, len(programs))
	for n := range programs {
		names = append(names, n)
	}
	slices.Sort(names)
	fmt.Fprintf(stderr, "%s is not a command; call this binary through a link with one of these names: %s\n",
		filepath.Base(name), strings.Join(names, ", "))
	return 2
}

func runEtcd() int {
	etcdmain.Main(os.Args) // exits the process itself
	return 0
}

func runKubeadm() int {
	kubeadmerrors.HandleError(kubeadm.Run()) // exits the process after an error
	return 0
}

func runKubectl() int {
	logs.GlogSetter(kubectl.GetLogVerbosity(
		os.Args)) //nolint:errcheck // a bad level is reported where the flag is parsed
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints, and exits the process
	}
	return 0
}
