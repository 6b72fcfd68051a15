package rights

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/google/go-cmp/cmp"
	gopsutilnet "github.com/shirou/gopsutil/v4/net"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// listener is a row of the listener table in SECURITY.md.
type listener struct{ Name, Process, Where string }

// row matches the table rows that have the process and the address in backquotes. These rows apply to the embedded
// provider. The addresses in other rows depend on the cluster.
var row = regexp.MustCompile("(?m)^\\| ([^|`]+) \\| `([^`]+)` \\| `([^`]+)` \\| [^|]+ \\| ([^|]+) \\|$")

// table returns the listeners in the table of a page, and the credentials that each listener requires, by listener
// name.
func table(t *testing.T, page string) (list []listener, credentials map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, page))
	must(t, err)
	credentials = map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		list = append(list, listener{m[1], m[2], m[3]})
		credentials[m[1]] = m[4]
	}
	if len(list) == 0 {
		t.Fatalf("%s has no listeners in its table", page)
	}
	return list, credentials
}

// TestListeners checks that the table in SECURITY.md lists exactly the listeners of a sandbox, of koupsandbox board
// and of fakebase --control. A listener may serve requests without credentials only if the table gives its
// credentials as "nothing".
func TestListeners(t *testing.T) {
	one := 1
	const group = "listeners"
	_, err := up.AddBases(t.Context(),
		sandbox.AddRequest{Count: 1, Group: group, Spec: &v1alpha1.BaseSet{Count: &one, Tunnel: v1alpha1.TunnelHTTP}})
	must(t, err)
	t.Cleanup(func() {
		if _, err := up.RemoveBases(context.Background(), sandbox.RemoveRequest{Group: group}); err != nil {
			t.Errorf("deleting the base: %v", err)
		}
	})
	openWebPort(t)
	want, credentials := table(t, "SECURITY.md")
	chinese, _ := table(t, "SECURITY-zh_CN.md")
	if diff := cmp.Diff(want, chinese); diff != "" {
		t.Errorf("listeners (-SECURITY.md +SECURITY-zh_CN.md):\n%s", diff)
	}
	var got []listener
	known := map[string]bool{}
	for _, l := range append(expectedSockets(t), startCommands(t)...) {
		if known[l.Name] { // each base has this listener
			continue
		}
		known[l.Name] = true
		got = append(got, l.listener)
		request, ok := anonymous[l.Name]
		if !ok {
			t.Errorf("the test has no request without credentials for %s", l.Name)
			continue
		}
		answer, served := request(t, l.addr)
		if nothing := strings.HasPrefix(credentials[l.Name], "nothing"); served != nothing {
			t.Errorf("%s requires %q, but answers a request without credentials with %s", l.Name,
				credentials[l.Name], answer)
		}
	}
	byName := func(a, b listener) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(want, byName)
	slices.SortFunc(got, byName)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listeners (-SECURITY.md +sandbox):\n%s", diff)
	}
}

// anonymous maps each listener to a function that sends a request without credentials. The function returns the
// response, and whether the listener served the request.
var anonymous = map[string]func(t *testing.T, addr string) (answer string, served bool){
	"control socket": func(t *testing.T, addr string) (string, bool) {
		info, err := os.Stat(addr) // unit tests connect as another user
		must(t, err)
		return info.Mode().String(), info.Mode().Perm() != 0o600
	},
	"broker": func(t *testing.T, addr string) (string, bool) {
		c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(
			"anonymous").SetAutoReconnect(false))
		defer c.Disconnect(0)
		token := c.Connect()
		if !token.WaitTimeout(timeout) {
			t.Fatal("the broker does not answer")
		}
		return fmt.Sprint(token.Error()), token.Error() == nil
	},
	"gateway": func(t *testing.T, addr string) (string, bool) {
		return getThroughProxy(t, addr, "http://"+baseIP(t)+"/m")
	},
	"view of the API":         get("https", "/api/v1/nodes"),
	arklet:                    get("http", "/health"),
	"web port of a base":      get("http", "/m"),
	"etcd":                    get("https", "/version"),
	peers:                     get("https", "/version"),
	"kube-apiserver":          get("https", "/api/v1/nodes"),
	"kube-controller-manager": get("https", "/metrics"),
	"kube-scheduler":          get("https", "/metrics"),
	"heartbeats over HTTP":    get("http", "/heartbeat"),
	"kubelet API":             get("https", "/pods"),
	"health":                  get("http", "/healthz"),
	"metrics":                 get("http", "/metrics"),
	board:                     get("http", "/api/history"),
	control:                   get("http", "/bases"),
}

// get returns a function for anonymous that sends a GET request. The request counts as served unless the listener
// closes the connection, or responds with status 401 or 403.
func get(scheme, path string) func(*testing.T, string) (string, bool) {
	return func(t *testing.T, addr string) (string, bool) {
		t.Helper()
		return send(t, &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
			scheme+"://"+addr+path) //nolint:gosec // the test has no CA certificate
	}
}

// getThroughProxy sends a GET request through an HTTP proxy. It returns the same values as send.
func getThroughProxy(t *testing.T, proxy, target string) (string, bool) {
	t.Helper()
	return send(t, &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}, target)
}

// send sends a GET request. It returns the status or the error as a text, and whether the request was served.
func send(t *testing.T, transport *http.Transport, target string) (string, bool) {
	t.Helper()
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	must(t, err)
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err.Error(), false
	}
	defer func() { _ = answer.Body.Close() }() // only the status is used
	return answer.Status, answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden
}

// socket is an open listener.
type socket struct {
	listener
	addr string
}

