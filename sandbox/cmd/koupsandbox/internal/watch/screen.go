package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"k8s.io/utils/clock"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
	"github.com/koupleless/koupsandbox/sandbox/timeline/lanes"
)

const (
	// frame is how often the screen is drawn: quick enough to look alive.
	frame = 100 * time.Millisecond
	// tidy is how often what is too old is forgotten.
	tidy = 10 * time.Second
	// mostEvents is how many lines of events the screen keeps.
	mostEvents = 200
	// leastName is the width of the column with the names, which grows with them to a quarter of
	// the screen; mostNow that of what is beside a lane, which has half of a small one.
	leastName, mostNow = 10, 60
	// leastWidth and leastHeight are the smallest screen; one lower than lowHeight has no room to
	// explain all signs.
	leastWidth, leastHeight, lowHeight = 40, 8, 16
)

// spans are how much time a screen may show.
var spans = []time.Duration{5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute}

// ScreenOptions of a Screen.
type ScreenOptions struct {
	// Title of the screen. Default: none.
	Title string
	// Clock drives it. Default: the real one.
	Clock clock.PassiveClock
}

// Screen shows lanes live. Observe may be called concurrently with Run.
type Screen struct {
	o ScreenOptions

	mu      sync.Mutex
	board   *lanes.Board
	colours *palette
	events  []timeline.Event
	lost    int
	synced  bool
}

// NewScreen returns a screen that has seen nothing.
func NewScreen(o ScreenOptions) *Screen {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Screen{o: o, board: lanes.NewBoard(), colours: newPalette()}
}

// Observe is a sink for Follow. It never fails.
func (s *Screen) Observe(e timeline.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.board.Observe(e)
	switch e.Kind {
	case timeline.Request:
		s.lost++
	case timeline.Synced:
		s.synced = true
		return nil
	}
	if s.synced && !e.Routine() { // what was there before is in the lanes
		s.events = append(s.events, e)
		if len(s.events) > 2*mostEvents {
			s.events = append([]timeline.Event(nil), s.events[len(s.events)-mostEvents:]...)
		}
	}
	return nil
}

// Run shows the screen on a terminal until follow ends, whose error it returns, or until the user
// ends it, and returns nil. follow is to call Observe; it runs meanwhile and is waited for.
func (s *Screen) Run(ctx context.Context, in io.Reader, out io.Writer, follow func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	program := tea.NewProgram(&model{screen: s, span: 2}, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	done := make(chan error, 1)
	go func() {
		done <- follow(ctx)
		program.Quit()
	}()
	_, err := program.Run()
	cancel() // the user may have ended it
	followErr := <-done
	switch {
	case err != nil && !errors.Is(err, tea.ErrProgramKilled):
		return fmt.Errorf("showing the screen: %w", err)
	case errors.Is(followErr, context.Canceled):
		return nil
	}
	return followErr
}

// model is the state of the screen that the keys change.
type model struct {
	screen        *Screen
	width, height int
	span          int // of spans
	scroll        int
	hidePods      bool
	paused        time.Time // zero = live
	forgot        time.Time // when the board last forgot what is too old
}

type tick struct{}

func next() tea.Cmd { return tea.Tick(frame, func(time.Time) tea.Msg { return tick{} }) }

// Init begins to draw.
func (m *model) Init() tea.Cmd { return next() }

// Update takes a key, a tick or a new size.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tick:
		return m, next()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		case "+", "=":
			m.span = max(m.span-1, 0)
		case "-":
			m.span = min(m.span+1, len(spans)-1)
		case "up", "k":
			m.scroll = max(m.scroll-1, 0)
		case "down", "j":
			m.scroll++ // the view knows where the end is
		case "pgup":
			m.scroll = max(m.scroll-m.height/2, 0)
		case "pgdown":
			m.scroll += m.height / 2
		case "home":
			m.scroll = 0
		case "p":
			m.hidePods = !m.hidePods
		case "space":
			if m.paused.IsZero() {
				m.paused = m.screen.o.Clock.Now()
			} else {
				m.paused = time.Time{}
			}
		}
	}
	return m, nil
}

// View draws the screen.
func (m *model) View() tea.View {
	view := tea.NewView(m.draw())
	view.AltScreen = true
	view.WindowTitle = m.screen.o.Title
	return view
}

