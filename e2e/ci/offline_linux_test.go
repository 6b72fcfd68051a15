package ci

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
)

// Nothing is asked of a network: all works where there is none but loopback.
func TestOffline(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("*** NOTHING PROVES THAT NO NETWORK IS NEEDED: an empty network namespace takes root ***")
	}
	bin, err := box.FindPrograms(root)
	must(t, err)
	b := &box.Box{Bin: bin, Home: shortFolder(t), Name: "offline"}
	defer func() { must(t, b.Down(t.Context())) }()
	emptyNetwork(t)
	// No subtests: only this goroutine has that network.
	for _, tc := range []struct {
		args []string
		want string // in what it prints
	}{
		{[]string{"up", "--bases", "2"}, `(?m)^Sandbox "offline" is up after `},
		{[]string{"status"}, `(?m)^kube-apiserver +running`},
		{[]string{"board"}, `"name":"base-2"`}, // in what its page is sent
		{[]string{"scenario", "run", filepath.Join(root, "examples", "module", "scenarios")}, `(?m)^3 passed in .* 0 lost`},
		{[]string{"down"}, `(?m)^Sandbox "offline" is down after `},
		{[]string{"scenario", "run", "--up", filepath.Join(root, "examples", "module", "scenarios", "release.yaml")}, `(?m)^1 passed in .* 0 lost`},
		{[]string{"demo", "--name", "offline"}, `(?m)^✓ Deployment +[\d,]+ requests sent, 0 lost$`},
	} {
		if tc.args[0] == "board" {
			theBoard(t, b, tc.want)
			continue
		}
		result, err := b.Run(t.Context(), tc.args...)
		must(t, err)
		if result.Status != 0 || !regexp.MustCompile(tc.want).MatchString(result.Out) {
			t.Errorf("koupsandbox %s ends with status %d; want %s in\n%s%s", strings.Join(tc.args, " "), result.Status, tc.want, result.Out, result.Err)
		}
	}
}

// theBoard opens the board of a sandbox as a browser does, and ends it with Ctrl-C.
func theBoard(t *testing.T, b *box.Box, want string) {
	t.Helper()
	cmd := b.Command(t.Context(), "board", "--no-open", "-o", "json")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() {
		must(t, cmd.Process.Signal(unix.SIGINT))
		must(t, cmd.Wait())
	}()
	var printed struct{ URL string }
	must(t, json.NewDecoder(out).Decode(&printed))
	root, token, _ := strings.Cut(printed.URL, "/#token=")
	cookie := ""
	// ask dials by itself: a client of net/http does so in another goroutine, which has another network.
	ask := func(method, path, body, want string) {
		t.Helper()
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(root, "http://"))
		must(t, err)
		defer func() { must(t, conn.Close()) }()
		must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		request, err := http.NewRequestWithContext(t.Context(), method, root+path, strings.NewReader(body))
		must(t, err)
		for name, value := range map[string]string{"Origin": root, "Content-Type": "application/json", "Cookie": cookie} {
			request.Header.Set(name, value)
		}
		must(t, request.Write(conn))
		answer, err := http.ReadResponse(bufio.NewReader(conn), request)
		must(t, err)
		if c := answer.Cookies(); len(c) > 0 {
			cookie = c[0].Name + "=" + c[0].Value
		}
		seen := ""
		for lines := bufio.NewReader(answer.Body); !strings.Contains(seen, want); {
			line, err := lines.ReadString('\n')
			if seen += line; err != nil && !strings.Contains(seen, want) {
				t.Fatalf("%s %s: %s, %v; want %s in\n%s", method, path, answer.Status, err, want, seen)
			}
		}
	}
	ask(http.MethodGet, "/", "", `src="app.js"`)
	ask(http.MethodPost, "/api/session", `{"token": "`+token+`"}`, "")
	ask(http.MethodGet, "/api/events", "", want)
}

// emptyNetwork gives this goroutine, and what it starts, a network namespace of its own. Its thread ends
// with the goroutine.
func emptyNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	must(t, unix.Unshare(unix.CLONE_NEWNET))
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	must(t, err)
	defer func() { must(t, unix.Close(socket)) }()
	request, err := unix.NewIfreq("lo")
	must(t, err)
	request.SetUint16(unix.IFF_UP)
	must(t, unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request))
	interfaces, err := net.Interfaces()
	must(t, err)
	names := []string{}
	for _, i := range interfaces {
		names = append(names, i.Name)
	}
	if diff := cmp.Diff([]string{"lo"}, names); diff != "" {
		t.Fatalf("interfaces (-want +got):\n%s", diff)
	}
}
