package metricsapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// window is longer than the figure on a Node is behind its base: a Node is written every 30 s at
// most for its memory alone, and a base is asked every 10 s.
const window = time.Minute

// noPods is what kubectl top pod prints.
const noPods = "a base tells the metaspace of its JVM as a whole, and not what each module has of it: kubectl top node shows that of bases"

// handler serves what the API server and kubectl top ask for. Discovery names no Pods: there are no
// metrics of them, and whoever asks is told why.
func (s *Server) handler() http.Handler {
	root := "/apis/" + v1beta1.SchemeGroupVersion.String()
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+root, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: v1beta1.SchemeGroupVersion.String(),
			APIResources: []metav1.APIResource{{Name: "nodes", Kind: "NodeMetrics", Verbs: metav1.Verbs{"get", "list"}}},
		})
	})
	mux.HandleFunc("GET "+root+"/nodes", s.list)
	mux.HandleFunc("GET "+root+"/nodes/{name}", s.get)
	for _, path := range []string{"/pods", "/namespaces/{namespace}/pods", "/namespaces/{namespace}/pods/{name}"} {
		mux.HandleFunc("GET "+root+path, func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusNotImplemented, "NotImplemented", noPods)
		})
	}
	return mux
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	selector, err := k8slabels.Parse(query.Get("labelSelector"))
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "labelSelector: "+err.Error())
		return
	case query.Get("fieldSelector") != "" || query.Get("watch") != "":
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "the metrics of bases are listed by labels only, and not watched")
		return
	}
	nodes, err := s.opts.Nodes.List(selector)
	if err != nil {
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
		return
	}
	l := v1beta1.NodeMetricsList{
		TypeMeta: metav1.TypeMeta{Kind: "NodeMetricsList", APIVersion: v1beta1.SchemeGroupVersion.String()},
		Items:    []v1beta1.NodeMetrics{},
	}
	for _, n := range nodes {
		if m, known := of(n, time.Now()); known {
			l.Items = append(l.Items, m)
		}
	}
	slices.SortFunc(l.Items, func(a, b v1beta1.NodeMetrics) int { return cmp.Compare(a.Name, b.Name) })
	answer(w, http.StatusOK, l)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	n, err := s.opts.Nodes.Get(name)
	if err != nil {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("node %q is no base: only bases have metrics here", name))
		return
	}
	m, known := of(n, time.Now())
	if !known {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("node %q has no metrics now: its base is not heard, or has not told its metaspace yet", name))
		return
	}
	m.TypeMeta = metav1.TypeMeta{Kind: "NodeMetrics", APIVersion: v1beta1.SchemeGroupVersion.String()}
	answer(w, http.StatusOK, m)
}

// of reads the metrics of a base from its Node: the metaspace in use, as memory. There is no CPU: a
// base tells only the mean of its whole machine since it started. A base that is not heard has none.
func of(n *corev1.Node, now time.Time) (m v1beta1.NodeMetrics, known bool) {
	inUse, err := resource.ParseQuantity(n.Annotations[labels.MetaspaceInUse])
	if err != nil || !heard(n) {
		return m, false
	}
	return v1beta1.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, CreationTimestamp: metav1.NewTime(now)},
		Timestamp:  metav1.NewTime(now),
		Window:     metav1.Duration{Duration: window},
		Usage:      corev1.ResourceList{corev1.ResourceMemory: inUse},
	}, true
}

func heard(n *corev1.Node) bool {
	ready := false
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady:
			ready = c.Status == corev1.ConditionTrue
		case c.Type == api.ConditionObserved && c.Status == corev1.ConditionFalse:
			return false
		}
	}
	return ready
}

// refuse answers with a Status, whose sentence kubectl prints.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, sentence string) {
	answer(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: sentence, //nolint:gosec // a status fits
	})
}

func answer(w http.ResponseWriter, code int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // who is gone reads nothing
}
