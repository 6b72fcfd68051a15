// Package scenarios is the catalogue. Of it the programs carry what koupsandbox bench measures when it is
// told nothing else.
package scenarios

import "embed"

// Startup is the name of that scenario's file.
const Startup = "startup.yaml"

// Files are the file and the manifests that it applies.
//
//go:embed startup.yaml manifests/deployment.yaml manifests/service.yaml
var Files embed.FS
