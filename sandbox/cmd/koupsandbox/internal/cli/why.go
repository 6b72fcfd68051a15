package cli

import (
	"cmp"
	"errors"
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
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
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
		Usage:     "explain why a module Pod, a workload or a base is not Ready, and how to fix it",
		ArgsUsage: "TARGET",
		Description: describe(`TARGET is the name of a Pod, or one of: pod/NAME, node/NAME, deployment/NAME,
daemonset/NAME, statefulset/NAME. The NAME of a node can be the host name or the identity of
a base. The command is read-only. Use --context or --kubeconfig to query any cluster that
runs the bundled controller. The kubectl plugin, kubectl-koupsandbox, queries the cluster of
kubectl. Credentials in URLs are replaced by ***.
Exit status: 0 if there is an answer.`,
			"koupsandbox why biz1", "koupsandbox why --context prod -n shop deployment/stock"),
		Flags:  append(clusterFlags("namespace of the target"), newLanguageFlag(), newOutputFlag(formatJSON)),
		Action: withArgs(1, 1, "one argument: a Pod, or KIND/NAME", s.runWhy),
	}
}

// clusterFlags returns the flags that select a cluster. namespaceUsage is the usage text of the flag --namespace.
func clusterFlags(namespaceUsage string) []cli.Flag {
	return []cli.Flag{
		sandboxNameFlag(),
		&cli.StringFlag{Name: namespaceFlag, Aliases: []string{"n"}, Usage: "`NAMESPACE`: " + namespaceUsage,
			DefaultText: "the namespace of the kubeconfig context", Category: clusterCategory},
		newContextFlag(),
		newKubeconfigFlag(),
	}
}

func newContextFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: contextFlag,
		Usage:       "`CONTEXT`: kubeconfig context of the cluster to use instead of a sandbox",
		DefaultText: "the current context", Category: clusterCategory}
}

func newKubeconfigFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: kubeconfigFlag, Usage: "`FILE`: kubeconfig of the cluster to use instead of a sandbox",
		DefaultText: "with --context, the kubeconfig of kubectl", Category: clusterCategory}
}

func (s *commands) runWhy(c *cli.Context, list []string) error {
	l, err := s.languageOf(c)
	if err != nil {
		return err
	}
	cluster, err := s.selectCluster(c)
	if err != nil {
		return err
	}
	target, err := why.ParseTarget(list[0], cluster.namespace)
	if err != nil {
		return usageError{err}
	}
	snapshot, err := why.Gather(c.Context, cluster.client, target)
	if err != nil {
		return err
	}
	answer := whyAnswer{why.ExplainIn(l, snapshot, time.Now()), cluster.sandbox, cluster.context}
	return s.printResult(c, answer, func(bool) { s.printAnswer(l, answer) })
}

// whyAnswer is the result of why, also in JSON. Sandbox is the name of the sandbox, or Context the kubeconfig context,
// of the target. The other field is empty.
type whyAnswer struct {
	why.Answer
	Sandbox string `json:"sandbox,omitempty"`
	Context string `json:"context,omitempty"`
}

// selectedCluster is the cluster that the flags from clusterFlags select.
type selectedCluster struct {
	client kubernetes.Interface
	// namespace is the namespace from --namespace or the kubeconfig.
	namespace string
	// sandbox is the name of the sandbox, or context the kubeconfig context, of the cluster. The other field is empty.
	sandbox, context string
}

func (s *commands) selectCluster(c *cli.Context) (*selectedCluster, error) {
	config, sandboxName, err := s.clientConfig(c)
	if err != nil {
		return nil, err
	}
	raw, err := config.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	namespace, err := targetNamespace(c, config, raw)
	if err != nil {
		return nil, err
	}
	rest, err := config.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	rest.WarningHandler = nil
	rest.UserAgent = "koupsandbox " + c.Command.Name
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, fmt.Errorf("creating a client for the cluster: %w", err)
	}
	cluster := &selectedCluster{client: client, namespace: namespace, sandbox: sandboxName}
	if sandboxName == "" {
		cluster.context = cmp.Or(c.String(contextFlag), raw.CurrentContext)
	}
	return cluster, nil
}

