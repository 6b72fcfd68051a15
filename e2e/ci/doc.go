// Package ci tests the files for CI servers: ci/action.sh, ci/gitlab.yml, the recipe of the documents, and a repository
// that koupsandbox init creates. The tests serve a release with the binaries in bin. TestOffline runs in a network
// namespace that has only loopback, and needs root.
package ci
