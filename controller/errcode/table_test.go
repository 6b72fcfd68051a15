package errcode

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// documentRow is one row of an error code table in the document.
type documentRow struct {
	Component           Component
	Code                Code
	Meaning, Suggestion string
}

func TestTableMatchesDocument(t *testing.T) {
	text, err := os.ReadFile("testdata/document-5.6.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []documentRow
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(f) != 6 {
			t.Fatalf("row %q has %d fields, want 6", line, len(f))
		}
		for source := range strings.SplitSeq(f[2], " / ") {
			want = append(want, documentRow{Component(f[0]), Code(source + "." + f[3]), f[4], f[5]})
		}
	}

	var got []documentRow
	for _, info := range All() {
		got = append(got, documentRow{info.Component, info.Code, info.MeaningZH, info.SuggestionZH})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table differs from the document (-document +table):\n%s", diff)
	}
}

func TestTableHasEnglishTexts(t *testing.T) {
	for _, info := range All() {
		if info.Meaning == "" {
			t.Errorf("%s of %s has no English meaning", info.Code, info.Component)
		}
		hasSuggestion := info.SuggestionZH != "" && info.SuggestionZH != "-"
		if hasSuggestion != (info.Suggestion != "") {
			t.Errorf("%s of %s: suggestions %q and %q do not match", info.Code, info.Component, info.SuggestionZH,
				info.Suggestion)
		}
	}
}

func TestCodeParts(t *testing.T) {
	c := ArkletInstallModuleFailed
	if c.Source() != "Arklet" || c.Type() != "InstallModuleFailed" {
		t.Errorf("parts of %s: %q, %q", c, c.Source(), c.Type())
	}
}

func TestLookup(t *testing.T) {
	tests := []struct {
		code, suggestion string
		component        Component
		ok               bool
	}{
		{"User.DiskFull", "replace the base", ModuleController, true},
		{"User.MetaspaceFull", "restart the base", Arklet, true},
		{"KouplelessBoard.NetworkError", "try again", KouplelessBoard, true},
		{"user.diskfull", "", "", false},
		{"ModuleController.ResourceConstrained", "", "", false},
		{"", "", "", false},
	}
	for _, tt := range tests {
		info, ok := Lookup(tt.code)
		if ok != tt.ok || info.Suggestion != tt.suggestion || info.Component != tt.component {
			t.Errorf("Lookup(%q) = %+v, %v; want suggestion %q of %q, %v", tt.code, info, ok, tt.suggestion,
				tt.component, tt.ok)
		}
	}
}

func TestIsTransient(t *testing.T) {
	var got []Code
	for _, info := range All() {
		if info.Component == ModuleController && IsTransient(info.Code) {
			got = append(got, info.Code)
		}
	}
	want := []Code{ArkletArkletServiceNotFound, ArkletNetworkError, ArkletInstallModuleExecuting,
		ModuleControllerBaseInstanceNotFound, ModuleControllerBaseInstanceInOperation}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("transient codes (-want +got):\n%s", diff)
	}
}

func TestForInstallAndForUninstall(t *testing.T) {
	for arklet, want := range map[Code][2]Code{
		"":                               {"", ""},
		ArkletNetworkError:               {ArkletNetworkError, ArkletNetworkError},
		ArkletInstallBizExecuting:        {ArkletInstallModuleExecuting, ModuleControllerBaseInstanceInOperation},
		ArkletNoMatchedBiz:               {ArkletInstallModuleFailed, ""},
		ModuleControllerInvalidParameter: {OtherUpstreamInvalidParameter, OtherUpstreamInvalidParameter},
		"User.Unknown":                   {UserInstallModuleFailed, ArkletUninstallBizFailed},
		"Arklet.Unknown":                 {ArkletInstallModuleFailed, ArkletUninstallBizFailed},
	} {
		if got := [2]Code{ForInstall(arklet), ForUninstall(arklet)}; got != want {
			t.Errorf("%q is converted to %q, want %q", arklet, got, want)
		}
	}
}
