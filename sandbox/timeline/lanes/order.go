package lanes

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

var kinds = []Kind{Component, Faults, Service, Waiting, Base}

// compare orders lanes by kind, and by name within it.
func compare(a, b *Lane) int {
	return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)), CompareNames(a.Name, b.Name))
}

// CompareNames orders names that end with a number by it: base-2 before base-10.
func CompareNames(a, b string) int {
	wordA, numberA := split(a)
	wordB, numberB := split(b)
	return cmp.Or(cmp.Compare(wordA, wordB), cmp.Compare(numberA, numberB), cmp.Compare(a, b))
}

func split(name string) (word string, number int) {
	word = strings.TrimRight(name, "0123456789")
	number, _ = strconv.Atoi(name[len(word):]) // none, or a very long one: the name itself decides
	return word, number
}
