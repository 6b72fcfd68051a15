package plain

import (
	"fmt"
	"slices"
	"strings"
)

// DidYouMean returns "; did you mean X?", where X is the name that Similar returns. It returns "" if there is no
// similar name.
func DidYouMean(name string, names []string) string {
	if found := Similar(name, names); found != "" {
		return fmt.Sprintf("; did you mean %s?", found)
	}
	return ""
}

// Similar returns the name in names that is most similar to name, or "" if none is similar.
func Similar(name string, names []string) string {
	best, least := "", max(1, (len(name)+1)/3)+1
	for _, candidate := range slices.Sorted(slices.Values(names)) {
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance returns the minimum number of edits that convert a into b. An edit adds, removes or replaces a character,
// or swaps two adjacent characters.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
