package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"k8s.io/utils/clock"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

const (
	// framePeriod is the interval between screen updates.
	framePeriod = 200 * time.Millisecond
	// minWidth and minHeight are the minimum size of the screen.
	minWidth, minHeight = 40, 8
)

// help is the help text that explains the table and the keys.
const help = `One row per base:
  STATE       state of the base, of its Node unless Ready, and its faults
  MODULES     NAME:VERSION, and the state of inactive modules
  PODS        Ready Pods / all Pods, and why Pods are not Ready
  LOST        lost requests since watch was started
  LAST EVENT  the latest change or command

q quit   space pause   ↑ ↓ PgUp PgDn scroll   ? close this help`

const keys = "q quit   space pause   ↑ ↓ scroll   ? help"

// ScreenOptions are the options of a Screen.
type ScreenOptions struct {
	// Title is the title of the screen. Default: no title.
	Title string
	// Clock is the clock that the screen uses. Default: the real clock.
	Clock clock.PassiveClock
}

// Screen is a live table of bases. Its methods may be called concurrently.
type Screen struct {
	o ScreenOptions

	mu     sync.Mutex
	synced bool
	state  events.State
	last   map[string]events.Event // latest event by base
	lost   map[string]int          // number of lost requests by base
	rates  []rate
}

// snapshot is the screen content at one point in time.
type snapshot struct {
	at      time.Time
	summary []string
	rows    [][]string // table cells of each base
}

// NewScreen returns a screen without bases.
func NewScreen(o ScreenOptions) *Screen {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Screen{o: o, last: map[string]events.Event{}, lost: map[string]int{}}
}

// Observe updates the screen with an event. It is a sink for Follow and always returns nil.
func (s *Screen) Observe(e events.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Apply(e)
	s.synced = s.synced || e.Synced
	base := e.BaseName()
	if base == "" || !s.synced || e.Routine() {
		return nil
	}
	s.last[base] = e
	if e.Request != nil {
		s.lost[base]++
	}
	return nil
}

// snapshot returns the current content of the screen.
func (s *Screen) snapshot() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := &snapshot{at: s.o.Clock.Now(), summary: s.summary()}
	for _, name := range s.names() {
		now.rows = append(now.rows, s.row(name))
	}
	return now
}

// Run shows the screen on a terminal. It calls follow, which must pass its events to Observe. It blocks until follow
// has returned. Run returns the error of follow, or nil if the user quits.
func (s *Screen) Run(ctx context.Context, in io.Reader, out io.Writer, follow func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	program := tea.NewProgram(&model{screen: s}, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out),
		tea.WithoutSignalHandler())
	done := make(chan error, 1)
	go func() {
		done <- follow(ctx)
		program.Quit()
	}()
	_, err := program.Run()
	cancel() // the user may have quit
	followErr := <-done
	switch {
	case err != nil && !errors.Is(err, tea.ErrProgramKilled):
		return fmt.Errorf("showing the screen: %w", err)
	case errors.Is(followErr, context.Canceled):
		return nil
	}
	return followErr
}

// model is the part of the screen state that the user changes with keys. It implements tea.Model.
type model struct {
	screen        *Screen
	shown         *snapshot
	width, height int
	scroll        int // number of rows above the first visible row
	paused, help  bool
}

type tick struct{}

func nextTick() tea.Cmd { return tea.Tick(framePeriod, func(time.Time) tea.Msg { return tick{} }) }

// Init implements tea.Model.
func (m *model) Init() tea.Cmd {
	m.shown = m.screen.snapshot()
	return nextTick()
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tick:
		if !m.paused {
			m.shown = m.screen.snapshot()
		}
		return m, nextTick()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "esc", "ctrl+c":
			return m, tea.Quit
		case "space":
			m.paused = !m.paused
		case "?":
			m.help = !m.help
		case "up", "k":
			m.scroll--
		case "down", "j":
			m.scroll++
		case "pgup":
			m.scroll -= m.height / 2
		case "pgdown":
			m.scroll += m.height / 2
		}
	}
	return m, nil
}

// View implements tea.Model.
func (m *model) View() tea.View {
	view := tea.NewView(m.draw())
	view.AltScreen = true
	view.WindowTitle = m.screen.o.Title
	return view
}

// draw renders the screen.
func (m *model) draw() string {
	if m.width < minWidth || m.height < minHeight {
		return "the terminal is too small"
	}
	lines := m.lines()
	if m.help {
		lines = strings.Split(help, "\n")
	}
	for i, l := range lines[:min(len(lines), m.height)] {
		lines[i] = ansi.Truncate(l, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// lines returns the summary, the table and the key help.
func (m *model) lines() []string {
	rows := m.shown.rows
	head := fmt.Sprintf("%s   %s   %s", lipgloss.NewStyle().Bold(true).Render(m.screen.o.Title),
		m.shown.at.Local().Format("15:04:05"), plain.Count(len(rows), "base"))
	if m.paused {
		head += colorize(warnColor, "   paused")
	}
	lines := append([]string{head}, m.shown.summary...)
	lines = append(lines[:min(len(lines), m.height/2)], "")
	room := m.height - len(lines) - 2 // two lines are the header of the table and the keys
	m.scroll = max(0, min(m.scroll, len(rows)-room))
	lines = append(lines, m.table(rows[m.scroll:min(len(rows), m.scroll+room)])...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return append(lines, colorize(weakColor, keys))
}

// table returns the lines of the table. The name column uses at most a third of the screen width, every other column
// at most a fifth, and the last column the remaining width.
func (m *model) table(bases [][]string) []string {
	rows := [][]string{slices.Clone(headers)}
	for _, row := range bases {
		rows = append(rows, slices.Clone(row))
	}
	widths := make([]int, len(headers))
	for _, row := range rows {
		for i, cell := range row[:len(row)-1] {
			limit := m.width / 5
			if i == 0 {
				limit = m.width / 3
			}
			row[i] = ansi.Truncate(cell, limit, "…")
			widths[i] = max(widths[i], ansi.StringWidth(row[i]))
		}
	}
	var lines []string
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", max(0, widths[i]-ansi.StringWidth(cell))+2))
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}
