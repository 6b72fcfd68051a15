// Package component is what the parts of a sandbox have in common: the components that `koupsandbox
// status` lists, and what `koupsandbox component` does to them.
package component
