package board

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/board/internal/feed"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

const maxReport = 1 << 30

// ReadReport reads a JSON report that scenario run --json has written. It returns the run with the given scenario or
// namespace. If run is empty, it returns the first failed run or, if all runs passed, the first run.
func ReadReport(path, run string) (*scenario.Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the report: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	var r scenario.Report
	if err := json.NewDecoder(io.LimitReader(f, maxReport)).Decode(&r); err != nil {
		return nil, fmt.Errorf(
			"%s is not a JSON report of scenarios; create one with `koupsandbox scenario run --json FILE`: %w", path, err)
	}
	if len(r.Runs) == 0 {
		return nil, fmt.Errorf("%s has no runs; use a JSON report of `koupsandbox scenario run --json FILE`", path)
	}
	var names []string
	for _, x := range r.Runs {
		names = append(names, x.Namespace)
		if run != "" && (x.Scenario == run || x.Namespace == run) {
			return x, nil
		}
	}
	if run != "" {
		return nil, fmt.Errorf("%s has no run %q; available: %v", path, run, names)
	}
	for _, x := range r.Runs {
		if x.Result == scenario.Failed || x.Result == scenario.Errored {
			return x, nil
		}
	}
	return r.Runs[0], nil
}

func boardOf(run *scenario.Run) BoardRow {
	return BoardRow{
		Source: SourceReport, Title: run.Scenario, Since: millis(run.Started),
		Ended:   millis(endOf(run)),
		Verdict: string(run.Result), Failure: run.Failure,
	}
}

// replay adds all events and statistics of a recorded run to a feed, as if the board had observed the run.
func replay(run *scenario.Run, w *boardState, f *feed.Feed) error {
	w.namespace, w.synced = run.Namespace, true
	at := run.Started // time of the changes that are not yet in the feed
	advance := func(until time.Time) error {
		now, u := w.flush(at)
		at = until
		return f.Put(now, u)
	}
	seconds := secondsOf(run)
	addSeconds := func(until time.Time) error {
		for ; len(seconds) > 0 && !seconds[0].at.After(until); seconds = seconds[1:] {
			if seconds[0].at.After(at) { // each second is a separate change
				if err := advance(seconds[0].at); err != nil {
					return err
				}
			}
			w.setStream(seconds[0].row)
		}
		return nil
	}
	for _, e := range run.Timeline {
		if err := addSeconds(e.Time); err != nil {
			return err
		}
		if e.Time.Sub(at) >= messageInterval {
			if err := advance(e.Time); err != nil {
				return err
			}
		}
		w.addEvent(e)
	}
	end := endOf(run)
	if err := addSeconds(end); err != nil {
		return err
	}
	if err := advance(end); err != nil {
		return err
	}
	return advance(end) // check for findings at the end of the run
}

func endOf(run *scenario.Run) time.Time { return run.Started.Add(run.Elapsed) }

type streamSecond struct {
	at  time.Time
	row StreamRow
}

// secondsOf returns one row for each second of each request stream in a run, and the final row of each stream, sorted
// by time. No row is later than the end of the run.
func secondsOf(run *scenario.Run) (all []streamSecond) {
	for i := range run.Traffic {
		all = append(all, secondsOfStream(run, &run.Traffic[i])...)
	}
	slices.SortStableFunc(all, func(a, b streamSecond) int { return a.at.Compare(b.at) })
	return all
}

func secondsOfStream(run *scenario.Run, t *scenario.Traffic) (list []streamSecond) {
	ended := t.Ended
	if ended.IsZero() || ended.After(endOf(run)) {
		ended = endOf(run)
	}
	// The last second is incomplete. The page keeps one row per millisecond, so its row precedes the final row.
	last := ended.Add(-time.Millisecond)
	row := StreamRow{Group: run.Namespace, Name: t.Name, Route: t.Route}
	for _, s := range t.Seconds {
		row.Sent, row.Lost = row.Sent+s.Sent, row.Lost+s.Lost
		row.Rate, row.LostRate, row.Versions = float64(s.Sent), float64(s.Lost), ratesOf(s)
		at := s.Start.Add(time.Second)
		if at.After(last) {
			at = last
		}
		list = append(list, streamSecond{at, row})
	}
	return append(list, streamSecond{ended, streamRow(run.Namespace, t.Summary)})
}

func ratesOf(s traffic.Second) map[string]float64 {
	var rates map[string]float64
	for version, n := range s.Versions {
		if rates == nil {
			rates = map[string]float64{}
		}
		rates[version] = float64(n)
	}
	return rates
}

func (w *boardState) setStream(row StreamRow) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := streamKey(row.Group, row.Name)
	w.streams[key] = streamStats{row: row}
	w.mark(kindStream, key)
}
