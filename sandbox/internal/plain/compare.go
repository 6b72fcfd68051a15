package plain

import (
	"cmp"
	"strconv"
	"strings"
)

// CompareNames compares names. It compares a number at the end of the names numerically, so that base-2 sorts before
// base-10.
func CompareNames(a, b string) int {
	split := func(name string) (word string, number int) {
		word = strings.TrimRight(name, "0123456789")
		number, _ = strconv.Atoi(name[len(word):]) // 0 without a number; the names are compared afterwards
		return word, number
	}
	wordA, numberA := split(a)
	wordB, numberB := split(b)
	return cmp.Or(cmp.Compare(wordA, wordB), cmp.Compare(numberA, numberB), cmp.Compare(a, b))
}
