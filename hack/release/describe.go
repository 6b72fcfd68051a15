package main

import (
	"bytes"
	_ "embed" // the templates
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

var (
	//go:embed koup.yaml.tmpl
	krew string
	//go:embed koupsandbox.rb.tmpl
	homebrew string
)

// describe writes what points to the archives.
func (r *release) describe() error {
	return errors.Join(r.writeStatement(), r.fill("koup.yaml", krew), r.fill("koupsandbox.rb", homebrew), r.writeInstaller())
}

// statement is an attestation (https://in-toto.io/Statement/v1) without its signature, which the workflow of
// the release gives.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     any       `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// writeStatement writes where the archives come from, by https://slsa.dev/spec/v1.0/provenance.
func (r *release) writeStatement() error {
	const source = "https://github.com/koupleless/koupsandbox"
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	var platforms []string
	for _, a := range r.archives {
		s.Subject = append(s.Subject, subject{Name: a.name, Digest: map[string]string{"sha256": a.sum}})
		platforms = append(platforms, a.String())
	}
	s.Predicate = map[string]any{
		"buildDefinition": map[string]any{
			"buildType":          source + "/blob/main/hack/release/doc.go",
			"externalParameters": map[string]any{"version": r.version, "platforms": platforms},
			"internalParameters": map[string]any{"go": goVersion(), "SOURCE_DATE_EPOCH": fmt.Sprint(r.time.Unix())},
			"resolvedDependencies": []subject{
				{URI: "git+" + source, Digest: map[string]string{"gitCommit": r.commit}},
			},
		},
		"runDetails": map[string]any{"builder": map[string]any{"id": source + "/blob/main/Makefile"}},
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the provenance: %w", err)
	}
	return r.write("provenance.intoto.json", append(text, '\n'))
}

// fill writes a file from its template.
func (r *release) fill(name, text string) error {
	type shown struct{ OS, Arch, URL, Sum, Folder string }
	values := struct {
		Version string
		Of      []shown
	}{Version: r.version}
	for _, a := range r.archives {
		values.Of = append(values.Of, shown{a.os, a.arch, r.url + "/" + a.name, a.sum, strings.TrimSuffix(a.name, ".tar.gz")})
	}
	t, err := template.New(name).Funcs(template.FuncMap{"bare": func(v string) string { return strings.TrimPrefix(v, "v") }}).Parse(text)
	var out bytes.Buffer
	if err == nil {
		err = t.Execute(&out, values)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return r.write(name, out.Bytes())
}

// preset is the line of install.sh with the version that it installs unless it is told otherwise.
var preset = regexp.MustCompile(`(?m)^version=$`)

// writeInstaller writes an install.sh that installs this release.
func (r *release) writeInstaller() error {
	text, err := os.ReadFile(filepath.Join(r.root, "install.sh"))
	if err != nil {
		return err
	}
	if len(preset.FindAll(text, -1)) != 1 {
		return errors.New("install.sh has no line for the version that it installs")
	}
	return r.write("install.sh", preset.ReplaceAll(text, []byte("version="+r.version)))
}
