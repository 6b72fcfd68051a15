// Package scenarios is the catalogue of scenarios. It embeds the default scenario of koupsandbox bench.
package scenarios

import "embed"

// Startup is the file name of the scenario that koupsandbox bench runs by default.
const Startup = "startup.yaml"

// Files contains the scenario file Startup and the manifests that this scenario applies.
//
//go:embed startup.yaml manifests/deployment.yaml manifests/service.yaml
var Files embed.FS