// startCommands starts the commands that open their own listeners, and returns these listeners.
func startCommands(t *testing.T) (list []socket) {
	t.Helper()
	for name, cmd := range map[string]*exec.Cmd{
		board: shared.Command(t.Context(), "board", "--no-open"),
		control: exec.CommandContext(t.Context(), filepath.Join(shared.Bin, "fakebase"), "--control", "127.0.0.1:0",
			"--mqtt", "tcp://127.0.0.1:1"),
	} {
		must(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		eventually(t, name+" listens", func(ctx context.Context) error {
			sockets, err := gopsutilnet.ConnectionsPidWithContext(ctx, "tcp",
				int32(cmd.Process.Pid)) //nolint:gosec // a pid fits
			if err != nil {
				return err
			}
			for _, s := range sockets {
				if s.Status == "LISTEN" {
					list = append(list,
						socket{listener{name, filepath.Base(cmd.Path), s.Laddr.IP},
							net.JoinHostPort(s.Laddr.IP, fmt.Sprint(s.Laddr.Port))})
				}
			}
			if len(list) == 0 || list[len(list)-1].Name != name {
				return errors.New("no listener")
			}
			return nil
		})
	}
	return list
}

// baseIP returns the IP address of the first base.
func baseIP(t *testing.T) string {
	t.Helper()
	bases, err := up.Bases(t.Context(), "")
	must(t, err)
	return bases[0].IP
}

// expectedSockets returns all open listeners of the sandbox's processes. It waits until the daemon and etcd have
// exactly one listener each whose address the sandbox does not report. A port that the daemon opens while the test
// reads the addresses would be an additional one.
func expectedSockets(t *testing.T) (list []socket) {
	t.Helper()
	eventually(t, "the daemon and etcd each have one listener that the sandbox does not report",
		func(context.Context) error {
			list = sandboxSockets(t) //nolint:contextcheck // it uses the context of t
			unreported := map[string][]string{}
			for _, s := range list {
				if s.Name == arklet || s.Name == peers {
					unreported[s.Name] = append(unreported[s.Name], s.addr)
				}
			}
			if len(unreported[arklet]) != 1 || len(unreported[peers]) != 1 {
				return fmt.Errorf("listeners: %v", unreported)
			}
			return nil
		})
	return list
}

// sandboxSockets returns all open listeners of the sandbox's processes.
func sandboxSockets(t *testing.T) (list []socket) {
	t.Helper()
	names := reportedListeners(t)
	processes, err := shared.Processes(t.Context())
	must(t, err)
	for _, p := range processes {
		sockets, err := gopsutilnet.ConnectionsPidWithContext(t.Context(), "all", p.PID)
		must(t, err)
		for _, s := range sockets {
			switch {
			case s.Family == unix && strings.HasPrefix(s.Laddr.IP, shared.Dir()):
				list = append(list,
					socket{listener{"control socket", p.Component, strings.TrimPrefix(s.Laddr.IP, shared.Dir()+"/")},
						s.Laddr.IP})
			case s.Status == "LISTEN":
				addr := net.JoinHostPort(s.Laddr.IP, fmt.Sprint(s.Laddr.Port))
				name, ok := names[addr]
				if !ok {
					name = map[string]string{"daemon": arklet, "etcd": peers}[p.Component]
				}
				list = append(list, socket{listener{name, p.Component, s.Laddr.IP}, addr})
			}
		}
	}
	return list
}

const unix = 1 // AF_UNIX

// Names of listeners whose addresses the sandbox does not report.
const (
	arklet = "arklet of a base"
	peers  = "etcd, for other members"
	// Listeners that startCommands opens.
	board   = "web page of the board"
	control = "control endpoint of a base"
)

// reportedListeners maps the addresses that the sandbox reports to the names of their listeners.
func reportedListeners(t *testing.T) map[string]string {
	t.Helper()
	names := map[string]string{}
	ports := map[string]int{}
	text, err := os.ReadFile(filepath.Join(shared.Dir(), "ports.json"))
	must(t, err)
	must(t, json.Unmarshal(text, &ports))
	for component, port := range ports {
		names[net.JoinHostPort("127.0.0.1", fmt.Sprint(port))] = component
	}
	status, err := up.Status(t.Context(), false)
	must(t, err)
	names[status.Gateway] = "gateway"
	broker, err := shared.Broker()
	must(t, err)
	names[broker.Addr] = "broker"
	view, err := clientcmd.LoadFromFile(filepath.Join(shared.Dir(), "module-controller.view.kubeconfig"))
	must(t, err)
	for _, c := range view.Clusters {
		u, err := url.Parse(c.Server)
		must(t, err)
		names[u.Host] = "view of the API"
	}
	for text, name := range map[string]string{
		heartbeatsOver: "heartbeats over HTTP", kubeletAt: "kubelet API", healthAt: "health", metricsAt: "metrics",
	} {
		addr, err := box.FindLogWord(shared.Log(box.ControllerBinary), text)
		must(t, err)
		names[addr] = name
	}
	bases, err := up.Bases(t.Context(), "")
	must(t, err)
	for _, b := range bases {
		if b.WebAddr != "" {
			names[b.WebAddr] = "web port of a base"
		}
	}
	return names
}

// openWebPort sends a request to a base through the gateway, which makes the base open its web port.
func openWebPort(t *testing.T) {
	t.Helper()
	status, err := up.Status(t.Context(), false)
	must(t, err)
	getThroughProxy(t, status.Gateway, "http://"+baseIP(t)+"/m")
}

// Texts in the log of a controller that are followed by the address of a listener.
const (
	heartbeatsOver = `msg="receiving heartbeats over HTTP" addr=`
	kubeletAt      = `msg="serving the kubelet API" addr=`
	healthAt       = `msg=serving what=health addr=`
	metricsAt      = `msg=serving what=metrics addr=`
)
