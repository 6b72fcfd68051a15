// Package rights tests the statements of SECURITY.md: permissions, listeners, and files.
package rights
