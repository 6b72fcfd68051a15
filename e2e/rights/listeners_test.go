package rights

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gopsutilnet "github.com/shirou/gopsutil/v4/net"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// listener is a row of the table of SECURITY.md, as far as it can be seen.
type listener struct{ Name, Process, Where string }

// elsewhere are the words of the column "When" for what the sandbox of these tests has not.
var elsewhere = regexp.MustCompile(`kind|container|PROFILING`)

var row = regexp.MustCompile("(?m)^\\| ([^|`]+) \\| `([^`]+)` \\| `([^`]+)` \\| ([^|]+) \\|")

// table reads the listeners of a sandbox as this one from a page.
func table(t *testing.T, page string) (list []listener) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, page))
	must(t, err)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		if !elsewhere.MatchString(m[4]) {
			list = append(list, listener{m[1], m[2], m[3]})
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s has no row of a listener", page)
	}
	return list
}

// What listens in a running sandbox is what the table lists, at the addresses that it says, both ways.
func TestListeners(t *testing.T) {
	one := 1
	const group = "listeners"
	_, err := up.AddBases(t.Context(), sandbox.AddRequest{Count: 1, Group: group, Spec: &v1alpha1.BaseSet{Count: &one, Tunnel: v1alpha1.TunnelHTTP}})
	must(t, err)
	t.Cleanup(func() {
		if _, err := up.RemoveBases(context.Background(), sandbox.RemoveRequest{Group: group}); err != nil {
			t.Errorf("removing the base: %v", err)
		}
	})
	request(t)
	want := table(t, "SECURITY.md")
	if diff := cmp.Diff(want, table(t, "SECURITY-zh_CN.md")); diff != "" {
		t.Errorf("listeners (-SECURITY.md +SECURITY-zh_CN.md):\n%s", diff)
	}
	var got []listener
	times := map[string]int{}
	for _, l := range listening(t) {
		if times[l.Name]++; !slices.Contains(got, l) { // each base has one
			got = append(got, l)
		}
	}
	if times[arklet] != 1 || times[peers] != 1 {
		t.Errorf("%d listeners are arklets of one base over HTTP, and %d are of etcd for other members; want 1 and 1", times[arklet], times[peers])
	}
	byName := func(a, b listener) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(want, byName)
	slices.SortFunc(got, byName)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listeners (-SECURITY.md +sandbox):\n%s", diff)
	}
}

// listening lists the sockets on which processes of the sandbox listen.
func listening(t *testing.T) (list []listener) {
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
				list = append(list, listener{"control socket", p.Component, strings.TrimPrefix(s.Laddr.IP, shared.Folder()+"/")})
			case s.Status == "LISTEN":
				name, ok := names[net.JoinHostPort(s.Laddr.IP, fmt.Sprint(s.Laddr.Port))]
				if !ok {
					name = byItsAnswer(t, p.Component, net.JoinHostPort(s.Laddr.IP, fmt.Sprint(s.Laddr.Port)))
				}
				list = append(list, listener{name, p.Component, s.Laddr.IP})
			}
		}
	}
	return list
}

const unix = 1 // AF_UNIX

// The listeners whose addresses nothing tells.
const (
	arklet = "arklet of a base"
	peers  = "etcd, for other members"
)

// byItsAnswer tells by what a listener of a process answers which of those it is.
func byItsAnswer(t *testing.T, process, addr string) string {
	t.Helper()
	switch process {
	case "daemon":
		answer, err := http.Post("http://"+addr+"/health", "application/json", strings.NewReader("{}"))
		if err != nil {
			return "no arklet: " + err.Error()
		}
		defer func() { _ = answer.Body.Close() }()
		var health struct {
			Code string
			Data struct{ HealthData map[string]any }
		}
		if err := json.NewDecoder(answer.Body).Decode(&health); err != nil || health.Code != "SUCCESS" || len(health.Data.HealthData) == 0 {
			return fmt.Sprintf("no arklet: it answers %+v, %v", health, err)
		}
		return arklet
	case "etcd":
		authority, err := os.ReadFile(filepath.Join(shared.Folder(), "pki", "etcd-ca.crt"))
		must(t, err)
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(authority) {
			t.Fatal("etcd's authority has no certificate")
		}
		c, err := tls.Dial("tcp", addr, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: "localhost"})
		if err != nil {
			return "not etcd's: " + err.Error()
		}
		must(t, c.Close())
		return peers
	}
	return "unknown"
}

// known names the addresses that the sandbox itself tells.
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
		heartbeatsOver: "heartbeats over HTTP", kubeletAt: "kubelet API", healthAt: "health", metricsAt: "metrics", metricsAPIAt: "metrics API",
	} {
		addr, err := lastAfter(shared.Log(box.ControllerProgram), text)
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

// request sends a request to a base through the gateway, whatever it answers: then the base has a web
// port.
func request(t *testing.T) {
	t.Helper()
	bases, err := up.Bases(t.Context(), "")
	must(t, err)
	status, err := up.Status(t.Context(), false)
	must(t, err)
	through := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: status.Gateway})}
	defer through.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+bases[0].IP+"/m", nil)
	must(t, err)
	answer, err := (&http.Client{Transport: through}).Do(r)
	must(t, err)
	must(t, answer.Body.Close())
}

// What stands before an address in the log of a controller.
const (
	heartbeatsOver = `msg="receiving heartbeats over HTTP" addr=`
	kubeletAt      = `msg="serving the kubelet API" addr=`
	healthAt       = `msg=serving what=health addr=`
	metricsAt      = `msg=serving what=metrics addr=`
	metricsAPIAt   = `msg="serving the metrics API" addr=`
)

// lastAfter returns the word that stands last behind a text in a log.
func lastAfter(file, text string) (word string, err error) {
	log, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(log)) {
		if _, after, ok := strings.Cut(line, text); ok {
			word, _, _ = strings.Cut(strings.TrimSpace(after), " ")
		}
	}
	if word == "" {
		return "", fmt.Errorf("%s does not say %s", file, text)
	}
	return word, nil
}
