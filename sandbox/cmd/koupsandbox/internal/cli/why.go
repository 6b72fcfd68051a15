package cli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

const (
	namespaceFlag  = "namespace"
	contextFlag    = "context"
	kubeconfigFlag = "kubeconfig"
)

func (s *commands) why() *cli.Command {
	return &cli.Command{
		Name:      "why",
		Usage:     "explain why a module Pod, a workload or a base is not Ready, and what to do",
		ArgsUsage: "TARGET",
		Description: `A TARGET is a Pod, or pod/NAME, node/NAME, deployment/NAME, daemonset/NAME or statefulset/NAME.
The NAME of a node is also the host name or the identity of a base.
The command is read-only. Use --context or --kubeconfig to query any cluster that runs this module
controller, without a sandbox. The kubectl plugin, kubectl-koupsandbox, queries the cluster of kubectl.
Credentials in URLs are replaced by ***. Exit status: 0 if there is an answer.
Examples:
  koupsandbox why biz1
  koupsandbox why --context prod -n shop deployment/stock`,
		Flags:  append(theCluster("of the target"), output(formatJSON)),
		Action: taking(1, 1, "a Pod, or KIND/NAME", s.explainWhy),
	}
}

// theCluster are the flags that say which cluster is asked; namespace says what that one is for.
func theCluster(namespace string) []cli.Flag {
	return []cli.Flag{
		theName(),
		&cli.StringFlag{Name: namespaceFlag, Aliases: []string{"n"}, Usage: "`NAMESPACE` " + namespace,
			DefaultText: "that of the kubeconfig's context"},
		&cli.StringFlag{Name: contextFlag, Usage: "`CONTEXT` of a kubeconfig, instead of a sandbox",
			DefaultText: "the current one"},
		&cli.StringFlag{Name: kubeconfigFlag, Usage: "`FILE` to read instead of the sandbox's kubeconfig",
			DefaultText: "with --context: as kubectl does"},
	}
}

func (s *commands) explainWhy(c *cli.Context, list []string) error {
	client, namespace, err := s.cluster(c)
	if err != nil {
		return err
	}
	target, err := why.ParseTarget(list[0], namespace)
	if err != nil {
		return usageError{err}
	}
	snapshot, err := why.Gather(c.Context, client, target)
	if err != nil {
		return err
	}
	answer := why.Explain(snapshot, time.Now())
	return s.show(c, answer, func(bool) { s.tellWhy(answer) })
}

// cluster is the one that theCluster names, and the namespace.
func (s *commands) cluster(c *cli.Context) (kubernetes.Interface, string, error) {
	config, err := s.clientConfig(c)
	if err != nil {
		return nil, "", err
	}
	namespace, err := theNamespace(c, config)
	if err != nil {
		return nil, "", err
	}
	rest, err := config.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("reading how to reach the cluster: %w", err)
	}
	rest.WarningHandler = nil
	rest.UserAgent = "koupsandbox " + c.Command.Name
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, "", fmt.Errorf("reading how to reach the cluster: %w", err)
	}
	return client, namespace, nil
}

// clientConfig is the kubeconfig that is asked for: a file, a context as kubectl finds it, or that of
// the sandbox.
func (s *commands) clientConfig(c *cli.Context) (clientcmd.ClientConfig, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.String(contextFlag)}
	load := func(path string) clientcmd.ClientConfig {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = path
		return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	}
	if c.IsSet(kubeconfigFlag) || c.IsSet(contextFlag) || s.isPlugin() && !s.given(nameFlag) {
		if s.given(nameFlag) {
			return nil, usageError{
				fmt.Errorf("%s takes --name, or --context and --kubeconfig, but not both", c.Command.Name)}
		}
		return load(c.String(kubeconfigFlag)), nil
	}
	folder, name, err := target(c)
	if err != nil {
		return nil, err
	}
	path := state.Home(folder).Dir(name).Kubeconfig()
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf(
			"sandbox %q is %w, so there is nothing to ask; bring it up with: koupsandbox up --name %s, or name "+
				"another cluster with --context", name, sandbox.ErrNotUp, name)
	}
	return load(path), nil
}

const plugin = "kubectl-koupsandbox"

// isPlugin tells whether kubectl has called the program: then its cluster is asked, and no sandbox.
func (s *commands) isPlugin() bool {
	return len(s.line) > 0 && filepath.Base(s.line[0]) == plugin
}

// theNamespace is that of the target: the flag's, or the context's.
func theNamespace(c *cli.Context, config clientcmd.ClientConfig) (string, error) {
	raw, err := config.RawConfig()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if name := c.String(contextFlag); name != "" && raw.Contexts[name] == nil {
		return "", fmt.Errorf("the kubeconfig has no context %q%s", name,
			plain.DidYouMean(name, slices.Collect(maps.Keys(raw.Contexts))))
	}
	if namespace := c.String(namespaceFlag); namespace != "" {
		return namespace, nil
	}
	namespace, _, err := config.Namespace()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return cmp.Or(namespace, "default"), nil
}

// tellWhy prints the cause in one line, what to do in the next, and then what was looked at.
func (s *commands) tellWhy(a why.Answer) {
	mark := "✗"
	if a.Ready {
		mark = "✓"
	}
	say(s.Out, "%s %s\n", mark, plain.Text(a.Cause)+".")
	if a.Advice != "" {
		say(s.Out, "→ %s\n", strings.Replace(plain.Text(a.Advice)+".", "?.", "?", 1))
	}
	reason := string(a.Reason)
	if a.Because != "" {
		reason += ", because of " + string(a.Because)
	}
	say(s.Out, "\n%s of %s/%s\n", reason, a.Target.Kind, plain.Text(a.Target.Name))
	about := ""
	for _, e := range a.Evidence {
		if e.About != about {
			about = e.About
			say(s.Out, "\n%s\n", about)
		}
		at := ""
		if !e.At.IsZero() {
			at = e.At.UTC().Format(time.DateTime) + "  "
		}
		say(s.Out, "  %s%s\n", at, plain.Text(e.Text))
	}
}
