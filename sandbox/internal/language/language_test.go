package language_test

import (
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/language"
)

func TestFromEnvironment(t *testing.T) {
	for _, tt := range []struct {
		environment map[string]string
		want        language.Language
	}{
		{nil, language.English},
		{map[string]string{"LANG": "zh_CN.UTF-8"}, language.Chinese},
		{map[string]string{"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, language.English},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW"}, language.Chinese},
		{map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "zh"}, language.Chinese},
	} {
		got := language.FromEnvironment(func(name string) string { return tt.environment[name] })
		if got != tt.want {
			t.Errorf("FromEnvironment with %v = %q, want %q", tt.environment, got, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	if l, err := language.Parse("zh"); l != language.Chinese || err != nil {
		t.Errorf(`Parse("zh") = %q, %v`, l, err)
	}
	_, err := language.Parse("de")
	if want := `unsupported language "de"; supported: en, zh`; err == nil || err.Error() != want {
		t.Errorf(`Parse("de") = %v, want %s`, err, want)
	}
}

func TestTextIn(t *testing.T) {
	text := language.Text{EN: "{base} has {state}: {key: x}", ZH: "{state}：{base}，{key: x}"}
	args := language.Args{"base": "base-1", "state": language.Text{EN: "a fault", ZH: "故障"}}
	for l, want := range map[language.Language]string{
		"":               "base-1 has a fault: {key: x}",
		language.English: "base-1 has a fault: {key: x}",
		language.Chinese: "故障：base-1，{key: x}",
	} {
		if got := text.In(l, args); got != want {
			t.Errorf("In(%q) = %q, want %q", l, got, want)
		}
	}
}

func TestCatalogueCheck(t *testing.T) {
	for _, tt := range []struct{ en, zh, want string }{
		{"{base} is Ready", "{base} 为 Ready 状态", ""},
		{"kubectl get {kind}", "kubectl get {kind}", ""},
		{"no base", "", "a text is missing in one language"},
		{"no base", "no node", "in the wrong language"},
		{"没有基座", "没有基座", "in the wrong language"},
		{"{base} is Ready", "{node} 为 Ready 状态", "the arguments [{base}], but the Chinese text has [{node}]"},
	} {
		var c language.Catalogue
		c.Text(tt.en, tt.zh)
		err := c.Check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Check of %q and %q = %v, want %q", tt.en, tt.zh, err, tt.want)
		}
	}
}
