package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// pageData is the data for the script of the page. Texts are stored as indexes of Texts, and times as microseconds
// from the start of the run. Frequent items are stored in flat arrays, because half a million objects would need too
// much memory in the browser.
type pageData struct {
	Texts []string  `json:"texts"`
	Runs  []runView `json:"runs"`
}

type runView struct {
	// Length is the duration from the start of the run to its end or to the last event, whichever is later.
	Length int64 `json:"length"`
	// Versions lists the module versions, as indexes of Texts. The position of a version in this list determines its
	// colour.
	Versions []int `json:"versions"`
	// Steps is a flat array with these values for each step: from, to, row, result, name, text.
	Steps   []int64      `json:"steps"`
	Streams []streamView `json:"streams"`
	Lanes   []laneView   `json:"lanes"`
}

type streamView struct {
	Name int `json:"name"`
	// Route is a description of the route of the stream's requests, as an index of Texts.
	Route int `json:"route"`
	// Peak is the highest number of requests in a single second.
	Peak int `json:"peak"`
	// Width is the duration of a bin. Bins is a flat array in chronological order with these values for each bin:
	// from, sent, lost, and the number of responses of each version in Versions.
	Width int64   `json:"width"`
	Bins  []int64 `json:"bins"`
	// Lost is a flat array with these values for each lost request: time, result, text.
	Lost []int64 `json:"lost"`
}

type laneView struct {
	Kind int       `json:"kind"`
	Name int       `json:"name"`
	Rows []rowView `json:"rows"`
	// Marks is a flat array, sorted by to, with these values for each mark: from, to, kind, text.
	Marks []int64 `json:"marks"`
}

type rowView struct {
	Thing int `json:"thing"`
	// Bars is a flat array in chronological order with these values for each bar: from, to, state, version (-1 means
	// none), name, text. Bars do not overlap.
	Bars []int64 `json:"bars"`
}

type pageBuilder struct {
	texts    *texts
	run      *scenario.Run
	versions map[string]int
	list     []int
}

func pageDataOf(r *scenario.Report) *pageData {
	t := newTexts()
	v := &pageData{Runs: []runView{}}
	for _, run := range r.Runs {
		v.Runs = append(v.Runs, (&pageBuilder{texts: t, run: run, versions: map[string]int{}}).runView())
	}
	v.Texts = t.list
	return v
}

func (v *pageBuilder) runView() runView {
	end := v.run.Started.Add(v.run.Elapsed)
	builder := newLaneBuilder()
	traffics := v.traffics()
	for _, e := range v.run.Timeline {
		if e.Request == nil { // lossEvents has the lost requests
			builder.observe(e)
		}
		if e.Time.After(end) {
			end = e.Time
		}
	}
	builder.end(end)
	for _, e := range lossEvents(traffics) {
		builder.observe(e)
	}
	r := runView{Length: v.micros(end), Steps: v.steps(), Lanes: []laneView{}, Streams: []streamView{}}
	for _, l := range fold(builder.sorted(), end) {
		r.Lanes = append(r.Lanes, v.lane(l))
	}
	for _, t := range traffics { // number all versions before the streams use the numbers
		for _, version := range slices.Sorted(maps.Keys(t.Versions)) {
			v.version(version)
		}
		_, bins := binsOf(t)
		for _, b := range bins {
			for _, version := range slices.Sorted(maps.Keys(b.Versions)) {
				v.version(version)
			}
		}
	}
	for _, t := range traffics {
		r.Streams = append(r.Streams, v.stream(t))
	}
	r.Versions = v.list
	if r.Versions == nil {
		r.Versions = []int{}
	}
	return r
}

// fold merges the lanes of all components that were running during the whole run into one lane, provided that there
// are at least two such components.
func fold(list []*lane, end time.Time) []*lane {
	var names []string
	var first time.Time
	rest := slices.DeleteFunc(slices.Clone(list), func(l *lane) bool {
		if l.kind != laneComponent || len(l.spans) != 1 || len(l.spans[0].segments) != 1 ||
			l.spans[0].segments[0].state != string(events.ComponentRunning) {
			return false
		}
		if from := l.spans[0].segments[0].from; first.IsZero() || from.Before(first) {
			first = from
		}
		names = append(names, l.name)
		return true
	})
	if len(names) < 2 {
		return list
	}
	all := &span{kind: rowProcess, name: "components", segments: []segment{{
		from: first, to: end, state: string(events.ComponentRunning), text: strings.Join(names, ", ")}}}
	return slices.Insert(rest, 0, &lane{kind: laneComponent, name: "components", spans: []*span{all}})
}

// traffics returns the streams of the run. If a stream has no results, traffics returns it with only the lost
// requests in the timeline.
func (v *pageBuilder) traffics() []scenario.Traffic {
	list := slices.Clone(v.run.Traffic)
	ended := len(list)
	for _, e := range v.run.Timeline {
		r := e.Request
		if r == nil {
			continue
		}
		i := slices.IndexFunc(list, func(t scenario.Traffic) bool { return t.Name == r.Stream })
		if i < 0 {
			i = len(list)
			list = append(list, scenario.Traffic{Summary: traffic.Summary{Name: r.Stream}})
		}
		if i >= ended {
			list[i].Lost = append(list[i].Lost,
				traffic.Record{Due: e.Time, Base: r.Base, Result: r.Result, Error: r.Message})
		}
	}
	return list
}

