// Package license tells under which licenses the modules stand that our programs are made of. It reads the
// texts that lie in the cache of modules.
package license

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

// enough is how much of a text, in percent, must be that of known licenses; a copyright line and a
// heading are not.
const enough = 75

// allowed are the licenses, by their SPDX identifiers, under which a part of our programs may stand: none
// of them asks anything of the whole.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "Unlicense", "Zlib"}

// chosen are the licenses of modules whose texts say more than what holds for what we ship, and why.
var chosen = map[string]struct {
	ids []string
	why string
}{
	"github.com/cyphar/filepath-securejoin": {[]string{"BSD-3-Clause", "MPL-2.0"}, "MPL-2.0 is that of some files, which we ship as they are; it asks nothing of the whole"},
	"github.com/eclipse/paho.mqtt.golang":   {[]string{"BSD-3-Clause"}, "EPL-2.0 or EDL-1.0, which is BSD-3-Clause, as one chooses"},
	"github.com/opencontainers/go-digest":   {[]string{"Apache-2.0"}, "CC-BY-SA-4.0 is that of its documents"},
}

// License is what a module says about its use.
type License struct {
	// IDs are the SPDX identifiers of all licenses in its texts, sorted.
	IDs []string
	// Text is that of all files with licenses, copyrights and notices.
	Text string
}

// Expression joins the identifiers as SPDX does.
func (l License) Expression() string { return strings.Join(l.IDs, " AND ") }

var fileName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|edl-v10)([.-].*)?$`)

// Of reads the license of a module from the cache of modules. It fails on a module without one, with a
// text that is not known, and with a license that is not allowed.
func Of(cache string, m module.Version) (License, error) {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return License{}, err
	}
	version, err := module.EscapeVersion(m.Version)
	if err != nil {
		return License{}, err
	}
	l, err := read(filepath.Join(cache, escaped+"@"+version))
	if err == nil {
		if c, found := chosen[m.Path]; found {
			l.IDs = c.ids
		} else {
			err = l.check()
		}
	}
	if err != nil {
		return l, fmt.Errorf("the license of %s: %w", m, err)
	}
	return l, nil
}

func read(folder string) (License, error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return License{}, err
	}
	var l License
	for _, f := range files {
		if f.IsDir() || !fileName.MatchString(f.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return License{}, err
		}
		l.Text += string(text) + "\n"
		if found := licensecheck.Scan(text); found.Percent >= enough {
			for _, match := range found.Match {
				l.IDs = append(l.IDs, match.ID)
			}
		}
	}
	slices.Sort(l.IDs)
	l.IDs = slices.Compact(l.IDs)
	return l, nil
}

func (l License) check() error {
	switch {
	case l.Text == "":
		return errors.New("there is none")
	case len(l.IDs) == 0:
		return errors.New("its text is not known")
	}
	for _, id := range l.IDs {
		if !slices.Contains(allowed, id) {
			return fmt.Errorf("%s is not among those that may be shipped", id)
		}
	}
	return nil
}

// Cache is the folder of the module cache.
func Cache(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("asking for the module cache: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
