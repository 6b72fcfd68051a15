// Package ci does what CI servers do with what this repository gives them: the action of action.yml,
// ci/gitlab.yml, the recipe of the documents, and what koupsandbox init writes. They are read as they
// are, and run in a clean environment; a file server on this machine has the release. The programs of
// the release are those in bin. One test has a network without anything but loopback, and takes root.
//
//	release_test.go   the release and its server
//	github_test.go    runs the steps of actions and workflows, as GitHub's runner does
//	action_test.go    the action
//	gitlab_test.go    the job of the template
//	recipe_test.go    the recipe
//	init_test.go      what init writes passes its own CI
//	workflows_test.go what the workflows of this repository may do
//	images_test.go    images of others are named by their digests
//	offline_*_test.go nothing comes from a network
package ci
