package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// masks replace text that differs between two executions of a page, such as times and ports. They are applied in this
// order.
var masks = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`-[a-z0-9]{8,10}-[a-z0-9]{5}\b`), "-HASH"}, // a Pod of a Deployment
	{regexp.MustCompile(`(namespace [a-z-]+)-[a-z0-9]{5}\b`), "$1-HASH"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]`), "DAY "},
	{regexp.MustCompile(`\d\d:\d\d:\d\d([.,]\d+)?`), "TIME"},
	{regexp.MustCompile(`\b(127\.0\.0\.1|localhost):\d+`), "$1:PORT"},
	{regexp.MustCompile(`"hostName":"base-\d+"`), `"hostName":"BASE"`},
	{regexp.MustCompile(`^base-\d+( +true)`), "BASE$1"}, // of ark health
	{regexp.MustCompile(`"request":\d+`), `"request":N`},
	{regexp.MustCompile(`\bv\d+\.\d+\.\d+\b`), "VERSION"}, // of Kubernetes; modules have no v
	{regexp.MustCompile(`[+]?\b\d+(\.\d+)?(ns|µs|ms|s|m|h|d)(\d+(\.\d+)?(ms|s|m|h))*\b`), "T"},
	{regexp.MustCompile(`\b\d+ ms\b`), "T"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(KB|MB|GB|Ki|Mi|Gi)\b`), "SIZE"},
	{regexp.MustCompile(`\b[\d,]+ requests`), "N requests"},
	{regexp.MustCompile(`\b[1-9][\d,]* (lost|notFound|of)\b`), "N $1"},
	{regexp.MustCompile(`\bof [\d,]+ \(`), "of N ("},
	{regexp.MustCompile(`\(notFound \d+\)`), "(notFound N)"},
	{regexp.MustCompile(`(notFound at|T) base-\d+`), "$1 BASE"},
	{regexp.MustCompile(`(T BASE for T: )base-\d+`), "${1}BASE"},
	{regexp.MustCompile(`\b\d+ gaps\b`), "N gaps"},
	{regexp.MustCompile(`\b(running|exited|paused|stopped)( +)(true|false)( +)\d{2,}\b`), "$1$2$3 PID"},
	{regexp.MustCompile(`\b\d{4,}\b`), "N"},                              // seeds
	{regexp.MustCompile(` deleted from default namespace$`), " deleted"}, // a newer kubectl
	{regexp.MustCompile(`  (machine delay T|repeated)`), ""},             // of a slow machine
	{regexp.MustCompile(`\s+`), " "},
}

// mask applies all masks to a line.
func mask(line string) string {
	for _, m := range masks {
		line = m.what.ReplaceAllString(line, m.by)
	}
	return strings.TrimRight(line, " ")
}

// omitted is a line of a page that stands for any number of output lines.
const omitted = "…"

// sameOutput reports whether the printed lines equal the lines of the page, apart from masked text. If the page omits
// no lines, the order is ignored, because rows may be sorted by random names.
func sameOutput(page, printed []string) bool {
	want, got := masked(page), masked(printed)
	if matches(want, got) {
		return true
	}
	if slices.Contains(want, omitted) {
		return false
	}
	slices.Sort(want)
	slices.Sort(got)
	return slices.Equal(want, got)
}

func masked(lines []string) []string {
	list := make([]string, len(lines))
	for i, l := range lines {
		list[i] = mask(l)
	}
	return list
}

// matches reports whether got consists of the lines of want in the same order. The line omitted in want matches any
// number of lines, including none.
func matches(want, got []string) bool {
	switch {
	case len(want) == 0:
		return len(got) == 0
	case want[0] == omitted:
		return matches(want[1:], got) || len(got) > 0 && matches(want, got[1:])
	}
	return len(got) > 0 && want[0] == got[0] && matches(want[1:], got[1:])
}

