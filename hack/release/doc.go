// Command release writes what one release consists of: for each platform an archive with the programs and
// a list of what they are made of (CycloneDX), a statement of where they come from (SLSA), a formula of
// Homebrew, a manifest of krew, install.sh, and the checksums of all. Run it with make release.
//
// The same commit, version and Go give the same bytes, in any folder: the programs are built by make build
// without paths, and every time is that of the commit, or $SOURCE_DATE_EPOCH.
//
//	main.go      flags, and the order of things
//	build.go     the programs of a platform, and the files that go with them
//	man.go       pages of the manual
//	archive.go   an archive, and checksums
//	bom.go       what programs are made of, and the texts of the licenses
//	describe.go  the statement, the formula, the manifest and install.sh
package main
