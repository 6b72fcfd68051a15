// Package board looks at the board in browsers without a window: in Chromium, and where it is
// installed in Firefox. A made-up platform, which
// speaks as sandbox/board does, tells a story of which the tests know every moment; the page is the
// one that is committed. Pictures of all views stay in e2e/artifacts/board. Run it with make
// e2e-board; it needs Node.js, Chromium, and what make board-web installs.
//
//	fixture_test.go   the made-up platform, the browser, pages
//	sandbox_test.go   the board of a real sandbox
//	release_test.go   a release followed to its end, and all other actions on workloads, there
//	incluster_test.go the manifests of a board in a cluster, and the rights that they give
//	firefox_test.go   every view, the past, an action and refused access in Firefox
//	views_test.go     views, filters, the past, keyboard, languages, access, actions, 1,000 bases
package board
