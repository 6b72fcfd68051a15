// Command bundle makes the board's page from its sources, in the folder sandbox/board:
//
//	web/src/wire.ts   the types of the messages, in TypeScript
//	web/dist/app.js   web/src/main.tsx and all that it imports, Preact among it
//	web/dist/app.css  web/src/style.css
//	web/dist/*        what else is in web/static: index.html, an icon
//
// It needs neither Node nor a network: esbuild is a library, and the folder preact has the three
// files of Preact 11.2.0 that the page needs, without their source maps, under its licence. The same
// sources always make the same bundle, byte for byte, so `make verify` can tell whether the one that
// is committed is theirs.
//
//	main.go        the bundle
//	typescript.go  the types
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

// run writes everything into the folder of the board.
func run(dir string) error {
	source, err := os.ReadFile(filepath.Join(dir, "wire.go"))
	if err != nil {
		return fmt.Errorf("run it in the folder sandbox/board: %w", err)
	}
	types, err := typescript("wire.go", source)
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

// preact says where its modules are.
var preact = map[string]string{
	"preact":             "./internal/bundle/preact/preact.mjs",
	"preact/hooks":       "./internal/bundle/preact/hooks.mjs",
	"preact/jsx-runtime": "./internal/bundle/preact/jsxRuntime.mjs",
}

// bundle returns app.js and app.css.
func bundle(dir string) (map[string][]byte, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	built := api.Build(api.BuildOptions{
		AbsWorkingDir: dir,
		EntryPointsAdvanced: []api.EntryPoint{
			{InputPath: "web/src/main.tsx", OutputPath: "app"},
			{InputPath: "web/src/style.css", OutputPath: "app"},
		},
		Outdir: "web/dist", Bundle: true, Format: api.FormatESModule, Target: api.ES2022, Charset: api.CharsetUTF8,
		MinifySyntax: true, MinifyWhitespace: true, MinifyIdentifiers: true, LegalComments: api.LegalCommentsNone,
		Alias:       preact,
		TsconfigRaw: `{"compilerOptions": {"jsx": "react-jsx", "jsxImportSource": "preact", "strict": true}}`,
		Banner:      map[string]string{"js": "/* koupsandbox's board, Apache-2.0. With Preact, (c) Jason Miller, MIT licence. */"},
	})
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
