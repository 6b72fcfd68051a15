package main

import (
	"fmt"
	"regexp"
	"strings"
)

// columns is a line that explains a flag or a command: what it is, and after two spaces or more what it does.
var columns = regexp.MustCompile(`^ +(\S+(?: \S+)*) {2,}(\S.*)$`)

// page makes the page of the manual of a program from what its --help prints: a heading ends with a colon, and
// what is in columns explains a flag or a command.
func page(name, about, help string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), name, about)
	told := false // that heading stands above
	for line := range strings.Lines(help) {
		line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(strings.TrimRight(line, " \n"))
		heading, isHeading := strings.CutSuffix(line, ":")
		switch m := columns.FindStringSubmatch(line); {
		case line == "":
		case isHeading && !strings.HasPrefix(line, " "):
			if told = heading == "NAME" || heading == "VERSION"; !told {
				fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(heading))
			}
		case told:
		case strings.HasPrefix(line, "Usage: "):
			fmt.Fprintf(&b, ".SH USAGE\n%s\n", strings.TrimPrefix(line, "Usage: "))
		case m != nil:
			fmt.Fprintf(&b, ".TP\n.B %s\n\\&%s\n", m[1], m[2])
		default:
			fmt.Fprintf(&b, ".PP\n\\&%s\n", strings.TrimSpace(line))
		}
	}
	return []byte(b.String())
}
