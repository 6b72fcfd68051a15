// Command genschema writes the JSON schema of the configuration file; run it
// with go generate in the folder of the types.
package main

import (
	"fmt"
	"os"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1/internal/schema"
)

func main() {
	text, err := schema.Generate(".")
	if err == nil {
		err = os.WriteFile(schema.File, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
