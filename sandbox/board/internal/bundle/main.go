// Command bundle builds the page of the board, and the script of the report page, which draws its timeline with
// the same code. It runs in the directory sandbox/board:
//
//	web/src/wire.ts   the types of the messages, in TypeScript
//	web/dist/app.js   web/src/main.tsx and all that it imports, Preact among it
//	web/dist/app.css  web/src/style.css
//	web/dist/*        the other files of web/static: index.html, an icon
//	../scenario/report/page/page.js   web/src/report/main.ts and all that it imports
//
// It needs neither Node.js nor a network: esbuild is a library, and the directory preact has the three files of
// Preact 11.2.0 that the page needs, without their source maps, under its licence. The output depends only on
// the sources, so `make verify` can check that the committed bundle is up to date.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	source, err := os.ReadFile(filepath.Join(dir, "wire.go"))
	if err != nil {
		return fmt.Errorf("reading wire.go: %w; run this command in sandbox/board", err)
	}
	types, err := typescript(filepath.Join(dir, "../.."), "wire.go", source)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "web/src/wire.ts"), []byte(types), 0o644); err != nil {
		return err
	}
	files, err := bundle(dir)
	if err != nil {
		return err
	}
	script, err := reportScript(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, reportPage), script, 0o644); err != nil {
		return err
	}
	dist := filepath.Join(dir, "web/dist")
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.CopyFS(dist, os.DirFS(filepath.Join(dir, "web/static"))); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dist, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

var preact = map[string]string{
	"preact":             "./internal/bundle/preact/preact.mjs",
	"preact/hooks":       "./internal/bundle/preact/hooks.mjs",
	"preact/jsx-runtime": "./internal/bundle/preact/jsxRuntime.mjs",
}

// reportPage is the path of the generated script for the report page.
const reportPage = "../scenario/report/page/page.js"

func bundle(dir string) (map[string][]byte, error) {
	return build(dir, api.BuildOptions{
		EntryPointsAdvanced: []api.EntryPoint{
			{InputPath: "web/src/main.tsx", OutputPath: "app"},
			{InputPath: "web/src/style.css", OutputPath: "app"},
		},
		Format: api.FormatESModule, MinifyIdentifiers: true, Alias: preact,
		Banner: map[string]string{
			"js": "/* koupsandbox's board, Apache-2.0. With Preact, (c) Jason Miller, MIT licence. */"},
	})
}

// reportScript returns the script for the report page. It does not minify identifiers, because the tests of the
// report use them.
func reportScript(dir string) ([]byte, error) {
	files, err := build(dir, api.BuildOptions{
		EntryPointsAdvanced: []api.EntryPoint{{InputPath: "web/src/report/main.ts", OutputPath: "page"}},
		Format:              api.FormatIIFE,
	})
	return files["page.js"], err
}

func build(dir string, o api.BuildOptions) (map[string][]byte, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	o.AbsWorkingDir, o.Outdir, o.Bundle, o.Target, o.Charset = dir, "web/dist", true, api.ES2022, api.CharsetUTF8
	o.MinifySyntax, o.MinifyWhitespace, o.LegalComments = true, true, api.LegalCommentsNone
	o.TsconfigRaw = `{"compilerOptions": {"jsx": "react-jsx", "jsxImportSource": "preact", "strict": true}}`
	built := api.Build(o)
	var wrong []error
	for _, m := range append(built.Errors, built.Warnings...) {
		at := ""
		if m.Location != nil {
			at = fmt.Sprintf("%s:%d: ", m.Location.File, m.Location.Line)
		}
		wrong = append(wrong, errors.New(at+m.Text))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	files := map[string][]byte{}
	for _, f := range built.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	return files, nil
}
