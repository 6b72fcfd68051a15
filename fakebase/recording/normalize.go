package recording

import "regexp"

// replacements match the parts of a response that differ between runs: times, durations, sizes, addresses, stack
// frames and metrics.
var replacements = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`"(changeTime|publishTimestamp|startTime|startTimestamp|endTime)":\d+`), `"$1":1`},
	{regexp.MustCompile(`"endTimestamp":[1-9]\d*`), `"endTimestamp":1`},
	{regexp.MustCompile(`"(elapsedTime|elapsedSpace)":-?\d+`), `"$1":1`},
	{regexp.MustCompile(`cost: ?\d+ ms, started at: \d\d:\d\d:\d\d,\d{3}`), `cost: 1 ms, started at: 00:00:00,000`},
	{regexp.MustCompile(`"([a-z ]+\((?:M|s|%)\)|(?:loaded|unload|total) class count|java (?:used|committed|max) metaspace|count)":-?[\d.E+-]+`), `"$1":1`},
	{regexp.MustCompile(`"(type|java version|java home)":"[^"]*"`), `"$1":""`},
	{regexp.MustCompile(`"status":"(INITIALIZED|EXECUTING)"`), `"status":"INITIALIZED"`}, // depends on the timing
	{regexp.MustCompile(`"port":[1-9]\d*`), `"port":1`},
	{regexp.MustCompile(`,"threadName":"[^"]*"`), ``}, // set when the thread runs
	{regexp.MustCompile(`"stackTrace":\[[^]]*\]`), `"stackTrace":[]`},
	{regexp.MustCompile(`"metrics":\{"timestamp":.*?"gcmetrics":\{[^}]*\}\}`), `"metrics":{}`},
	{regexp.MustCompile(`"(total|free|threshold)":\d+`), `"$1":1`},
	{regexp.MustCompile(`"path":"[^"]*"`), `"path":""`},
	{regexp.MustCompile(`(Hook)@[0-9a-f]+`), `$1@1`},
	{regexp.MustCompile(`file:[^"]*/BOOT-INF/`), `file:{base}/BOOT-INF/`},
	{regexp.MustCompile(`(/[^"/ ]+)+/sofa-ark/`), `{temp}/`},
	{regexp.MustCompile(`-\d{17}-`), `-1-`},
	{regexp.MustCompile(`(null-null|[a-z]+-[0-9.]+)-\d{10,}`), `$1-1`},
	{regexp.MustCompile(`\\n\\t(?:at |\.\.\. \d+ )(?:[^"\\]|\\[^n])*`), ``},
}

// Normalize replaces the parts of a response that differ between runs with fixed texts.
func Normalize(answer string) string {
	for _, n := range replacements {
		answer = n.pattern.ReplaceAllString(answer, n.replacement)
	}
	return answer
}
