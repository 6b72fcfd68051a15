// Command bundle writes what the board's page is made of: the types of its messages in TypeScript.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run() error {
	source, err := os.ReadFile("wire.go")
	if err != nil {
		return err
	}
	text, err := typescript("wire.go", source)
	if err != nil {
		return err
	}
	return os.WriteFile("web/src/wire.ts", []byte(text), 0o644)
}
