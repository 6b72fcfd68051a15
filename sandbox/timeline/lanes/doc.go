// Package lanes turns a timeline into what is drawn: a lane for each base, component and Service,
// with bars that last and marks that are instants. The HTML report draws a whole timeline,
// koupsandbox watch a live one.
//
//	lanes.go    Lane, Span, Segment, Mark
//	board.go    Board: takes events one by one, gives lanes
//	observe.go  what each kind of event means for the lanes
//	order.go    base-2 stands before base-10
package lanes
