package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

// pieces contains texts that must be escaped: without escaping, they would end an attribute, an element, a script, a
// CDATA section or a line, or control a terminal.
var pieces = []string{"</script>", "<script>alert(1)</script>", "<!--", "-->", "]]>", `"`, "'", "`", "&lt;", "{{.}}",
	"${x}", "\\u003c",
	"</title>", "</style>", "</pre>", "<img src=x onerror=alert(1)>", "javascript:alert(1)", "\u2028", "\u202e", "\x00",
	"\x1b[2J", "\x07", "\r",
	"\n✓ ", "\n! ", "\n- ", "| x |", "::error file=x::y", "\n::stop-commands::x", "%0A", ",line=1", "\xff", "\ufffe",
	"text", "中"}

// hostile calls check with several reports. In each report, every text is replaced by a combination of pieces, in a
// different order.
func hostile(check func(r *scenario.Report)) {
	for first := range 8 {
		r, n := sampleReport(), first*4
		replaceTexts(r, func() string {
			n++
			piece := func(i int) string { return pieces[i%len(pieces)] }
			return fmt.Sprint(n, piece(n), piece(n*2+first), piece(n*3)) // texts are unique, because they may be keys
		})
		check(r)
	}
}

// replaceTexts replaces every text of a report. It keeps results, kinds and states, because they determine the
// structure of the HTML page.
func replaceTexts(r *scenario.Report, text func() string) {
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			if !v.IsNil() && v.Elem().CanSet() {
				walk(v.Elem())
			}
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[time.Time]() {
				return
			}
			for i := range v.NumField() {
				if name := v.Type().Field(i).Name; name != "Kind" && name != "Expect" {
					walk(v.Field(i))
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			if v.Type().Key().Kind() == reflect.String && v.Len() > 0 {
				value := v.MapIndex(v.MapKeys()[0])
				for _, key := range v.MapKeys() {
					v.SetMapIndex(key, reflect.Value{})
				}
				if value.Kind() == reflect.String {
					value = reflect.ValueOf(text())
				}
				v.SetMapIndex(reflect.ValueOf(text()).Convert(v.Type().Key()), value)
			}
		case reflect.String:
			if v.Type() == reflect.TypeFor[string]() && v.String() != "" {
				v.SetString(text())
			}
		}
	}
	walk(reflect.ValueOf(r))
}

// harmlessReport returns a report in which every text is replaced by a harmless text.
func harmlessReport() *scenario.Report {
	r, n := sampleReport(), 0
	replaceTexts(r, func() string { n++; return fmt.Sprint("harmless", n) })
	return r
}

// skeleton returns the structure of an HTML page without its texts: elements, attributes, scripts and styles.
func skeleton(t *testing.T, page []byte) []string {
	t.Helper()
	var list []string
	z := html.NewTokenizer(bytes.NewReader(page))
	inside := ""
	for {
		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			return list
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			line := "<" + token.Data
			for _, a := range token.Attr {
				line += " " + a.Key + "=" + a.Val
			}
			list, inside = append(list, line), line
		case html.EndTagToken:
			list, inside = append(list, "</"+z.Token().Data), ""
		case html.CommentToken, html.DoctypeToken:
			list = append(list, "!"+z.Token().Data)
		case html.TextToken:
			if inside == "<script" || inside == "<style" {
				list = append(list, z.Token().Data)
			}
		}
	}
}

// TestHTMLEscapesTexts checks that texts of a scenario do not change the structure of the HTML page. Its elements,
// attributes and scripts must equal those of a harmless report.
func TestHTMLEscapesTexts(t *testing.T) {
	write := func(r *scenario.Report) []byte {
		var page bytes.Buffer
		if err := report.WriteHTML(&page, r); err != nil {
			t.Fatal(err)
		}
		return page.Bytes()
	}
	want := skeleton(t, write(harmlessReport()))
	hostile(func(r *scenario.Report) {
		page := write(r)
		if diff := cmp.Diff(want, skeleton(t, page)); diff != "" {
			t.Fatalf("(-harmless +hostile):\n%s", diff)
		}
		if data := between(string(page), `<script type="application/json" id="data">`,
			"</script>"); !json.Valid([]byte(data)) {
			t.Fatalf("the data of the script is not valid JSON: %.200s", data)
		}
	})
}

// TestReportsHaveNoCredentials checks that no report format contains credentials in URLs, which can occur in all
// texts of the report. Redacting must not change the original report.
func TestReportsHaveNoCredentials(t *testing.T) {
	r, n := sampleReport(), 0
	replaceTexts(r, func() string {
		n++
		return fmt.Sprintf(`pulling https://user%d:hunter2@repo.example/a.jar?Signature=hunter2&Expires=1 "oss://hunter2@b/c#k=hunter2": denied`, n)
	})
	before, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	clean := scenario.Redacted(r)
	if after, err := json.Marshal(r); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the original report was changed, or cannot be encoded: %v", err)
	}
	for name, write := range map[string]func(io.Writer) error{
		"terminal": func(w io.Writer) error {
			return writeText(w, clean, report.TextOptions{Verbose: true, Color: true})
		},
		"run":         func(w io.Writer) error { return report.WriteRun(w, clean.Runs[1], report.TextOptions{}) },
		"summary":     func(w io.Writer) error { return report.WriteSummary(w, clean, report.TextOptions{}) },
		"JSON":        func(w io.Writer) error { return report.WriteJSON(w, clean) },
		"JUnit":       func(w io.Writer) error { return report.WriteJUnit(w, clean) },
		"HTML":        func(w io.Writer) error { return report.WriteHTML(w, clean) },
		"Markdown":    func(w io.Writer) error { return report.WriteMarkdown(w, clean) },
		"annotations": func(w io.Writer) error { return report.WriteAnnotations(w, report.Annotations(clean)) },
	} {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			t.Fatal(err)
		}
		if text.Len() == 0 {
			t.Errorf("%s is empty", name)
		}
		if at := strings.Index(text.String(), "hunter2"); at >= 0 {
			t.Errorf("%s: …%q…", name, text.String()[max(0, at-80):at+7])
		}
	}
}

