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

// listener is a row of the table in SECURITY.md.
type listener struct{ Name, Process, Where string }

// row matches the rows with process and address in backquotes, which exist in a sandbox with the provider
// embedded. The address in other rows depends on the cluster.
var row = regexp.MustCompile("(?m)^\\| ([^|`]+) \\| `([^`]+)` \\| `([^`]+)` \\| [^|]+ \\| ([^|]+) \\|$")

// table reads the listeners from a page, and the credentials that each listener requires.
func table(t *testing.T, page string) (list []listener, asks map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, page))
	must(t, err)
	asks = map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		list = append(list, listener{m[1], m[2], m[3]})
		asks[m[1]] = m[4]
	}
	if len(list) == 0 {
		t.Fatalf("%s has no row of a listener", page)
	}
	return list, asks
}

// The table lists exactly the listeners of a sandbox, of koupsandbox board and of fakebase --control, with
// their addresses. A listener answers a request without credentials only if the table states that it requires
// nothing.
func TestListeners(t *testing.T) {
	one := 1
	const group = "listeners"
	_, err := up.AddBases(t.Context(),
		sandbox.AddRequest{Count: 1, Group: group, Spec: &v1alpha1.BaseSet{Count: &one, Tunnel: v1alpha1.TunnelHTTP}})
	must(t, err)
	t.Cleanup(func() {
		if _, err := up.RemoveBases(context.Background(), sandbox.RemoveRequest{Group: group}); err != nil {
			t.Errorf("removing the base: %v", err)
		}
	})
	request(t)
	want, asks := table(t, "SECURITY.md")
	chinese, _ := table(t, "SECURITY-zh_CN.md")
	if diff := cmp.Diff(want, chinese); diff != "" {
		t.Errorf("listeners (-SECURITY.md +SECURITY-zh_CN.md):\n%s", diff)
	}
	var got []listener
	times := map[string]int{}
	for _, l := range append(listening(t), commands(t)...) {
		times[l.Name]++
		if times[l.Name] > 1 { // each base has one
			continue
		}
		got = append(got, l.listener)
		ask, ok := anonymous[l.Name]
		if !ok {
			t.Errorf("no request without credentials is known for %s", l.Name)
			continue
		}
		answer, served := ask(t, l.addr)
		if nothing := strings.HasPrefix(asks[l.Name], "nothing"); served != nothing {
			t.Errorf("%s asks for %q, but answers a request without credentials with %s", l.Name, asks[l.Name], answer)
		}
	}
	if times[arklet] != 1 || times[peers] != 1 {
		t.Errorf("%d listeners are arklets of one base over HTTP, and %d are of etcd for other members; want 1 and 1",
			times[arklet], times[peers])
	}
	byName := func(a, b listener) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(want, byName)
	slices.SortFunc(got, byName)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listeners (-SECURITY.md +sandbox):\n%s", diff)
	}
}

// anonymous has a function for each listener that sends a request without credentials. The function returns the
// answer, and whether the listener served the request.
var anonymous = map[string]func(t *testing.T, addr string) (answer string, served bool){
	"control socket": func(t *testing.T, addr string) (string, bool) {
		info, err := os.Stat(addr) // unit tests call it as another user
		must(t, err)
		return info.Mode().String(), info.Mode().Perm() != 0o600
	},
	"broker": func(t *testing.T, addr string) (string, bool) {
		c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + addr).SetClientID(
			"anonymous").SetAutoReconnect(false))
		defer c.Disconnect(0)
		token := c.Connect()
		if !token.WaitTimeout(patience) {
			t.Fatal("the broker does not answer")
		}
		return fmt.Sprint(token.Error()), token.Error() == nil
	},
	"gateway": func(t *testing.T, addr string) (string,
		bool) {
		return through(t, addr, "http://"+baseIP(t)+"/m")
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

// get returns a function that sends a GET without credentials. A listener that ends the connection, or answers 401 or 403, does
// not serve it.
func get(scheme, path string) func(*testing.T, string) (string, bool) {
	return func(t *testing.T, addr string) (string, bool) {
		t.Helper()
		return ask(t, &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
			scheme+"://"+addr+path) //nolint:gosec // it is the client that is not known
	}
}

// through sends a GET through a proxy.
func through(t *testing.T, proxy, target string) (string, bool) {
	t.Helper()
	return ask(t, &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}, target)
}

