package source_test

import "github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"

var run = expr.Run{Namespace: "rolling-x7k2p", Group: "rolling-x7k2p", Seed: 7, Env: "dev", Attempt: 1}
