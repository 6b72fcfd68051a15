// Package expr evaluates the CEL expressions of scenarios.
//
// # Names
//
// Expressions in ${{ … }} can use vars, matrix, run (namespace, group, seed, env, attempt) and, in steps, outputs.
// Conditions (cel, if, always, never) can also use the current state: pods, nodes, deployments, replicasets,
// daemonsets, statefulsets, services, endpointslices and events, which are lists of objects as in JSON; bases, a map
// with the keys SET-N; and traffic, a map by stream name. The expression judge can also use the fields of its stream.
// The expression until can also use stdout, stderr and exitCode. The cel-go extensions for strings, lists, sets, math
// and two-variable comprehensions are available.
//
// # Conditions that compared nothing
//
// pods.all(p, …) is true without Pods, and proves nothing. A condition is split into the operands of &&. Each operand
// with loops (all, exists, filter, map and so on) must iterate over at least one element in one of them. Nested loops
// are ignored. Of a chain such as pods.filter(…).all(…), the last loop must have an element. Otherwise
// Result.EmptyLists has the empty lists. Operands that || does not evaluate are ignored. To require that there are no
// Pods, write size(pods) == 0.
package expr
