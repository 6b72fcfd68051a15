// Package ci does what CI servers do with what this repository gives them: the action of action.yml,
// ci/gitlab.yml, the recipe of the documents, and what koupsandbox init writes. They are read as they
// are, and run in a clean environment; a file server on this machine has the release. The programs of
// the release are those in bin. One test has a network without anything but loopback, and takes root.
package ci
