package apifault_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
)

// Groups side by side have rules of the same id, and the end of one's ends no other's.
func TestRulesOfGroups(t *testing.T) {
	r := newRig(t)
	refuse := func(group string) error {
		x := v1alpha1.Fault{ID: "f1", Kind: v1alpha1.APIRefuse, Status: 500, Count: 9,
			Match: v1alpha1.FaultMatch{Namespace: group}}
		v1alpha1.SetFaultDefaults(v1alpha1.TargetAPI, &x)
		return r.inject(x, 0, group)
	}
	for _, group := range []string{"run", "other"} {
		if err := refuse(group); err != nil {
			t.Fatal(err)
		}
	}
	if err := refuse("run"); err == nil {
		t.Error("the id is there twice in a group")
	}
	refused := func(namespace string) bool {
		_, err := r.client.CoreV1().Pods(namespace).UpdateStatus(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stock", Namespace: namespace}}, metav1.UpdateOptions{})
		return apierrors.IsInternalError(err)
	}
	both := []bool{refused("run"), refused("other")}
	r.faults.Clear(func(i fault.Injection) bool { return i.Group == "run" })
	if diff := cmp.Diff([]bool{true, true, false, true}, append(both, refused("run"), refused("other"))); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

// A group sees the writes to what is its, and to what is nobody's; Leases do not count as the last one.
// When it goes, what was its is nobody's.
func TestWritesOfGroups(t *testing.T) {
	r := newRig(t)
	began := time.Now()
	writes := func(group string) map[string]int { return r.Writes(group).By[1] }
	for _, namespace := range []string{"run", "other", "other", "ns"} {
		if _, err := r.client.CoreV1().Pods(namespace).UpdateStatus(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stock", Namespace: namespace}},
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	wrote := r.Writes("run").Last
	if wrote.Before(began) {
		t.Errorf("last written at %s, before %s", wrote, began)
	}
	if _, err := r.client.CoreV1().Nodes().UpdateStatus(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "base-of-other"}}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if later := r.Writes("run").Last; !later.Equal(wrote) {
		t.Errorf("a write of another group counts: %s after %s", later, wrote)
	}
	if later := r.Writes("other").Last; !later.After(wrote) {
		t.Errorf("its write to a Node does not count: %s after %s", later, wrote)
	}
	for group, want := range map[string]map[string]int{
		"run":   {"update pods/status": 2},
		"other": {"update pods/status": 3, "update nodes/status": 1},
		"third": {"update pods/status": 1},
		"":      {"update pods/status": 4, "update nodes/status": 1},
	} {
		if diff := cmp.Diff(want, writes(group)); diff != "" {
			t.Errorf("group %q (-want +got):\n%s", group, diff)
		}
	}
	r.Forget("other")
	if diff := cmp.Diff(map[string]int{"update pods/status": 3, "update nodes/status": 1},
		writes("third")); diff != "" {
		t.Errorf("after a group has gone (-want +got):\n%s", diff)
	}
	if later := r.Writes("run").Last; !later.Equal(wrote) {
		t.Errorf("the end of a group counts as a write: %s after %s", later, wrote)
	}
}
