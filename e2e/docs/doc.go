// Package docs tests the documentation. It executes the command blocks of README.md and docs/en, each page in its own
// sandbox, and compares the output. It checks that the Chinese pages have the same blocks, and that links lead to
// existing files and headings.
//
//	go test ./e2e/docs          # with the binaries in bin/; also a part of make e2e
//	go test ./e2e/docs -update  # write the output of the commands into the pages of both languages
//
// HTML comments in a page control the execution:
//
//	<!-- setup: COMMAND -->   is executed before the commands of the page; the output is ignored
//	<!-- file: NAME -->       the next block is the content of a file
//	<!-- exits: N -->         the last command of the next block ends with status N
//	<!-- not run: REASON -->  the next block is not executed; the test prints the reason
//
// A block ```console has commands after "$ ", further lines of a command after "> ", and their output. A line "…"
// stands for any number of lines. Times, identities, ports, PIDs, sizes and numbers of requests may differ
// (mask_test.go).
package docs
