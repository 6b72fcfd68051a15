// Command genschema writes the JSON schemas of configuration files and scenario files. go generate runs it in the
// directory of the types.
package main

import (
	"fmt"
	"os"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1/internal/schema"
)

func main() {
	for file, generate := range schema.Files {
		text, err := generate(".")
		if err == nil {
			err = os.WriteFile(file, text, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
