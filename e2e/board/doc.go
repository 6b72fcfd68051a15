// Package board tests the board in browsers without a window: in Chromium, and in Firefox if it is installed. It shows the
// board of a run whose events the tests know, and the board of a real sandbox, with the page that is committed. Screenshots
// of all views are in e2e/artifacts/board. Run it with make e2e-board; it needs Node.js, Chromium, and what make board-web
// installs.
package board