// clientConfig returns the client configuration for the selected cluster. It reads the file from --kubeconfig. Without
// this flag, it reads kubectl's default kubeconfig if --context is set or the binary runs as a kubectl plugin, and
// otherwise the kubeconfig of the sandbox, whose name it returns.
func (s *commands) clientConfig(c *cli.Context) (config clientcmd.ClientConfig, sandboxName string, err error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.String(contextFlag)}
	load := func(path string) clientcmd.ClientConfig {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = path
		return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	}
	if c.IsSet(kubeconfigFlag) || c.IsSet(contextFlag) || s.isKubectlPlugin() && !s.onCommandLine(nameFlag) {
		if s.onCommandLine(nameFlag) {
			return nil, "", usageError{
				errors.New("--name cannot be used with --context or --kubeconfig")}
		}
		return load(c.String(kubeconfigFlag)), "", nil
	}
	home, name, err := sandboxTarget(c)
	if err != nil {
		return nil, "", err
	}
	dir := state.Home(home).Dir(name)
	if _, err := os.Stat(dir.Kubeconfig()); err != nil {
		return nil, "", fmt.Errorf(
			"sandbox %q is %w; start it with: koupsandbox up --name %s, or select another cluster with --context", name,
			sandbox.ErrNotUp, name)
	}
	if !c.IsSet(nameFlag) {
		s.warnOfOtherSandbox(dir)
	}
	return load(dir.Kubeconfig()), name, nil
}

// warnOfOtherSandbox prints a warning if KUBECONFIG is the kubeconfig of another sandbox than the one in dir.
func (s *commands) warnOfOtherSandbox(dir state.Dir) {
	path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	other := state.Dir(filepath.Dir(path))
	if path == "" || path != other.Kubeconfig() || other == dir {
		return
	}
	if owned, err := other.Owned(); err != nil || !owned {
		return
	}
	printf(s.Err, "using sandbox %q, not sandbox %q of KUBECONFIG; to use it, add --kubeconfig \"$KUBECONFIG\"\n",
		dir.Name(), other.Name())
}

const kubectlPlugin = "kubectl-koupsandbox"

// isKubectlPlugin reports whether the binary runs as a kubectl plugin. A plugin uses the current kubectl context by
// default.
func (s *commands) isKubectlPlugin() bool {
	return len(s.args) > 0 && filepath.Base(s.args[0]) == kubectlPlugin
}

// targetNamespace returns the namespace that --namespace selects. Without the flag, it returns the namespace of the
// kubeconfig context.
func targetNamespace(c *cli.Context, config clientcmd.ClientConfig, raw clientcmdapi.Config) (string, error) {
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

// The texts that why prints with an explanation. Words in braces are placeholders.
var (
	textSentence = language.Text{EN: "{text}.", ZH: "{text}。"}
	textReason   = language.Text{EN: "{reason} of {target}{cluster}", ZH: "{cluster}{target} 的情形：{reason}"}
	textSandbox  = language.Text{EN: " in sandbox {name}", ZH: "沙箱 {name} 中 "}
	textContext  = language.Text{EN: " in context {name}", ZH: "context {name} 中 "}
	textBecause  = language.Text{EN: "{reason}, because of {because}", ZH: "{reason}，起因于 {because}"}
)

// printAnswer prints an explanation: the cause, the fix, the reason, and the evidence.
func (s *commands) printAnswer(l language.Language, a whyAnswer) {
	mark := "✗"
	if a.Ready {
		mark = "✓"
	}
	sentence := func(text string) string {
		if strings.HasSuffix(text, "?") || strings.HasSuffix(text, "？") {
			return plain.Text(text)
		}
		return textSentence.In(l, language.Args{"text": plain.Text(text)})
	}
	printf(s.Out, "%s %s\n", mark, sentence(a.Cause))
	if a.Advice != "" {
		printf(s.Out, "→ %s\n", sentence(a.Advice))
	}
	reason := string(a.Reason)
	if a.Because != "" {
		reason = textBecause.In(l, language.Args{"reason": a.Reason, "because": a.Because})
	}
	target := fmt.Sprintf("%s/%s", a.Target.Kind, plain.Text(a.Target.Name))
	cluster := ""
	switch {
	case a.Sandbox != "":
		cluster = textSandbox.In(l, language.Args{"name": a.Sandbox})
	case a.Context != "":
		cluster = textContext.In(l, language.Args{"name": plain.Text(a.Context)})
	}
	printf(s.Out, "\n%s\n", textReason.In(l, language.Args{"reason": reason, "target": target, "cluster": cluster}))
	about := ""
	for _, e := range a.Evidence {
		if e.About != about {
			about = e.About
			printf(s.Out, "\n%s\n", e.Heading(l))
		}
		at := ""
		if !e.At.IsZero() {
			at = e.At.UTC().Format(time.DateTime) + "  "
		}
		printf(s.Out, "  %s%s\n", at, plain.Text(e.Text))
	}
}
