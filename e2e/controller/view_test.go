package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// TestModuleView checks that Modules can be selected by the address and by the host name of their base, that their
// status is Available or Failed, and that a Module is deleted with its Pod.
func TestModuleView(t *testing.T) {
	t.Parallel()
	ns, name := namespace(t), uniqueName()
	host := "host-" + name
	b := overMQTT(t, fakebase.Options{Name: name, HostName: host})
	createPod(t, ns, "pair", template("pair", name, module.Container("left", "1.0.0"),
		module.Container("right", "3.1.4")))
	bad := singleModule("bad", "1.0.0", name)
	bad.Spec.Containers[0].Env = nil // without the variable of the version
	createPod(t, ns, "bad", bad)
	readyPod(t, ns, "pair")
	dynamicClient, err := dynamic.NewForConfig(config)
	must(t, err)
	modules := dynamicClient.Resource(module.Resource).Namespace(ns)
	want := map[string]string{"pair.left": "Available", "pair.right": "Available", "bad.bad": "Failed"}
	requireModules := func(want map[string]string) {
		t.Helper()
		for selector, want := range map[string]map[string]string{
			"koupleless.alipay.com/base-instance-ip=" + b.ip:    want,
			"koupleless.alipay.com/base-instance-name=" + host:  want,
			"koupleless.alipay.com/base-instance-name=somebody": {},
		} {
			eventually(t, selector+" selects the Modules", func(ctx context.Context) error {
				list, err := modules.List(ctx, metav1.ListOptions{LabelSelector: selector})
				if err != nil {
					return err
				}
				got := map[string]string{}
				for _, m := range list.Items {
					got[m.GetName()], _, err = unstructured.NestedString(m.Object, "status", "status")
					if err != nil {
						return err
					}
				}
				return diffError(want, got)
			})
		}
	}
	requireModules(want)
	deletePod(t, ns, "pair")
	waitDeleted(t, ns, "pair")
	requireModules(map[string]string{"bad.bad": "Failed"})
}

// TestReportHook checks that a failed install is reported to the second webhook in the DingTalk message format,
// although the first webhook never responds.
func TestReportHook(t *testing.T) {
	t.Parallel()
	ns, name := namespace(t), uniqueName()
	b := overMQTT(t, fakebase.Options{Name: name})
	b.inject(t, fault.Fault{Kind: fault.KindDeaf, Count: 1, Match: fault.Match{Commands: []string{"installBiz"}}})
	spec := singleModule("m", "1.0.0", name)
	spec.Labels["trace.koupleless.io/id"] = "trace-" + name
	createPod(t, ns, "m", spec)
	readyPod(t, ns, "m")
	type message struct {
		Type     string `json:"msgtype"`
		Markdown struct {
			Title string `json:"title"`
			Text  string `json:"text"`
		} `json:"markdown"`
	}
	var want message
	want.Type, want.Markdown.Title = "markdown", "Log Notification"
	want.Markdown.Text = strings.Join([]string{
		"# MC告警\n",
		"- Trace ID: trace-" + name,
		"- 工单类型: vpod_deploy",
		"- 节点: ContainerStart",
		"- 结果: FAILED",
		fmt.Sprintf("- 失败信息: Arklet.InstallModuleTimedOut: installBiz of m:1.0.0 on base %q: base did not answer in "+
			"time (context deadline exceeded); try again", b.Identity()),
		"- 错误代码: Arklet.InstallModuleTimedOut",
		"- 解决方案: 请重试",
		fmt.Sprintf("- 部署信息: base=%s, module=m:1.0.0, namespace=%s, node=%s, pod=m", b.Identity(), ns, b.node()),
	}, "\n")
	eventually(t, "the webhook has received the message", func(context.Context) error {
		var received []message
		for _, text := range hook.received() {
			var m message
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(m.Markdown.Text, b.Identity()) {
				received = append(received, m)
			}
		}
		return diffError([]message{want}, received)
	})
}

// recordingHook is a webhook that records the messages that it receives.
type recordingHook struct {
	mu       sync.Mutex
	messages []string
}

// ServeHTTP records a message.
func (r *recordingHook) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, string(body))
}

// received returns the messages that the webhook has received.
func (r *recordingHook) received() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages)
}
