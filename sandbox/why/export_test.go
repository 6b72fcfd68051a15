package why

import "slices"

// Reasons are those that rules can find, each once, and Unknown.
func Reasons() []Reason {
	all := []Reason{Unknown}
	for _, r := range slices.Concat(podRules, nodeRules, workloadRules) {
		all = append(all, r.reason)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
