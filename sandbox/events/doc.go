// Package events has the typed events of a sandbox, and the State that they produce.
//
// The daemon streams events, a scenario records them, and the judge, the board, the watch command and the reports read
// them. State is the only code that derives the present state from events.
package events
