package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// masks are what may differ from one execution to the next, in the order in which they are applied.
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
	{regexp.MustCompile(`\s+`), " "},
}

// mask takes out of a line what may differ.
func mask(line string) string {
	for _, m := range masks {
		line = m.what.ReplaceAllString(line, m.by)
	}
	return strings.TrimRight(line, " ")
}

// anything stands for any number of lines.
const anything = "…"

// same tells whether a command printed what the page says. The order of lines does not matter where
// none are left out: rows are sorted by names that are drawn.
func same(page, printed []string) bool {
	want, got := masked(page), masked(printed)
	if _, fits := matches(want, got); fits {
		return true
	}
	if slices.Contains(want, anything) {
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

// matches compares in order. It tells which line of got each line of want is; -1 = any number of
// lines.
func matches(want, got []string) (at []int, fits bool) {
	if len(want) == 0 {
		return nil, len(got) == 0
	}
	least, most, place := 1, 1, 0
	if want[0] == anything {
		least, most, place = 0, len(got), -1
	} else if len(got) == 0 || want[0] != got[0] {
		return nil, false
	}
	for skip := least; skip <= most; skip++ {
		if rest, fits := matches(want[1:], got[skip:]); fits {
			for i, n := range rest {
				if n >= 0 {
					rest[i] = n + skip
				}
			}
			return append([]int{place}, rest...), true
		}
	}
	return nil, false
}

// renewed is what a page says, as it was printed this time; what it leaves out stays left out.
func renewed(page, printed []string) []string {
	at, fits := matches(masked(page), masked(printed))
	if !fits || !slices.Contains(page, anything) {
		return printed
	}
	lines := slices.Clone(page)
	for i, n := range at {
		if n >= 0 {
			lines[i] = printed[n]
		}
	}
	return lines
}

func TestRenewed(t *testing.T) {
	page := []string{"…", "up after 5.3s", "", "…", "pid 12345"}
	printed := []string{"one", "up after 7s", "", "two", "three", "pid 54321"}
	if got, want := renewed(page, printed), []string{"…", "up after 7s", "", "…", "pid 54321"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := renewed([]string{"a 1s", "…"}, []string{"b"}); !slices.Equal(got, []string{"b"}) {
		t.Errorf("%q, want what was printed", got)
	}
}

func TestSame(t *testing.T) {
	for name, c := range map[string]struct {
		page, printed string
		same          bool
	}{
		"other times, identities and ports": {
			"vnode.27273672-844c-4279-a064-9c84b2f5713e   Ready   2s\nbroker on 127.0.0.1:36969, after 5.3s",
			"vnode.f2c4ccde-8274-4e2d-9fda-b53dddc1e3e5 Ready 1m12s\nbroker on 127.0.0.1:1, after 12s", true,
		},
		"another Pod, another order": {"a-66f4f58444-j4lcp 1/1 Running\nb-66f4f58444-j4lcp 0/1", "b-5c9-x\nb-66f4f58444-zzzzz 0/1", false},
		"rows by drawn names":        {"NAME\na-66f4f58444-j4lcp 1/1\na-66f4f58444-spxd2 0/1", "NAME\na-66f4f58444-aaaaa 0/1\na-66f4f58444-bbbbb 1/1", true},
		"lines left out":             {"…\nb\n…", "a\nb\nc", true},
		"nothing left out":           {"…\nb\n…", "b", true},
		"a line is missing":          {"…\nb\n…", "a\nc", false},
		"requests":                   {"✓ x 3.3s  1,117 requests, 0 lost", "✓ x   4s  9 requests, 0 lost", true},
		"a request is lost":          {"✓ x 3.3s  1,117 requests, 0 lost", "✓ x 3.3s  1,117 requests, 1 lost", false},
		"another pid":                {"etcd  running   true    12377  107 MB  53s", "etcd  running   true    852  98 MB  1s", true},
		"another state":              {"module-controller exited false 12377", "module-controller running true 12377", false},
		"another version":            {"biz1:0.0.1 ACTIVATED", "biz1:0.0.2 ACTIVATED", false},
		"another number of modules":  {"base-1 198.18.0.1 true true 1 0", "base-1 198.18.0.1 true true 2 0", false},
		"another error code":         {"0/1 DiskFull 0 2s", "0/1 MetaspaceFull 0 2s", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := same(strings.Split(c.page, "\n"), strings.Split(c.printed, "\n")); got != c.same {
				t.Errorf("same is %v, want %v", got, c.same)
			}
		})
	}
}
