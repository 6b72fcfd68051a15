package board

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/board"
)

// manifests is the directory of the board manifests. system is the namespace of the board objects.
const (
	manifests = "../../controller/deploy/board"
	system    = "koupleless-system"
)

// requestRecorder records the kinds of requests to the Kubernetes API, such as "apps/deployments list", and the kinds
// of the requests that the API server rejected.
type requestRecorder struct {
	next http.RoundTripper

	mu       sync.Mutex
	kinds    map[string]bool
	rejected []string
}

func (a *requestRecorder) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.next.RoundTrip(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	permission := resourceAndVerb(r.Method, r.URL)
	a.kinds[permission] = true
	if resource, watched := strings.CutSuffix(permission, " watch"); watched {
		a.kinds[resource+" list"] = true // the board lists first if the API server cannot stream lists
	}
	if err == nil && answer.StatusCode == http.StatusForbidden {
		a.rejected = append(a.rejected, permission)
	}
	return answer, err
}

// resourceAndVerb returns the resource and the verb of a request, as in an RBAC rule.
func resourceAndVerb(method string, u *url.URL) string {
	parts := strings.Split(strings.TrimPrefix(u.Path, "/"), "/")
	group := ""
	if parts[0] == "apis" {
		group, parts = parts[1], parts[1:]
	}
	parts = parts[2:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	verb := map[string]string{http.MethodPost: "create", http.MethodGet: "list"}[method]
	switch {
	case u.Query().Get("watch") != "":
		verb = "watch"
	case method == http.MethodGet && len(parts) > 1:
		verb = "get"
	}
	resource := parts[0]
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	return path.Join(group, resource) + " " + verb
}

// inCluster checks the manifests of the board: they can be applied, the arguments of the container are valid, and the
// board shows all objects with exactly the permissions of the manifests and uses each of these permissions.
func inCluster(t *testing.T, r *liveBoard) {
	kubectl := func(words ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "kubectl",
			append(words, "--kubeconfig", r.up.Kubeconfig)...).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(words, " "), err, out)
		}
	}
	kubectl("apply", "-f", "../../controller/deploy/namespace.yaml")
	kubectl("apply", "-k", manifests, "--validate=strict")
	kubectl("create", "clusterrolebinding", "board-user", "--clusterrole=view", "--serviceaccount=default:board-user")
	kubectl("create", "clusterrole", "board-nodes", "--verb=list", "--resource=nodes,events")
	kubectl("create", "clusterrolebinding", "board-nodes", "--clusterrole=board-nodes",
		"--serviceaccount=default:board-user")
	kubectl("create", "serviceaccount", "board-user", "-n", "default")

	d, err := r.api.AppsV1().Deployments(system).Get(t.Context(), "board", metav1.GetOptions{})
	check.Must(t, err)
	requireValidArguments(t, r, d)

	config, err := r.box.REST()
	check.Must(t, err)
	as := rest.AnonymousClientConfig(config)
	as.BearerToken = r.token(system, d.Spec.Template.Spec.ServiceAccountName)
	seen := &requestRecorder{kinds: map[string]bool{}}
	as.Wrap(func(next http.RoundTripper) http.RoundTripper {
		seen.next = next
		return seen
	})
	browse(t, as, r.token("default", "board-user"))

	role, err := r.api.RbacV1().ClusterRoles().Get(t.Context(), "koupleless-board", metav1.GetOptions{})
	check.Must(t, err)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(allowedRequests(role))),
		slices.Sorted(maps.Keys(seen.kinds))); diff != "" ||
		len(seen.rejected) > 0 {
		t.Errorf("permissions of the role and requests of the board (-role +requested):\n%s\nrejected: %v", diff,
			seen.rejected)
	}
}

