package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
	"golang.org/x/mod/module"

	"github.com/koupleless/koupsandbox/hack/internal/license"
)

// made is what the programs of a platform are made of.
type made struct {
	programs []cyclonedx.Component
	needs    []cyclonedx.Dependency
	modules  []part // sorted
}

// part is a module, and its license.
type part struct {
	module.Version
	license.License
}

func purl(m module.Version) string { return fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version) }

// made reads what the linker has written into the programs.
func (r *release) made(bin string) (*made, error) {
	m, seen := &made{}, map[module.Version]bool{}
	for _, name := range programs {
		path := filepath.Join(bin, name)
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		ref, needs := name+"@"+r.version, []string{}
		for _, dep := range info.Deps {
			if dep.Replace != nil {
				dep = dep.Replace
			}
			p := part{Version: module.Version{Path: dep.Path, Version: dep.Version}}
			needs = append(needs, purl(p.Version))
			if seen[p.Version] {
				continue
			}
			seen[p.Version] = true
			if p.License, err = license.Of(r.cache, p.Version); err != nil {
				return nil, err
			}
			m.modules = append(m.modules, p)
		}
		m.needs = append(m.needs, cyclonedx.Dependency{Ref: ref, Dependencies: &needs})
		m.programs = append(m.programs, cyclonedx.Component{
			BOMRef: ref, Type: cyclonedx.ComponentTypeApplication, Name: name, Version: r.version,
			Hashes:   &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(text))}},
			Licenses: &cyclonedx.Licenses{{Expression: "Apache-2.0"}},
		})
	}
	slices.SortFunc(m.modules, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Version.Version, b.Version.Version))
	})
	return m, nil
}

// texts are the licenses of everything in the programs, that of Go first.
func (m *made) texts(ctx context.Context) ([]byte, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("asking for the folder of Go: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	add := func(of, id, text string) {
		fmt.Fprintf(&all, "%s\n%s\n%s\n\n%s\n\n", strings.Repeat("=", 100), of, id, text)
	}
	add("Go and its standard library", "BSD-3-Clause", string(text))
	for _, p := range m.modules {
		add(p.String(), p.Expression(), p.Text)
	}
	return all.Bytes(), nil
}

// writeBOM writes the bill of materials of an archive.
func (r *release) writeBOM(m *made, a archive) error {
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceURL, []byte(r.url+"/"+a.name+"#"+a.sum)).String()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.time.Format("2006-01-02T15:04:05Z"),
		Component: &cyclonedx.Component{
			BOMRef: a.name, Type: cyclonedx.ComponentTypeApplication, Name: program, Version: r.version,
			Hashes:   &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: a.sum}},
			Licenses: &cyclonedx.Licenses{{Expression: "Apache-2.0"}},
		},
	}
	components, names := slices.Clone(m.programs), []string{}
	for _, p := range m.programs {
		names = append(names, p.BOMRef)
	}
	for _, p := range m.modules {
		c := cyclonedx.Component{
			BOMRef: purl(p.Version), Type: cyclonedx.ComponentTypeLibrary, Name: p.Path, Version: p.Version.Version, PackageURL: purl(p.Version),
			Licenses: &cyclonedx.Licenses{{Expression: p.Expression()}},
		}
		components = append(components, c)
	}
	needs := append([]cyclonedx.Dependency{{Ref: a.name, Dependencies: &names}}, m.needs...)
	bom.Components, bom.Dependencies = &components, &needs
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return fmt.Errorf("writing what %s is made of: %w", a.name, err)
	}
	return r.write(strings.TrimSuffix(a.name, ".tar.gz")+".cdx.json", text.Bytes())
}