func ask(t *testing.T, transport *http.Transport, target string) (string, bool) {
	t.Helper()
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	must(t, err)
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err.Error(), false
	}
	defer func() { _ = answer.Body.Close() }() // the status is enough
	return answer.Status, answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden
}

// socket is an open listener.
type socket struct {
	listener
	addr string
}

// commands starts the commands that have listeners in addition to a sandbox, and lists their sockets.
func commands(t *testing.T) (list []socket) {
	t.Helper()
	for name, cmd := range map[string]*exec.Cmd{
		board: shared.Command(t.Context(), "board", "--no-open"),
		control: exec.CommandContext(t.Context(), filepath.Join(shared.Bin, "fakebase"), "--control", "127.0.0.1:0",
			"--mqtt", "tcp://127.0.0.1:1"),
	} {
		must(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // the test has what it needs
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
				return errors.New("it does not")
			}
			return nil
		})
	}
	return list
}

// baseIP is the address of a base.
func baseIP(t *testing.T) string {
	t.Helper()
	bases, err := up.Bases(t.Context(), "")
	must(t, err)
	return bases[0].IP
}

// listening lists the sockets on which processes of the sandbox listen.
func listening(t *testing.T) (list []socket) {
	t.Helper()
	names := known(t)
	processes, err := shared.Processes(t.Context())
	must(t, err)
	for _, p := range processes {
		sockets, err := gopsutilnet.ConnectionsPidWithContext(t.Context(), "all", p.PID)
		must(t, err)
		for _, s := range sockets {
			switch {
			case s.Family == unix && strings.HasPrefix(s.Laddr.IP, shared.Folder()):
				list = append(list,
					socket{listener{"control socket", p.Component, strings.TrimPrefix(s.Laddr.IP, shared.Folder()+"/")},
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

// The listeners whose addresses the sandbox does not report: the other listeners of the daemon and of etcd.
const (
	arklet = "arklet of a base"
	peers  = "etcd, for other members"
	// The listeners of commands.
	board   = "web page of the board"
	control = "control endpoint of a base"
)

// known returns the listeners whose addresses the sandbox reports, by address.
func known(t *testing.T) map[string]string {
	t.Helper()
	names := map[string]string{}
	ports := map[string]int{}
	text, err := os.ReadFile(filepath.Join(shared.Folder(), "ports.json"))
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
	view, err := clientcmd.LoadFromFile(filepath.Join(shared.Folder(), "module-controller.view.kubeconfig"))
	must(t, err)
	for _, c := range view.Clusters {
		u, err := url.Parse(c.Server)
		must(t, err)
		names[u.Host] = "view of the API"
	}
	for text, name := range map[string]string{
		heartbeatsOver: "heartbeats over HTTP", kubeletAt: "kubelet API", healthAt: "health", metricsAt: "metrics",
	} {
		addr, err := box.Logged(shared.Log(box.ControllerBinary), text)
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

// request sends a request to a base through the gateway and ignores the answer. After that, the base has a web
// port.
func request(t *testing.T) {
	t.Helper()
	status, err := up.Status(t.Context(), false)
	must(t, err)
	through(t, status.Gateway, "http://"+baseIP(t)+"/m")
}

// The texts before addresses in the log of a controller.
const (
	heartbeatsOver = `msg="receiving heartbeats over HTTP" addr=`
	kubeletAt      = `msg="serving the kubelet API" addr=`
	healthAt       = `msg=serving what=health addr=`
	metricsAt      = `msg=serving what=metrics addr=`
)
