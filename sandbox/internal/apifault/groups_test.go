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

// TestFaultsOfGroups checks that fault IDs are unique within a group but may repeat in other groups, and that
// clearing the faults of one group does not affect other groups.
func TestFaultsOfGroups(t *testing.T) {
	r := newFixture(t)
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
		t.Error("two faults in a group have the same ID, want an error")
	}
	refused := func(namespace string) bool {
		_, err := r.client.CoreV1().Pods(namespace).UpdateStatus(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stock", Namespace: namespace}}, metav1.UpdateOptions{})
		return apierrors.IsInternalError(err)
	}
	both := []bool{refused("run"), refused("other")}
	r.faults.Clear(func(i fault.Injection) bool { return i.Group == "run" })
	if diff := cmp.Diff([]bool{true, true, false, true}, append(both, refused("run"), refused("other"))); diff != "" {
		t.Errorf("rejected (-want +got):\n%s", diff)
	}
}

// TestWritesOfGroups checks that Writes counts the writes to objects of the group and to objects without a group.
// After ForgetGroup, it must count writes to objects of the deleted group as writes to objects without a group.
func TestWritesOfGroups(t *testing.T) {
	r := newFixture(t)
	began := time.Now()
	writes := func(group string) map[string]int { return r.Writes(group).By[1] }
	for _, namespace := range []string{"run", "other", "other", "ns"} {
		if _, err := r.client.CoreV1().Pods(namespace).UpdateStatus(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stock", Namespace: namespace}},
			metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	lastWrite := r.Writes("run").Last
	if lastWrite.Before(began) {
		t.Errorf("last write at %s, want it after %s", lastWrite, began)
	}
	if _, err := r.client.CoreV1().Nodes().UpdateStatus(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "base-of-other"}}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if later := r.Writes("run").Last; !later.Equal(lastWrite) {
		t.Errorf("last write after a write of another group = %s, want %s", later, lastWrite)
	}
	if later := r.Writes("other").Last; !later.After(lastWrite) {
		t.Errorf("last write after a write to a Node = %s, want it after %s", later, lastWrite)
	}
	for group, want := range map[string]map[string]int{
		"run":   {"update pods/status": 2},
		"other": {"update pods/status": 3, "update nodes/status": 1},
		"third": {"update pods/status": 1},
		"":      {"update pods/status": 4, "update nodes/status": 1},
	} {
		if diff := cmp.Diff(want, writes(group)); diff != "" {
			t.Errorf("writes of group %q (-want +got):\n%s", group, diff)
		}
	}
	r.ForgetGroup("other")
	if diff := cmp.Diff(map[string]int{"update pods/status": 3, "update nodes/status": 1},
		writes("third")); diff != "" {
		t.Errorf("writes after ForgetGroup (-want +got):\n%s", diff)
	}
	if later := r.Writes("run").Last; !later.Equal(lastWrite) {
		t.Errorf("last write after ForgetGroup = %s, want %s", later, lastWrite)
	}
}
