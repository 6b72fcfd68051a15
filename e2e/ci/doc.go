// Package ci tests the files for CI servers: ci/action.sh, ci/gitlab.yml, the recipe of the documents, and a repository
// that koupsandbox init creates. A file server of the test has a release with the binaries in bin. One test has a
// network with only loopback, and needs root.
package ci
