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
		"\nSTEPS, each with one of: " + strings.Join(e.actions(), ", ") + "\nFAULTS, by target:" + faults +
		"\n\nMore: koupsandbox scenario explain FIELD, a step, a fault, checks, expressions, rules\n"
}

const expressions = `EXPRESSIONS are in CEL, https://cel.dev.

In a string, ${{ ... }} stands for a value. When the whole string is one
expression, the value keeps its type: count: ${{ matrix.bases }} is a number.
Within { } and [ ] put such a string in quotes.

  vars.NAME      variables of the scenario; they may use each other
  matrix.NAME    the values of this run
  run            namespace, group, seed, env, attempt
  outputs.NAME   in strings of steps: what an earlier script printed

Fields that are expressions as a whole need no ${{ }}. They know the names above
and more:

  cel, if        pods, nodes, deployments, replicasets, daemonsets, statefulsets,
                 services, endpointslices, events: lists of objects as in JSON
                 bases["SET-N"]: set, index, identity, version, running, connected,
                 ready, modules (a list of name, version, state)
                 traffic.NAME: the figures of a stream
  judge          the figures of its stream: sent, open, ok, lost, noEndpoint,
                 refused, reset, notFound, unavailable, timeout, wrongVersion, other,
                 versions["V"], p50, p99, max, late (durations)
  until          stdout, stderr, exitCode

Examples:

  pods.all(p, p.status.conditions.exists(c, c.type == "Ready" && c.status == "True"))
  bases.all(name, b, b.modules.exists(m, m.name == "biz1" && m.state == "ACTIVATED"))
  traffic.traffic.lost == 0 && traffic.traffic.p99 < duration("100ms")

A condition that compared nothing is not true: pods.all(...) over no Pods. To say
that there are none, write size(pods) == 0. The extensions for strings, lists, sets,
math and comprehensions with two variables are there.
`
