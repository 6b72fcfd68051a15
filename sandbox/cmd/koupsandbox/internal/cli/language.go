package cli

import (
	"unicode"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox/internal/language"
)

const languageFlag = "language"

func newLanguageFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: languageFlag, Category: outputCategory,
		Usage:       "`LANGUAGE`: language of explanations: en or zh; JSON and YAML are always in English",
		DefaultText: "zh if LC_ALL, LC_MESSAGES or LANG is Chinese, otherwise en"}
}

// languageOf returns the language in which explanations are printed. JSON and YAML output is always in English.
func (s *commands) languageOf(c *cli.Context) (language.Language, error) {
	l := s.Language
	if name := c.String(languageFlag); name != "" {
		var err error
		l, err = language.Parse(name)
		if err != nil {
			return "", usageError{err}
		}
	}
	if format := c.String(outputFlag); format == formatJSON || format == formatYAML {
		return language.English, nil
	}
	return l, nil
}

// columns returns the width of a text in a terminal. A Chinese character is two columns wide.
func columns(text string) (n int) {
	for _, r := range text {
		n++
		if unicode.Is(unicode.Han, r) {
			n++
		}
	}
	return n
}
