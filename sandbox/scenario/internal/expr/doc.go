// Package expr evaluates the expressions of scenarios, in CEL.
//
// # Names
//
// Expressions in ${{ … }} know vars, matrix, run (namespace, group, seed, env, attempt) and, within
// steps, outputs. A condition (cel, if, always, never) knows these too and the state of the moment:
// pods, nodes, deployments, replicasets, daemonsets, statefulsets, services, endpointslices and
// events, lists of objects as in JSON; bases, a map from SET-N; and traffic, a map from the
// stream's name. Judge knows the figures of its stream by name, until knows stdout, stderr and
// exitCode. The extensions of cel-go for strings, lists, sets, math and comprehensions with two
// variables are there.
//
// # Conditions that compared nothing
//
// pods.all(p, …) over no Pods is true and proves nothing. A condition is split into its parts,
// those that && joins. Each part that goes over lists (all, exists, filter, map and so on) must
// have gone over at least one element in one of them; loops within loops do not count, and of a
// chain such as pods.filter(…).all(…) the last link does. Otherwise Result.Nothing names the lists
// that were empty. A part that || left out was not evaluated and is not asked for. To say that
// there are none, write size(pods) == 0.
package expr
