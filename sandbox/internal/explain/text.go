package explain

import (
	"fmt"
	"strings"
)

func (e *Explainer) overview() string {
	kinds := map[string][]string{}
	for _, kind := range e.faultKinds() {
		kinds[kind.Title] = append(kinds[kind.Title], fmt.Sprint(kind.Const))
	}
	faults := ""
	for _, target := range []string{"base", "api", "mqtt"} {
		faults += "\n  " + target + ": " + strings.Join(kinds[target], ", ")
	}
	return wrapped(e.root.Description, "") + "\nFIELDS of spec:\n" +
		e.fields(e.object(e.root.Properties.Value("spec"))) +
		"\nSTEPS, one of: " + strings.Join(e.actions(), ", ") + "\nFAULTS, by target:" + faults +
		"\n\nMore: koupsandbox scenario explain FIELD, a step, a fault, checks, expressions, rules\n"
}

const expressions = `EXPRESSIONS are in CEL, https://cel.dev.

In a string, ${{ ... }} is replaced by its value. If the whole string is one
expression, the value keeps its type: count: ${{ matrix.bases }} is a number.
Quote such a string inside { } and [ ].

  vars.NAME      variables of the scenario, which may refer to each other
  matrix.NAME    the values of this run
  run            namespace, group, seed, env, attempt
  outputs.NAME   in strings of steps: output of an earlier script

The following fields are expressions without ${{ }}. They can use the names above
and more:

  cel, if        pods, nodes, deployments, replicasets, daemonsets, statefulsets,
                 services, endpointslices, events: lists of objects, as in JSON
                 bases["SET-N"]: set, index, identity, version, running, connected,
                 ready, modules (a list of name, version, state)
                 traffic.NAME: the results of a stream
  judge          results of the stream: sent, open, ok, lost, noEndpoint,
                 refused, reset, notFound, unavailable, timeout, wrongVersion, other,
                 versions["V"], p50, p99, max, late (durations)
  until          stdout, stderr, exitCode

Examples:

  pods.all(p, p.status.conditions.exists(c, c.type == "Ready" && c.status == "True"))
  bases.all(name, b, b.modules.exists(m, m.name == "biz1" && m.state == "ACTIVATED"))
  traffic.traffic.lost == 0 && traffic.traffic.p99 < duration("100ms")

A condition without a comparison is not true, such as pods.all(...) without Pods. To
check that no Pods exist, use size(pods) == 0. The CEL extensions for strings, lists,
sets, math and two-variable comprehensions are supported.
`
