package doctor

import (
	_ "embed" // the table of programs
	"os/exec"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/internal/language"
)

// programsTable lists the programs that koupsandbox needs. tools/build reads the same file before it compiles.
//
//go:embed programs.txt
var programsTable string

// Purposes of programs in programsTable.
const (
	purposeBuild = "build"
	purposeUse   = "use"
)

// missingPrograms returns the names of the programs with the purpose that are not in PATH, and the commands that
// install them on the supported systems. Both are empty if all programs are in PATH.
func missingPrograms(purpose string) (names, install string) {
	var missing, systems, commands []string
	for line := range strings.Lines(programsTable) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "|")
		for i, cell := range cells {
			cells[i] = strings.TrimSpace(cell)
		}
		switch program, packages := cells[0], cells[2:]; {
		case systems == nil:
			systems = packages
		case commands == nil:
			commands = packages
		case cells[1] == purpose:
			if _, err := exec.LookPath(program); err == nil {
				continue
			}
			missing = append(missing, program)
			for i, name := range packages {
				commands[i] += " " + name
			}
		}
	}
	if missing == nil {
		return "", ""
	}
	for i, system := range systems {
		commands[i] += " (" + system + ")"
	}
	return strings.Join(missing, ", "), strings.Join(commands, "; ")
}

// tools checks whether the programs that users of a sandbox need are in PATH.
func (d doctor) tools() Check {
	names, install := missingPrograms(purposeUse)
	detail := msgPrograms
	if names != "" {
		detail = msgMissing
	}
	return d.check(names == "", nameTools, detail, fixMissing, args{"names": names, "install": install})
}

// compiler reports whether the programs that compile koupsandbox are in PATH. The check always succeeds, because
// releases need no compiler.
func (d doctor) compiler() Check {
	names, install := missingPrograms(purposeBuild)
	detail := msgPrograms
	if names != "" {
		detail = msgNoCompiler
	}
	return d.check(true, nameCompiler, detail, language.Text{}, args{"names": names, "install": install})
}