// token returns a token of a service account.
func (r *liveBoard) token(namespace, account string) string {
	r.t.Helper()
	answer, err := r.api.CoreV1().ServiceAccounts(namespace).CreateToken(r.t.Context(), account,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	check.Must(r.t, err)
	return answer.Status.Token
}

// requireValidArguments runs koupsandbox with the arguments of the board's container. The only error must be that
// koupsandbox does not run in a Pod.
func requireValidArguments(t *testing.T, r *liveBoard, d *appsv1.Deployment) {
	t.Helper()
	result, err := r.box.Run(t.Context(), d.Spec.Template.Spec.Containers[0].Args...)
	check.Must(t, err)
	if result.Status != 1 || !strings.Contains(result.Err, "--in-cluster works only in a Pod") {
		t.Errorf("exit status %d with the arguments of the container:\n%s%s", result.Status, result.Out, result.Err)
	}
}

// allowedRequests returns the kinds of requests that a role allows.
func allowedRequests(role *rbacv1.ClusterRole) map[string]bool {
	all := map[string]bool{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all[path.Join(rule.APIGroups[0], resource)+" "+verb] = true
			}
		}
	}
	return all
}

// browse serves a board as in a cluster, logs in as a user, and requests the diagnosis of each base, Pod and
// workload.
func browse(t *testing.T, as *rest.Config, token string) {
	t.Helper()
	api, err := kubernetes.NewForConfig(as)
	check.Must(t, err)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.Must(t, err)
	b, err := board.New(board.Options{API: api, Title: "the cluster", Reviews: true, Hosts: []string{"localhost"},
		Listener: l})
	check.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Start(ctx) }()
	defer func() {
		stop()
		check.Must(t, <-ended)
	}()
	jar, err := cookiejar.New(nil)
	check.Must(t, err)
	client := &http.Client{Jar: jar, Timeout: pageTime}
	root := "http://" + l.Addr().String()
	ask := func(method, path, body string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, root+path, strings.NewReader(body))
		check.Must(t, err)
		request.Header.Set("Origin", root)
		request.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(request)
		check.Must(t, err)
		return answer
	}
	if answer := ask(http.MethodPost, "/api/session",
		`{"token": "nobody's"}`); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("unknown token: status %d, want 401", answer.StatusCode)
	}
	if answer := ask(http.MethodPost, "/api/session", `{"token": "`+token+`"}`); answer.StatusCode/100 != 2 {
		text, _ := io.ReadAll(answer.Body) // best effort, for the message
		t.Fatalf("token of the user: status %d: %s", answer.StatusCode, text)
	}
	var shown board.Tables
	check.Eventually(t.Context(), t, pageTime, "the board shows all objects", func(context.Context) error {
		answer := ask(http.MethodGet, "/api/events", "")
		defer func() { _ = answer.Body.Close() }()
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				var s board.Snapshot
				check.Must(t, json.Unmarshal([]byte(data), &s))
				shown = s.Tables
				break
			}
		}
		if len(shown.Base) < 2 || len(shown.Workload) < 3 || len(shown.Revision) < 3 || len(shown.Pod) < 5 ||
			len(shown.Component) < 1 {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	if len(shown.Notice) > 0 {
		t.Errorf("the board reports missing permissions: %v", shown.Notice)
	}
	var queries []url.Values
	for name := range shown.Base {
		queries = append(queries, url.Values{"kind": {"base"}, "name": {name}})
	}
	for _, p := range shown.Pod {
		queries = append(queries, url.Values{"kind": {"pod"}, "namespace": {p.Namespace}, "name": {p.Name}})
	}
	for _, w := range shown.Workload {
		queries = append(queries, url.Values{"kind": {w.Kind}, "namespace": {w.Namespace}, "name": {w.Name}})
	}
	for _, q := range queries {
		answer := ask(http.MethodGet, "/api/why?"+q.Encode(), "")
		text, err := io.ReadAll(answer.Body)
		check.Must(t, err)
		if answer.StatusCode != http.StatusOK || strings.Contains(string(text), "forbidden") {
			t.Errorf("why for %v: status %d: %s", q, answer.StatusCode, text)
		}
	}
}
