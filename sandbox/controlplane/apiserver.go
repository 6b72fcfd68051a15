//go:build !oldest

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	rbac "k8s.io/kubernetes/pkg/registry/rbac/rest"
	scheduling "k8s.io/kubernetes/pkg/registry/scheduling/rest"
)

// oldest reports whether this is a build with oldest.mod, for make e2e-oldest.
const oldest = false

// newAPIServerCommand returns a command with the flags and the behavior of the upstream kube-apiserver, but /healthz
// does not wait for the hooks that create the default roles and priority classes. These hooks delay /healthz
// upstream, because each of them first sleeps for one second, and the controller manager polls /healthz only once per
// second before it starts. Here, the hooks run while the server prepares to serve. /readyz still waits for the hooks.
func newAPIServerCommand() *cobra.Command {
	o := options.NewServerRunOptions()
	registry := o.GenericServerRunOptions.ComponentGlobalsRegistry
	command := &cobra.Command{
		Use:          "kube-apiserver",
		SilenceUsage: true,
		Args:         cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			verflag.PrintAndExitIfRequested()
			if err := registry.Set(); err != nil {
				return err
			}
			rest.SetDefaultWarningHandler(rest.NoWarnings{}) // the server is a client of its own
			if err := logsapi.ValidateAndApply(o.Logs,
				registry.FeatureGateFor(basecompatibility.DefaultKubeComponent)); err != nil {
				return err
			}
			ctx := genericapiserver.SetupSignalContext()
			completed, err := o.Complete(ctx)
			if err != nil {
				return err
			}
			if errs := completed.Validate(); len(errs) > 0 {
				return utilerrors.NewAggregate(errs)
			}
			return serve(ctx, completed)
		},
	}
	sets := o.Flags()
	verflag.AddFlags(sets.FlagSet("global"))
	globalflag.AddGlobalFlags(sets.FlagSet("global"), command.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range sets.FlagSets {
		command.Flags().AddFlagSet(set)
	}
	return command
}

// serve runs an API server. It blocks until ctx ends.
func serve(ctx context.Context, o options.CompletedOptions) error {
	var err error
	o.InformerName, err = cache.NewInformerName("kube-apiserver")
	if err != nil {
		return err
	}
	config, err := apiserver.NewConfig(o)
	if err != nil {
		return err
	}
	generic := config.KubeAPIs.ControlPlane.Generic
	var hooks []*hook
	for _, provider := range []genericapiserver.PostStartHookProvider{rbac.RESTStorageProvider{},
		scheduling.RESTStorageProvider{}} {
		name, run, err := provider.PostStartHook()
		if err != nil {
			return fmt.Errorf("creating the hook %s: %w", name, err)
		}
		generic.DisabledPostStartHooks.Insert(name)
		hooks = append(hooks, &hook{name: name, run: run, done: make(chan struct{})})
	}
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := apiserver.CreateServerChain(completed)
	if err != nil {
		return err
	}
	for _, h := range hooks {
		if err := server.GenericAPIServer.AddReadyzChecks(
			healthz.NamedCheck("poststarthook/"+h.name, h.check)); err != nil {
			return err
		}
		go h.start(genericapiserver.PostStartHookContext{LoopbackClientConfig: generic.LoopbackClientConfig,
			Context: ctx})
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}

// hook is an upstream post-start hook that runs while the server starts.
type hook struct {
	name string
	run  genericapiserver.PostStartHookFunc
	done chan struct{}
}

// start runs a hook until it succeeds or ctx ends. An attempt fails if the server does not listen within 30 s, which
// can happen on a busy machine.
func (h *hook) start(ctx genericapiserver.PostStartHookContext) {
	for ctx.Err() == nil {
		err := h.run(ctx)
		if err == nil {
			close(h.done)
			return
		}
		klog.Errorf("PostStartHook %q failed; retrying: %v", h.name, err)
	}
}

var errNotFinished = errors.New("the hook has not succeeded yet")

// check returns errNotFinished until the hook has succeeded. It is the readiness check of the hook.
func (h *hook) check(*http.Request) error {
	select {
	case <-h.done:
		return nil
	default:
		return errNotFinished
	}
}
