// Command koup-controlplane is the Kubernetes control plane of a sandbox in one binary: the upstream etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler. Each is a subcommand with the flags of the upstream
// binary.
//
// It has its own Go module, because k8s.io/kubernetes needs replace directives. The linker sets the Kubernetes version
// that the API reports. Without it, the components report v0.0.0-master.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // offers --logging-format=json, as the upstream binaries do
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/component-base/version"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const usage = `Usage: koup-controlplane COMMAND [FLAGS]

Commands:
  etcd                      run etcd
  kube-apiserver            run the Kubernetes API server
  kube-controller-manager   run the built-in Kubernetes controllers
  kube-scheduler            run the Kubernetes scheduler
  version                   print the versions of Kubernetes and etcd in this binary

Each command except version accepts the flags of the upstream binary of that name; see COMMAND --help.
`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the component named by args[0] and returns the exit status. It constructs the command of only this
// component, because constructing an upstream command registers process-wide flags and metrics.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	switch args[0] {
	case "etcd":
		etcdmain.Main(args) // exits the process itself
		return 0
	case "kube-apiserver":
		return runCobra(newAPIServerCommand(), args)
	case "kube-controller-manager":
		return runCobra(controllermanager.NewControllerManagerCommand(), args)
	case "kube-scheduler":
		return runCobra(scheduler.NewSchedulerCommand(), args)
	case "version":
		fmt.Fprintf(stdout, "kubernetes %s\netcd %s\n", version.Get().GitVersion, etcdVersion())
		return 0
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return 0
	default:
		fmt.Fprintf(stderr, "koup-controlplane: unknown command %q; supported: %s\n", args[0],
			strings.Join([]string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "version"},
				", "))
		return 2
	}
}

func runCobra(command *cobra.Command, args []string) int {
	command.SetArgs(args[1:])
	command.FParseErrWhitelist.UnknownFlags = oldest // the sandbox uses flags that the oldest version lacks
	return cli.Run(command)
}

// etcdVersion is the version of the etcd server in this binary.
func etcdVersion() string { return etcdversion.Version }
