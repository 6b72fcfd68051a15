package kubelet

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// newBasePod returns the Pod in which base "a" runs.
func newBasePod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "host-a", Labels: map[string]string{}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
		Status:     corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "fd00::1"}, {IP: "10.0.0.1"}}},
	}
}

// withBasePod returns a change of Options: the API has one Pod. Its log is the query of the request. A log with
// follow=true ends with the request. With forbidden, the log cannot be read.
func withBasePod(t *testing.T, pod *corev1.Pod, forbidden bool) func(*Options) {
	t.Helper()
	mux := http.NewServeMux()
	path := "GET /api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name
	mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(pod); err != nil {
			t.Error(err)
		}
	})
	mux.HandleFunc(path+"/log", func(w http.ResponseWriter, r *http.Request) {
		if forbidden {
			http.Error(w, "pods/log is forbidden", http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, r.URL.RawQuery+"\n")
		if r.URL.Query().Get("follow") == "true" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *Options) { o.BasePods = client.CoreV1() }
}

func TestLogOfBasePod(t *testing.T) {
	w := newFixture(t, withBasePod(t, newBasePod(), false))
	w.opts.EventLog.Add("a", "biz1", LogEntry{At: noon, Event: "installed"})
	client := w.authority.client("kube-apiserver")
	for query, want := range map[string]string{
		"":            "container=main",
		"tailLines=0": "container=main&tailLines=0",
		"tailLines=5&timestamps=true&limitBytes=100": "container=main&limitBytes=100&tailLines=5&timestamps=true",
		"previous=true&sinceSeconds=60":              "container=main&previous=true&sinceSeconds=60",
		"sinceTime=2026-01-02T15:04:05Z":             "container=main&sinceTime=2026-01-02T15%3A04%3A05Z",
	} {
		status, text, err := w.get(t, client, "GET", logsPath+"?"+query)
		if err != nil || status != 200 || text != want+"\n" {
			t.Errorf("%s: status %d, body %q, error %v, want %q", query, status, text, err, want)
		}
	}
	lines, _ := w.follow(t, "follow=true")
	if line, err := lines.ReadString('\n'); err != nil || line != "container=main&follow=true\n" {
		t.Fatalf("read %q, error %v", line, err)
	}
	w.pods.remove("pod-0")
	if rest, err := io.ReadAll(lines); len(rest) > 0 {
		t.Errorf("read %q, error %v after the module Pod was deleted", rest, err)
	}
}

func TestBasePod(t *testing.T) {
	const module = "biz1: installed\n"
	for name, c := range map[string]struct {
		change    func(*corev1.Pod)
		forbidden bool
		want      string // suffix of the log; for an error, part of the first line
	}{
		"container by label": {func(p *corev1.Pod) { p.Labels[labels.BaseContainer] = "app" }, false,
			"container=app\n"},
		"several containers": {func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"})
		}, false, "container=base\n"},
		"another name":      {func(p *corev1.Pod) { p.Name = "host-b" }, false, module},
		"another namespace": {func(p *corev1.Pod) { p.Namespace = "other" }, false, module},
		"another address": {func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.2"}} }, false,
			module},
		"a module Pod": {func(p *corev1.Pod) { p.Labels[labels.OlderComponent] = labels.Module }, false,
			module},
		"no permission": {func(*corev1.Pod) {}, true, module},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newBasePod()
			c.change(pod)
			w := newFixture(t, withBasePod(t, pod, c.forbidden))
			w.opts.EventLog.Add("a", "biz1", LogEntry{At: noon, Event: "installed"})
			client := w.authority.client("kube-apiserver")
			status, text, err := w.get(t, client, "GET", logsPath+"?tailLines=1")
			if err != nil || status != 200 || !strings.HasSuffix(strings.Replace(text, "&tailLines=1", "", 1), c.want) {
				t.Errorf("status %d, body %q, error %v, want %q", status, text, err, c.want)
			}
			note, _, _ := strings.Cut(text, "\n")
			if c.forbidden != (strings.HasPrefix(note, "# ") && strings.Contains(note, "host-a") &&
				strings.Contains(note, "forbidden")) {
				t.Errorf("first line %q", note)
			}
			if c.want == module {
				status, text, err := w.get(t, client, "GET", logsPath+"?previous=true")
				if err != nil || status != 400 || c.forbidden != strings.Contains(text, "forbidden") {
					t.Errorf("previous: status %d, body %q, error %v", status, text, err)
				}
			}
		})
	}
}

// TestBaseLogFile checks that the log of a module contains the lines of its base in the log file, in order.
func TestBaseLogFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bases.log")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w := newFixture(t, func(o *Options) { o.BaseLogFile = path })
	w.pods.from = noon.Add(-time.Minute)
	client := w.authority.client("kube-apiserver")
	get := func(query string) string {
		t.Helper()
		status, text, err := w.get(t, client, "GET", logsPath+"?"+query)
		if err != nil || status != 200 {
			t.Fatalf("%s: status %d, error %v", query, status, err)
		}
		return text
	}
	at := func(after time.Duration) string {
		return "time=" + noon.Add(after).Format(time.RFC3339Nano) + " level=INFO msg="
	}
	w.opts.EventLog.Add("a", "biz1", LogEntry{At: noon.Add(time.Second), Version: "1", Event: "is activated"})
	if text := get(""); strings.Count(text, "\n") != 1 { // the file does not exist yet
		t.Errorf("log without a file: %q", text)
	}
	write(at(-time.Hour) + "connected base=a\n" + // before the Pod
		at(0) + "connected base=a first=true\n" + at(0) + "connected base=aa\n" + at(0) + "connected base=b\n" +
		"panic: not a line of package slog base=a\n" + at(2*time.Second) + "disconnected base=a\n" +
		at(3*time.Second) + "incomplete base=a")
	format := func(after time.Duration, text string) string {
		return noon.Add(after).UTC().Format("2006-01-02 15:04:05.000") + " " + text + "\n"
	}
	want := []string{format(0, "base level=INFO msg=connected first=true"), format(time.Second, "biz1:1 is activated"),
		format(2*time.Second, "base level=INFO msg=disconnected")}
	if diff := cmp.Diff(strings.Join(want, ""), get("")); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[2], get("tailLines=1")); diff != "" {
		t.Errorf("last line (-want +got):\n%s", diff)
	}
	lines, _ := w.follow(t, "follow=true&tailLines=1")
	for _, want := range []string{want[2], format(3*time.Second, "base level=INFO msg=incomplete")} {
		if line, err := lines.ReadString('\n'); err != nil || line != want {
			t.Fatalf("read %q, error %v, want %q", line, err, want)
		}
		write("\n") // completes the last line
	}
}
