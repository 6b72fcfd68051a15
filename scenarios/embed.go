// Package scenarios is the catalogue of scenarios. It embeds the default scenario of koupsandbox bench.
package scenarios

import "embed"

// Startup is the file name of the default scenario of koupsandbox bench.
const Startup = "startup.yaml"

// Files contains the scenario file Startup and the manifests that the scenario applies.
//
//go:embed startup.yaml manifests/deployment.yaml manifests/service.yaml
var Files embed.FS
