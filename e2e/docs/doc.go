// Package docs holds the documents to what the programs do: it executes the command blocks of the
// README and of docs/en, each page in a sandbox of its own, and compares what they print; it checks
// that the Chinese pages have the same blocks, and that every link leads somewhere. Run it with
//
//	go test ./e2e/docs          # with the programs in bin/; also a part of make e2e
//	go test ./e2e/docs -update  # write what the commands print into the pages, in both languages;
//	                            # with -all also where only masked parts differ
//
// A page says what is to be done in comments that nobody sees:
//
//	<!-- setup: COMMAND -->   is executed before the page, silently
//	<!-- file: NAME -->       the next block is the content of a file
//	<!-- exits: N -->         the last command of the next block ends with status N
//	<!-- not run: REASON -->  the next block is not executed; the test prints why
//
// A block ```console has commands behind "$ " (further lines behind "> ") and what they print. A line
// "…" stands for any number of lines. Times, identities, ports, pids, sizes and counts of requests may
// differ (mask_test.go).
package docs
