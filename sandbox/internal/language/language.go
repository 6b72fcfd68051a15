// Package language has messages in English and Chinese.
package language

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Language is the language of messages. The empty Language means English.
type Language string

// The supported languages.
const (
	English Language = "en"
	Chinese Language = "zh"
)

// Parse returns the language called name, which is en or zh.
func Parse(name string) (Language, error) {
	if l := Language(name); l == English || l == Chinese {
		return l, nil
	}
	return "", fmt.Errorf("unsupported language %q; supported: %s, %s", name, English, Chinese)
}

// FromEnvironment returns the language for messages from the locale in LC_ALL, LC_MESSAGES or LANG. It returns
// Chinese for locales that begin with zh, and English for all others.
func FromEnvironment(getenv func(string) string) Language {
	locale := cmp.Or(getenv("LC_ALL"), getenv("LC_MESSAGES"), getenv("LANG"))
	if strings.HasPrefix(strings.ToLower(locale), string(Chinese)) {
		return Chinese
	}
	return English
}

// Text is a message in all supported languages. {name} is the placeholder for the argument with this name.
type Text struct{ EN, ZH string }

// Args contains the arguments of a Text, by name.
type Args map[string]any

var argument = regexp.MustCompile(`\{[a-z][A-Za-z]*\}`)

// In returns the text in a language, with the placeholders replaced by args. An argument that is a Text is also
// translated. A placeholder whose name is not in args is kept.
func (t Text) In(l Language, args Args) string {
	text := t.EN
	if l == Chinese {
		text = t.ZH
	}
	return argument.ReplaceAllStringFunc(text, func(name string) string {
		value, found := args[name[1:len(name)-1]]
		if !found {
			return name
		}
		if t, ok := value.(Text); ok {
			return t.In(l, args)
		}
		return fmt.Sprint(value)
	})
}

// Catalogue contains all texts of a package, so that a test can check them. The zero value is an empty catalogue.
type Catalogue struct{ texts []Text }

// Text adds a text to the catalogue and returns the text.
func (c *Catalogue) Text(en, zh string) Text {
	t := Text{en, zh}
	c.texts = append(c.texts, t)
	return t
}

// Texts returns all texts of the catalogue.
func (c *Catalogue) Texts() []Text { return c.texts }

// Check returns an error for each text that is missing in a language, or that has different arguments in different
// languages.
func (c *Catalogue) Check() error {
	var errs []error
	for _, t := range c.texts {
		en, zh := arguments(t.EN), arguments(t.ZH)
		switch {
		case t.EN == "" && t.ZH == "":
		case t.EN == "" || t.ZH == "":
			errs = append(errs, fmt.Errorf("a text is missing in one language: %+v", t))
		case strings.ContainsFunc(t.EN, isHan) || !strings.ContainsFunc(t.ZH, isHan) && t.ZH != t.EN:
			errs = append(errs, fmt.Errorf("a text is in the wrong language: %+v", t))
		case !slices.Equal(en, zh):
			errs = append(errs, fmt.Errorf(
				"the English text has the arguments %v, but the Chinese text has %v: %+v", en, zh, t))
		}
	}
	return errors.Join(errs...)
}

func isHan(r rune) bool { return unicode.Is(unicode.Han, r) }

func arguments(text string) []string {
	names := map[string]bool{}
	for _, name := range argument.FindAllString(text, -1) {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}
