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

type candidate struct {
	arklet.Module
	owner metav1.Object
}

// compare orders the candidates for a module from old to new. It is a total order.
func compare(a, b candidate) int {
	return cmp.Or(
		compareVersions(a.Version, b.Version),
		a.owner.GetCreationTimestamp().Compare(b.owner.GetCreationTimestamp().Time),
		cmp.Compare(a.owner.GetNamespace(), b.owner.GetNamespace()),
		cmp.Compare(a.owner.GetName(), b.owner.GetName()),
		cmp.Compare(a.URL, b.URL),
	)
}

// compareVersions orders versions by their leading numbers. A version without numbers is lower than any other
// version. If the numbers are equal, a version with a qualifier (1.0.0-SNAPSHOT) is lower than a version without one,
// as in Maven.
func compareVersions(a, b string) int {
	numbersA, plainA := parseVersion(a)
	numbersB, plainB := parseVersion(b)
	return cmp.Or(slices.Compare(numbersA, numbersB), cmp.Compare(plainA, plainB))
}

// parseVersion returns the leading numbers of a version without trailing zeros. numericOnly is 1 if nothing follows the
// numbers, and 0 otherwise. parseVersion exists because the version parser of Kubernetes rejects versions such as 10
// and 2026.01.
func parseVersion(version string) (numbers []uint64, numericOnly int) {
	parts := leadingNumbers.FindStringSubmatch(version)
	if parts == nil {
		return nil, 0
	}
	for digits := range strings.SplitSeq(parts[1], ".") {
		number, _ := strconv.ParseUint(digits, 10, 64) // returns the maximum for a number out of range
		numbers = append(numbers, number)
	}
	for len(numbers) > 1 && numbers[len(numbers)-1] == 0 {
		numbers = numbers[:len(numbers)-1]
	}
	if parts[2] == "" {
		numericOnly = 1
	}
	return numbers, numericOnly
}

var leadingNumbers = regexp.MustCompile(`^v?([0-9]+(?:\.[0-9]+)*)(.*)$`)
