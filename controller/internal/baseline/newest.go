package baseline

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// candidate is a module and the workload that wants it.
type candidate struct {
	arklet.Module
	owner metav1.Object
}

// compare orders candidates for one module from old to new. It is a total order, so that the choice
// does not depend on the order of listing.
func compare(a, b candidate) int {
	return cmp.Or(
		compareVersions(a.Version, b.Version),
		a.owner.GetCreationTimestamp().Compare(b.owner.GetCreationTimestamp().Time),
		cmp.Compare(a.owner.GetNamespace(), b.owner.GetNamespace()),
		cmp.Compare(a.owner.GetName(), b.owner.GetName()),
		cmp.Compare(a.URL, b.URL),
	)
}

// compareVersions orders versions: those that do not begin with a number come first, then by
// numbers, and of equal numbers a qualified one (1.0.0-SNAPSHOT) comes before the plain one, as in
// Maven. Qualifiers are not compared with each other.
func compareVersions(a, b string) int {
	numbersA, plainA := parseVersion(a)
	numbersB, plainB := parseVersion(b)
	return cmp.Or(slices.Compare(numbersA, numbersB), cmp.Compare(plainA, plainB))
}

// parseVersion returns the numbers at the head of a version without trailing zeros, nil if there
// are none, and 1 if nothing follows them, else 0. Kubernetes' version parser refuses 10 and
// 2026.01.
func parseVersion(version string) (numbers []uint64, plain int) {
	parts := leadingNumbers.FindStringSubmatch(version)
	if parts == nil {
		return nil, 0
	}
	for digits := range strings.SplitSeq(parts[1], ".") {
		number, _ := strconv.ParseUint(digits, 10, 64) // out of range is the largest number
		numbers = append(numbers, number)
	}
	for len(numbers) > 1 && numbers[len(numbers)-1] == 0 {
		numbers = numbers[:len(numbers)-1]
	}
	if parts[2] == "" {
		plain = 1
	}
	return numbers, plain
}

var leadingNumbers = regexp.MustCompile(`^v?([0-9]+(?:\.[0-9]+)*)(.*)$`)