// TestJUnitEscapesTexts checks that the JUnit XML is valid and has one testcase per run, even if texts of a scenario
// contain markup.
func TestJUnitEscapesTexts(t *testing.T) {
	hostile(func(r *scenario.Report) {
		var text bytes.Buffer
		if err := report.WriteJUnit(&text, r); err != nil {
			t.Fatal(err)
		}
		var elements []string
		d := xml.NewDecoder(&text)
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if start, ok := token.(xml.StartElement); ok {
				elements = append(elements, start.Name.Local)
			}
		}
		want := []string{"testsuites", "testsuite", "testcase", "system-out", "testsuite", "testcase", "failure",
			"testsuite", "testcase", "skipped", "testsuite", "testcase", "error"}
		if diff := cmp.Diff(want, elements); diff != "" {
			t.Fatalf("elements (-want +got):\n%s", diff)
		}
	})
}

// TestMarkdownEscapesTexts checks that texts of a scenario are not interpreted as markup in the Markdown summary.
func TestMarkdownEscapesTexts(t *testing.T) {
	write := func(r *scenario.Report) (elements []string, bars []int) {
		var summary bytes.Buffer
		if err := report.WriteMarkdown(&summary, r); err != nil {
			t.Fatal(err)
		}
		table, _, _ := strings.Cut(summary.String(), "<details>")
		for line := range strings.Lines(table) {
			bare := regexp.MustCompile(`\\.`).ReplaceAllString(line, "")
			if strings.ContainsAny(strings.ReplaceAll(bare, "**", ""), "`*_[]~") {
				t.Fatal("markup in ", line)
			}
			bars = append(bars, strings.Count(bare, "|"))
		}
		return skeleton(t, summary.Bytes()), bars
	}
	wantElements, wantBars := write(harmlessReport())
	hostile(func(r *scenario.Report) {
		elements, bars := write(r)
		if diff := cmp.Diff(wantElements, elements); diff != "" {
			t.Fatalf("elements (-harmless +hostile):\n%s", diff)
		}
		if diff := cmp.Diff(wantBars, bars); diff != "" {
			t.Fatalf("bars by line (-harmless +hostile):\n%s", diff)
		}
	})
}

// TestAnnotationsEscapeTexts checks that texts of a scenario cannot add annotations or other workflow commands. The
// output must have exactly one line for each failed run.
func TestAnnotationsEscapeTexts(t *testing.T) {
	hostile(func(r *scenario.Report) {
		var text bytes.Buffer
		if err := report.WriteAnnotations(&text, report.Annotations(r)); err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile(
			`\A::error file=[^,:\n]*,line=41,title=[^,:\n]*::.*\n::error file=[^,:\n]*,line=17,title=[^,:\n]*::.*\n\z`)
		if !want.MatchString(text.String()) {
			t.Fatalf("unexpected annotations:\n%s", text.String())
		}
	})
}

// TestTextEscapesControlCharacters checks that the text report contains no terminal control sequences from texts of a
// scenario, and that these texts cannot imitate the lines that the report prints for runs.
func TestTextEscapesControlCharacters(t *testing.T) {
	hostile(func(r *scenario.Report) {
		var text bytes.Buffer
		if err := writeText(&text, r, report.TextOptions{Verbose: true}); err != nil {
			t.Fatal(err)
		}
		for _, c := range text.String() {
			if c != '\n' && (unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c)) {
				t.Fatalf("the text contains %q", c)
			}
		}
		for _, mark := range []string{"✓ ", "✗ ", "! ", "- "} { // one line for each run
			if got := strings.Count("\n"+text.String(), "\n"+mark); got != 1 {
				t.Fatalf("%d lines begin with %q:\n%s", got, mark, text.String())
			}
		}
	})
}

// TestContentSecurityPolicy checks that the content security policy allows only the script and the style of the HTML
// page.
func TestContentSecurityPolicy(t *testing.T) {
	var text bytes.Buffer
	if err := report.WriteHTML(&text, sampleReport()); err != nil {
		t.Fatal(err)
	}
	page := text.String()
	sum := func(text string) string {
		s := sha256.Sum256([]byte(text))
		return base64.StdEncoding.EncodeToString(s[:])
	}
	want := "default-src 'none'; script-src 'sha256-" + sum(between(page, "<script>", "</script>")) +
		"'; style-src 'sha256-" +
		sum(between(page, "<style>", "</style>")) + "'; base-uri 'none'; form-action 'none'"
	got := html.UnescapeString(between(page, `http-equiv="Content-Security-Policy" content="`, `"`))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if external := regexp.MustCompile(`(?i)(src|href)="[^#]`).FindString(page); external != "" {
		t.Errorf("the page loads %s", external)
	}
}

// TestScriptWritesNoHTML checks that the script of the HTML page does not interpret texts as HTML.
func TestScriptWritesNoHTML(t *testing.T) {
	files, err := os.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	scripts := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".js") {
			continue
		}
		scripts++
		text, err := os.ReadFile("page/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(
			`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|setTimeout\(['"]|\.src\s*=|fetch\(|XMLHttpRequest|import\(`).Find(text); found != nil {
			t.Errorf("%s has %s", f.Name(), found)
		}
	}
	if scripts == 0 {
		t.Error("no scripts found")
	}
}

func between(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	inner, _, _ := strings.Cut(rest, after)
	return inner
}
