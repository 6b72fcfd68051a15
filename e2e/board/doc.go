// Package board tests the board in headless Chromium, and in Firefox if it is installed. The tests use the board of a
// generated run, and the board of a running sandbox. Screenshots of all views are in e2e/artifacts/board.
//
// Run it with make e2e-board. It needs Node.js, Chromium, and the packages that make board-web installs.
package board
