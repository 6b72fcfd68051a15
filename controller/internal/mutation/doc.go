// Package mutation breaks the controller on purpose, so that tests can show that somebody would
// notice. Only a program that was built with the tag mutation can be broken, by the names in its
// environment variable MUTATION, separated by commas; in every other the mutations are constants
// that are false.
//
//	reverse-handover   the new Pod turns Ready before the old one turns Not Ready
//	retain-commands    commands stay in the broker, for whoever subscribes next
//	no-lists           bases are never asked for their modules unless a command has to know
//	never-blind        the silence of bases counts whatever the controller can see
//	no-mass            the silence of most bases at once counts as that of each
//	forget-placed      what Pods had put on a base is forgotten when the base is served anew
//	uninstall-first    what no Pod wants goes before what comes instead is active
//
// The mutations stand in off.go as constants, and in on.go as variables.
package mutation
