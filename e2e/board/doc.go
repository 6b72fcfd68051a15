// Package board looks at the board in browsers without a window: in Chromium, and where it is
// installed in Firefox. A made-up platform, which
// speaks as sandbox/board does, tells a story of which the tests know every moment; the page is the
// one that is committed. Pictures of all views stay in e2e/artifacts/board. Run it with make
// e2e-board; it needs Node.js, Chromium, and what make board-web installs.
package board