func (m *model) draw() string {
	if m.width < leastWidth || m.height < leastHeight {
		return "the terminal is too small"
	}
	s := m.screen
	s.mu.Lock()
	defer s.mu.Unlock()
	at := m.paused
	if at.IsZero() {
		at = s.o.Clock.Now()
	}
	if m.paused.IsZero() && at.Sub(m.forgot) > tidy {
		s.board.Forget(at.Add(-spans[len(spans)-1] - time.Minute)) // what was before no key brings back
		m.forgot = at
	}
	body := m.lanes(at)
	keys := keyLines(m.width)
	if m.height < lowHeight {
		keys = keys[:1]
	}
	free := m.height - 2 - len(keys) // head, line
	log := min(len(s.events), max(free/4, 2))
	free -= log
	m.scroll = min(m.scroll, max(len(body)-free, 0))
	lines := []string{m.head(at)}
	for _, row := range body[m.scroll:min(m.scroll+free, len(body))] {
		lines = append(lines, row())
	}
	for len(lines) < free+1 {
		lines = append(lines, "")
	}
	line := paint(weak, "──")
	if names := s.colours.names(); names != "" {
		line += " " + names + " "
	}
	lines = append(lines, line+paint(weak, strings.Repeat("─", max(m.width-ansi.StringWidth(line), 0))))
	for _, e := range s.events[len(s.events)-log:] {
		lines = append(lines, shortLine(e))
	}
	lines = append(lines, keys...)
	for i, l := range lines {
		lines[i] = ansi.Truncate(l, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

func (m *model) head(at time.Time) string {
	s := m.screen
	bases, ready, pods := 0, 0, 0
	for b := range s.board.State().Bases.All() {
		if b.Running {
			bases++
		}
	}
	for _, l := range s.board.Lanes() {
		r, n := podsNow(l, at)
		ready, pods = ready+r, pods+n
	}
	text := fmt.Sprintf("%s   %s   last %s   bases %d   Pods %d/%d Ready", lipgloss.NewStyle().Bold(true).Render(s.o.Title), at.Local().Format("15:04:05"), spans[m.span], bases, ready, pods)
	if s.lost > 0 {
		text += paint(bad, fmt.Sprintf("   requests lost %d", s.lost))
	}
	if !m.paused.IsZero() {
		text += paint(warn, "   paused")
	}
	return text
}

// lanes returns how to draw each lane; of a thousand only those that are in sight are drawn.
func (m *model) lanes(at time.Time) []func() string {
	s := m.screen
	from := at.Add(-spans[m.span])
	var calmOnes, shown []*lanes.Lane
	set := map[string][]*lanes.Span{} // faults by base
	names := leastName
	for _, l := range s.board.Lanes() {
		if l.Kind == lanes.Faults {
			for _, f := range l.Spans {
				set[f.Base] = append(set[f.Base], f)
			}
		}
		switch {
		case l.Kind == lanes.Component && calm(l, from, at):
			calmOnes = append(calmOnes, l)
			continue
		case (l.Kind == lanes.Faults || l.Kind == lanes.Waiting) && idle(l, from, at):
			continue
		}
		shown = append(shown, l)
		names = max(names, ansi.StringWidth(plain.Text(l.Name)))
	}
	nameWidth := min(names, m.width/4)
	nowWidth := min(m.width/2, mostNow)
	n := m.width - nameWidth - nowWidth - 2
	each := spans[m.span] / time.Duration(n)
	edge := at.Truncate(each).Add(each) // cells stand still while time goes on
	var rows []func() string
	add := func(name string, draw func(period) cell, now func() string) {
		rows = append(rows, func() string {
			name := ansi.Truncate(plain.Text(name), nameWidth, "…")
			return fmt.Sprintf("%-*s %s %s", nameWidth, name, strip(n, each, edge, draw), now())
		})
	}
	if len(calmOnes) > 0 {
		all := &lanes.Lane{}
		for _, l := range calmOnes {
			all.Spans = append(all.Spans, l.Spans...)
		}
		add("components", states(all, processes), func() string { return fmt.Sprintf("%d running", len(calmOnes)) })
	}
	for _, l := range shown {
		switch l.Kind {
		case lanes.Component:
			add(l.Name, states(l, processes), func() string { return now(l, at) })
		case lanes.Faults:
			add("faults", states(l, faults), func() string { return now(l, at) })
		case lanes.Waiting:
			add("no base", states(l, waiting), func() string { return waitingNow(l, at) })
		case lanes.Base:
			add(l.Name, modules(l, s.colours), func() string { return modulesNow(l, at, s.colours) })
			why := func() []string { return reasons(l, set[l.Name], from, at) }
			ready, all := podsNow(l, at)
			switch {
			case !m.hidePods && all > 0:
				add("  Pods", pods(l, s.colours), func() string {
					return plain.Text(strings.Join(append([]string{fmt.Sprintf("%d/%d Ready", ready, all)}, why()...), ", "))
				})
			case len(why()) > 0:
				add("", func(period) cell { return empty }, func() string { return plain.Text(strings.Join(why(), ", ")) })
			}
		}
	}
	if len(rows) == 0 {
		rows = append(rows, func() string { return "" }, func() string { return "  nothing has been seen yet" })
	}
	return rows
}
