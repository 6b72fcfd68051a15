// Package redact removes credentials from URLs in logs, Events, reports and other texts that users share. It imports no
// package of this repository.
package redact

import (
	"regexp"
	"strings"
)

// Mask is the text that replaces each credential.
const Mask = "***"

// urls matches each URL in a text: a scheme, "://", and everything up to a space, a quote or an angle bracket.
var urls = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>` + "`" + `]+`)

// values matches the value of a URL query parameter, including the equals sign.
var values = regexp.MustCompile(`=[^&;]*`)

// badPort matches the authority of a URL whose port is not a number. Such an authority consists of the user name and
// the start of a password.
var badPort = regexp.MustCompile(`^[^\[@]*:\d*[^\d@][^@]*$`)

// Text returns the text with the credentials of every URL in the text replaced by Mask: the user information, and the
// values of query parameters and of the fragment. Redacting the result again does not change it. Text without a URL
// is returned unchanged.
func Text(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	return urls.ReplaceAllStringFunc(s, URL)
}

// URL returns a single URL with its credentials replaced by Mask. Unlike Text, URL treats the whole string as one
// URL, including spaces and quotes. A string without "://" is returned unchanged.
func URL(s string) string {
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		return s
	}
	end := authorityEnd(rest, 0)
	if at := strings.LastIndexByte(rest, '@'); at > end && badPort.MatchString(rest[:end]) {
		end = authorityEnd(rest, at) // the password has one of these characters
	}
	authority, rest := rest[:end], rest[end:]
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = Mask + authority[at:]
	}
	path, parameters := rest, "" // parameters are the query and the fragment
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		path, parameters = rest[:i+1], rest[i+1:]
	}
	if strings.Contains(parameters, "=") {
		parameters = values.ReplaceAllString(parameters, "="+Mask)
	} else if parameters != "" {
		parameters = Mask
	}
	if strings.Contains(parameters, "://") {
		parameters = Mask
	}
	return scheme + "://" + authority + Text(path) + parameters // the path may have another URL
}

// authorityEnd returns the index at which the authority of a URL ends, searching from the index from. s is the URL
// without its scheme.
func authorityEnd(s string, from int) int {
	if i := strings.IndexAny(s[from:], "/?#"); i >= 0 {
		return from + i
	}
	return len(s)
}