// keepOmissions returns the printed lines with the omissions of the page. Each omission replaces the lines between the
// nearest lines that the page and the output have in common, except as many lines as the page has there.
func keepOmissions(page, printed []string) []string {
	pairs := common(masked(page), masked(printed))
	var lines []string
	next := 0 // the first printed line that is not yet in lines
	for i, line := range page {
		if line != omitted {
			continue
		}
		before, after := [2]int{-1, -1}, [2]int{len(page), len(printed)}
		for _, pair := range pairs {
			if pair[0] < i {
				before = pair
			} else {
				after = pair
				break
			}
		}
		shown := func(from, to int) (n int) { // the number of page lines that are not an omission
			for _, line := range page[from:to] {
				if line != omitted {
					n++
				}
			}
			return n
		}
		from := max(next, before[1]+1+shown(before[0]+1, i))
		to := max(from, after[1]-shown(i+1, after[0]))
		lines = append(append(lines, printed[next:min(from, len(printed))]...), omitted)
		next = min(to, len(printed))
	}
	return append(lines, printed[next:]...)
}

// common returns the index pairs of a longest common subsequence of two lists.
func common(a, b []string) (pairs [][2]int) {
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			length[i][j] = max(length[i+1][j], length[i][j+1])
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			pairs = append(pairs, [2]int{i, j})
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return pairs
}

// TestKeepOmissions checks that an update of a page keeps its omissions.
func TestKeepOmissions(t *testing.T) {
	for name, c := range map[string]struct{ page, printed, want string }{
		"nothing omitted":       {"a b", "a c", "a c"},
		"at the end":            {"a b …", "x b 1 2", "x b …"},
		"at the end, all new":   {"a b …", "x y 1 2", "x y …"},
		"another line break":    {"a b c …", "x y z c 1 2", "x y z c …"},
		"at the beginning":      {"… a b", "1 2 a x", "… a x"},
		"in the middle":         {"a … b", "x 1 2 3 b", "x … b"},
		"all around":            {"… a …", "1 2 a 3", "… a …"},
		"only":                  {"…", "1 2", "…"},
		"two parts, one is new": {"a … b … c", "a 1 x 2 3 c", "a … … c"},
		"shorter than the page": {"a b c …", "x", "x …"},
	} {
		t.Run(name, func(t *testing.T) {
			got := keepOmissions(strings.Fields(c.page), strings.Fields(c.printed))
			if diff := cmp.Diff(strings.Fields(c.want), got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSameOutput(t *testing.T) {
	for name, c := range map[string]struct {
		page, printed string
		same          bool
	}{
		"different times, identities and ports": {
			"vnode.27273672-844c-4279-a064-9c84b2f5713e   Ready   2s\nbroker on 127.0.0.1:36969, after 5.3s",
			"vnode.f2c4ccde-8274-4e2d-9fda-b53dddc1e3e5 Ready 1m12s\nbroker on 127.0.0.1:1, after 12s", true,
		},
		"different order": {"NAME\na-66f4f58444-j4lcp 1/1\na-66f4f58444-spxd2 0/1",
			"NAME\na-66f4f58444-aaaaa 0/1\na-66f4f58444-bbbbb 1/1", true},
		"omitted lines":        {"…\nb\n…", "a\nb\nc", true},
		"omission of no lines": {"…\nb\n…", "b", true},
		"missing line":         {"…\nb\n…", "a\nc", false},
		"lost request":         {"✓ x 3.3s  1,117 requests, 0 lost", "✓ x 3.3s  9 requests, 1 lost", false},
		"different state":      {"module-controller exited false 12377", "module-controller running true 12377", false},
		"different version":    {"biz1:0.0.1 ACTIVATED", "biz1:0.0.2 ACTIVATED", false},
		"different number":     {"base-1 198.18.0.1 true true 1 0", "base-1 198.18.0.1 true true 2 0", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sameOutput(strings.Split(c.page, "\n"), strings.Split(c.printed, "\n")); got != c.same {
				t.Errorf("sameOutput is %t, want %t", got, c.same)
			}
		})
	}
}
