// Package rights holds a sandbox to what SECURITY.md says: who may do what, who reaches what, and what
// is on its disk.
package rights
