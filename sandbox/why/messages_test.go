package why

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestCatalogue(t *testing.T) {
	if err := catalogue.Check(); err != nil {
		t.Error(err)
	}
}

var (
	whyOutput   = regexp.MustCompile("(?m)^\\$ koupsandbox why .*\n((?:[^$`\n].*\n)+)")
	placeholder = regexp.MustCompile(`\\\{[a-zA-Z]+\\\}`)
)

// TestDocuments checks that the pages show current messages of why. The tests in e2e/docs compare the complete output,
// but need a sandbox.
func TestDocuments(t *testing.T) {
	var patterns []*regexp.Regexp
	for _, text := range catalogue.Texts() {
		pattern := placeholder.ReplaceAllLiteralString(regexp.QuoteMeta(text.EN), ".*")
		if len(strings.ReplaceAll(pattern, ".*", "")) > 15 { // shorter texts match too many sentences
			patterns = append(patterns, regexp.MustCompile("^"+pattern+"("+regexp.QuoteMeta(partRecreate.EN)+")?$"))
		}
	}
	pages, err := filepath.Glob("../../docs/en/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range whyOutput.FindAllStringSubmatch(string(content), -1) {
			output := strings.TrimSuffix(strings.TrimSpace(m[1]), "\n…")
			output = strings.ReplaceAll(strings.ReplaceAll(output, "\n→", "\r→"), "\n", " ") // fold wrapped the lines
			for _, sentence := range strings.Split(output, "\r") {
				checked++
				_, text, _ := strings.Cut(strings.TrimSuffix(sentence, "."), " ")
				if !slices.ContainsFunc(patterns, func(r *regexp.Regexp) bool { return r.MatchString(text) }) {
					t.Errorf("%s has a message that why does not print; update the page with "+
						"make build && go test ./e2e/docs -run TestPages/%s -update: %s",
						page, strings.TrimSuffix(filepath.Base(page), ".md"), sentence)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no page shows the output of why")
	}
}
