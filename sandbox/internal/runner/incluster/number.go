package incluster

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// assign says which Pod is which controller, 1 to wanted. A Pod keeps its number; a new one takes
// the lowest that is free, and does not wait for one that is going. What goes keeps its number only
// until another has it.
func assign(pods []*corev1.Pod, known map[types.UID]int, wanted int, stopped map[int]bool) map[int]*corev1.Pod {
	assigned := map[int]*corev1.Pod{}
	free := func(number int) bool { return number >= 1 && number <= wanted && assigned[number] == nil }
	numberOf := func(p *corev1.Pod) int {
		if number, ok := known[p.UID]; ok {
			return number
		}
		number, _ := strconv.Atoi(p.Labels[numberLabel]) // none is 0, which nobody has
		return number
	}
	place := func(p *corev1.Pod) bool {
		for number := 1; number <= wanted; number++ {
			if free(number) && !stopped[number] {
				assigned[number] = p
				return true
			}
		}
		return false
	}
	var fresh []*corev1.Pod
	for _, p := range pods {
		switch number := numberOf(p); {
		case leaving(p):
		case free(number):
			assigned[number] = p
		default:
			fresh = append(fresh, p)
		}
	}
	for _, p := range fresh {
		place(p)
	}
	for number := range stopped { // the Deployment may take another Pod than the one that was meant
		if p := assigned[number]; p != nil && place(p) {
			delete(assigned, number)
		}
	}
	for _, p := range pods {
		if number := numberOf(p); leaving(p) && free(number) {
			assigned[number] = p
		}
	}
	return assigned
}

// leaving tells whether the Deployment makes another Pod in the place of this one.
func leaving(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}
