package progress

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// frameTime is how long each frame of the spinner is shown.
const frameTime = 100 * time.Millisecond

var frames = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// PrinterOptions configures a Printer.
type PrinterOptions struct {
	// Terminal shows a spinner with the running steps in the last line of the terminal. Default: one plain line is
	// printed for each step that has ended.
	Terminal bool
	// Quiet prints only failed steps.
	Quiet bool
	// Width is the width of the terminal in columns. Default: 80.
	Width int
}

// Printer prints progress events. Its methods may be called concurrently.
type Printer struct {
	w       io.Writer
	o       PrinterOptions
	stop    chan struct{}
	stopped sync.WaitGroup

	mu      sync.Mutex
	running []string
	since   time.Time // start time of the step that has been running longest
	frame   int
	drawn   bool
}

// NewPrinter returns a printer that writes to w. Call Close after the last event.
func NewPrinter(w io.Writer, o PrinterOptions) *Printer {
	if o.Width <= 0 {
		o.Width = 80
	}
	p := &Printer{w: w, o: o, stop: make(chan struct{})}
	if o.Terminal && !o.Quiet {
		tick := time.NewTicker(frameTime)
		p.stopped.Go(func() {
			defer tick.Stop()
			p.spin(tick.C)
		})
	}
	return p
}

// Close removes the spinner from the terminal. Call Close once.
func (p *Printer) Close() {
	close(p.stop)
	p.stopped.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

func (p *Printer) spin(tick <-chan time.Time) {
	for {
		select {
		case <-tick:
			p.mu.Lock()
			p.frame++
			p.draw()
			p.mu.Unlock()
		case <-p.stop:
			return
		}
	}
}

// Event prints the event e. It ignores write errors, so that a closed output does not stop the command.
func (p *Printer) Event(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	e.Step, e.Error = plain.Lines(e.Step), plain.Text(e.Error)
	switch e.Kind {
	case Started:
		if len(p.running) == 0 {
			p.since = time.Now()
		}
		p.running = append(p.running, e.Step)
	case Done:
		p.forget(e.Step)
		p.line(p.o.Quiet, "✓ %-50s %s\n", e.Step, round(e.Elapsed))
	case Failed:
		p.forget(e.Step)
		p.line(false, "✗ %-50s %s  %s\n", e.Step, round(e.Elapsed), e.Error)
	case Note:
		p.line(p.o.Quiet, "  %s\n", e.Step)
	}
	p.draw()
}

func (p *Printer) line(suppress bool, format string, args ...any) {
	if !suppress {
		_, _ = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *Printer) forget(step string) {
	if i := slices.Index(p.running, step); i >= 0 {
		p.running = slices.Delete(p.running, i, i+1)
	}
}

// draw writes the spinner line and leaves the cursor in it.
func (p *Printer) draw() {
	if !p.o.Terminal || p.o.Quiet || len(p.running) == 0 {
		return
	}
	text := []rune(fmt.Sprintf("%s %s (%s)", frames[p.frame%len(frames)], strings.Join(p.running, ", "),
		round(time.Since(p.since))))
	if len(text) >= p.o.Width { // a wrapped line cannot be erased
		text = append(text[:p.o.Width-2], '…')
	}
	_, _ = fmt.Fprintf(p.w, "\r\033[K%s", string(text))
	p.drawn = true
}

func (p *Printer) erase() {
	if p.drawn {
		_, _ = fmt.Fprint(p.w, "\r\033[K")
		p.drawn = false
	}
}

func round(d time.Duration) string {
	return fmt.Sprintf("%.1fs", d.Seconds())
}