// lossEvents returns the lost requests of all streams as events, in chronological order.
func lossEvents(list []scenario.Traffic) []events.Event {
	var lost []events.Event
	for _, t := range list {
		for _, l := range t.Lost {
			lost = append(lost,
				events.Event{Time: l.Due,
					Request: &events.RequestEvent{Stream: t.Name, Base: l.Base, Result: l.Result, Message: l.Error}})
		}
	}
	slices.SortStableFunc(lost, func(a, b events.Event) int { return a.Time.Compare(b.Time) })
	return lost
}

func (v *pageBuilder) micros(t time.Time) int64 { return t.Sub(v.run.Started).Microseconds() }

func (v *pageBuilder) text(text string) int64 { return int64(v.texts.id(text)) }

func (v *pageBuilder) version(version string) int {
	n, ok := v.versions[version]
	if !ok {
		n = len(v.list)
		v.versions[version] = n
		v.list = append(v.list, v.texts.id(version))
	}
	return n
}

func (v *pageBuilder) lane(l *lane) laneView {
	view := laneView{Kind: v.texts.id(string(l.kind)), Name: v.texts.id(l.name), Rows: []rowView{}, Marks: []int64{}}
	type place struct {
		thing rowKind
		track int
	}
	rows := map[place]*rowView{}
	for _, s := range l.spans {
		key := place{s.kind, s.track}
		if rows[key] == nil {
			rows[key] = &rowView{Thing: v.texts.id(string(s.kind))}
		}
		version, name := int64(-1), s.name
		if s.version != "" {
			version = int64(v.version(s.version))
		}
		for _, g := range s.segments {
			rows[key].Bars = append(rows[key].Bars, v.micros(g.from), v.micros(g.to), v.text(g.state), version,
				v.text(name), v.text(g.text))
		}
	}
	order := slices.SortedFunc(maps.Keys(rows), func(a, b place) int {
		return cmp.Or(cmp.Compare(slices.Index(rowKinds, a.thing), slices.Index(rowKinds, b.thing)),
			cmp.Compare(a.track, b.track))
	})
	for _, key := range order {
		view.Rows = append(view.Rows, *rows[key])
	}
	// lost requests were added last
	slices.SortStableFunc(l.marks, func(a, b mark) int { return a.to.Compare(b.to) })
	for _, m := range l.marks {
		view.Marks = append(view.Marks, v.micros(m.from), v.micros(m.to), v.text(string(m.kind)), v.text(m.text))
	}
	return view
}

// steps assigns a row to each step. Nested steps are below their parent, and steps that overlap in time are in
// different rows.
func (v *pageBuilder) steps() []int64 {
	flat := []int64{}
	var ends []int64 // of each row
	var place func(list []*scenario.Step, row int)
	place = func(list []*scenario.Step, least int) {
		for _, s := range list {
			from, to := v.micros(s.Started), v.micros(s.Started.Add(s.Elapsed))
			row := least
			for row < len(ends) && ends[row] > from {
				row++
			}
			for row >= len(ends) {
				ends = append(ends, from)
			}
			ends[row] = to
			flat = append(flat, from, to, int64(row), v.text(string(s.Result)), v.text(s.Name),
				v.text(strings.TrimSpace(s.Action+"\n"+s.Message)))
			place(s.Steps, row+1)
		}
	}
	place(v.run.Steps, 0)
	return flat
}

// binsOf returns the bins of a stream. If the stream has no bins, it returns the request counts of each second as
// bins.
func binsOf(t scenario.Traffic) (width time.Duration, bins []traffic.Bin) {
	if t.BinWidth > 0 {
		return t.BinWidth, t.Bins
	}
	for _, s := range t.Seconds {
		bins = append(bins, traffic.Bin{From: s.Start.Sub(t.Started), Sent: s.Sent, Lost: s.Lost, Versions: s.Versions})
	}
	return time.Second, bins
}

func (v *pageBuilder) stream(t scenario.Traffic) streamView {
	width, bins := binsOf(t)
	view := streamView{Name: v.texts.id(t.Name), Route: v.texts.id(events.RoutePhrase(t.Route)),
		Width: width.Microseconds(), Bins: []int64{}, Lost: []int64{}}
	for _, s := range t.Seconds {
		view.Peak = max(view.Peak, s.Sent)
	}
	for _, b := range bins {
		view.Bins = append(view.Bins, v.micros(t.Started.Add(b.From)), int64(b.Sent), int64(b.Lost))
		answers := make([]int64, len(v.list))
		for version, n := range b.Versions {
			answers[v.version(version)] = int64(n)
		}
		view.Bins = append(view.Bins, answers...)
	}
	for _, l := range t.Lost {
		view.Lost = append(view.Lost, v.micros(l.Due), v.text(string(l.Result)),
			v.text(events.Join("; ", l.Base, l.Pod, l.Endpoint, l.Error)))
	}
	return view
}
