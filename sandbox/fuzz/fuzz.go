package fuzz

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// Options of Run.
type Options struct {
	// Home is the folder with the folders of all sandboxes. Required.
	Home string
	// Config of the sandboxes; it has passed v1alpha1.Complete, and its speed is MaxSpeed at most, Speed if nothing
	// else is wanted. Required.
	Config *v1alpha1.Sandbox
	// Programs of the sandboxes. Required.
	Programs sandbox.Programs
	// Name that the names of the sandboxes begin with. Default: fuzz.
	Name string
	// Seed of the first schedule; the others follow it. Default: drawn.
	Seed uint64
	// Count is how many schedules are run; 0 = until For is over.
	Count int
	// For is how long schedules begin; 0 = until Count have begun. Those that run then come to their end, and
	// failures are reduced afterwards.
	For time.Duration
	// Only has the names of the moves to use. Default: all.
	Only []string
	// Beyond draws moves too that do what no API server does to its clients. Default: only those that Only
	// names.
	Beyond bool
	// Parallel is how many sandboxes there are, in each of which up to six schedules run beside each
	// other. Default: 3, which keep two processors busy.
	Parallel int
	// Corpus is the folder that failures are written to as scenarios. Required.
	Corpus string
	// ShrinkFor bounds the time in which one failure is reduced. Default: 5 min; negative = failures
	// are not reduced.
	ShrinkFor time.Duration
	// MostFailures ends the run after so many different ones. Default: 10.
	MostFailures int
	// Progress hears what happens, one call at a time. Default: nobody.
	Progress func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	// Schedules that have been judged; Unclear runs could not be, and were made once more.
	Schedules, Unclear int
	// Elapsed since the first schedule began.
	Elapsed time.Duration
	// Failure that was found now, and Shrinking while one is being reduced: the moves it has now.
	Failure   *Failure
	Shrinking int
}

// Result of Run. Its JSON form is what a corpus keeps as fuzz.json.
type Result struct {
	Started time.Time `json:"started"`
	Seed    uint64    `json:"seed"`
	// Only has the names of the moves that were drawn; empty = all.
	Only []string `json:"only,omitempty"`
	// Beyond says that moves were drawn that go beyond the API's contract.
	Beyond    bool          `json:"beyondContract,omitempty"`
	Schedules int           `json:"schedules"`
	Unclear   int           `json:"unclear"`
	Moves     int           `json:"moves"`
	Elapsed   time.Duration `json:"elapsed"`
	Failures  []*Failure    `json:"failures"`
	// Unjudged says why runs could not be judged at first.
	Unjudged []string `json:"unjudged,omitempty"`
	// Error is what has kept the run from going on; empty = nothing.
	Error string `json:"error,omitempty"`
}

// runner runs a schedule, and says what became of it.
type runner func(context.Context, Schedule) (outcome, *scenario.Report, error)

// judged runs a schedule, once more if nobody can judge it. unclear hears why, each time.
func (try runner) judged(ctx context.Context, s Schedule, unclear func(why string)) (got outcome, report *scenario.Report, err error) {
	for range 2 {
		got, report, err = try(ctx, s)
		if err != nil || over(ctx) || !got.unclear {
			break
		}
		unclear(got.seen)
	}
	return got, report, err
}

// run is one call of Run.
type run struct {
	o   Options
	try runner
	gen generator
	// room is how many schedules a sandbox has room for, if they can be beside each other.
	room int

	mu      sync.Mutex
	result  Result
	began   time.Time
	planned int
	alone   int    // schedules that run now and need a sandbox alone
	drawn   uint64 // seeds that were looked at
}

// errFound ends a run that has found enough.
var errFound = errors.New("enough failures were found")

// Run runs schedules until Count have begun, For is over, enough failures are found, or ctx ends, and
// reduces the failures. It blocks until the sandboxes are down again. What was found until ctx ended
// is in the result. The error tells of what kept it from going on, such as a sandbox that does not
// come up.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	o = o.Complete()
	p, err := openPool(&o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(context.WithoutCancel(ctx))) }()
	r := newRun(o, p.run)
	r.gen.controllers, r.gen.speed = controllersOf(o.Config), o.Config.Spec.Speed
	return &r.result, r.all(ctx)
}

// all runs schedules and reduces what fails. Whatever ends it, the corpus has what was found.
func (r *run) all(ctx context.Context) error {
	r.began = time.Now()
	err := r.workers(ctx)
	r.result.Elapsed = time.Since(r.began)
	if err == nil {
		err = r.reduceAll(ctx)
	}
	if err != nil {
		r.result.Error = err.Error()
	}
	return errors.Join(err, r.save())
}

func newRun(o Options, try runner) *run {
	return &run{o: o, try: try, room: beside, gen: generator{only: o.Only, beyond: o.Beyond}, result: Result{Seed: o.Seed, Only: o.Only, Beyond: o.Beyond, Failures: []*Failure{}}}
}

// Complete returns the options with their defaults, so that the seed that is drawn is known.
func (o Options) Complete() Options {
	if o.Name == "" {
		o.Name = "fuzz"
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64() >> 11 // a number that JSON keeps whole
	}
	if o.Parallel == 0 {
		o.Parallel = 3
	}
	if o.ShrinkFor == 0 {
		o.ShrinkFor = 5 * time.Minute
	}
	if o.MostFailures == 0 {
		o.MostFailures = 10
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return o
}

// workers runs schedules in all sandboxes.
func (r *run) workers(ctx context.Context) error {
	others := (r.o.Parallel - r.forAlone()) * r.room
	if err := sideBySide(ctx, max(r.room, r.forAlone()+others), r.next, r.one); !errors.Is(err, errFound) {
		return err
	}
	return nil
}

// forAlone is how many sandboxes are for schedules that need one alone: half of them. The others have many
// beside each other, so that it is always the same that the processors have to do.
func (r *run) forAlone() int { return (r.o.Parallel + 1) / 2 }

// sideBySide does n schedules at a time, until there is no next one, or one has an error, which it
// returns. Nothing has gone wrong when ctx ends.
func sideBySide(ctx context.Context, n int, next func() (Schedule, bool), do func(context.Context, Schedule) error) error {
	life, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for life.Err() == nil {
				s, more := next()
				if !more {
					return
				}
				if err := do(life, s); err != nil {
					stop(err)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(life)
}

// looks is the maximum number of seeds that are tried for a schedule of the kind that is wanted.
const looks = 10

// next returns the next schedule. It needs a sandbox alone if fewer such schedules run than there are
// sandboxes for them.
func (r *run) next() (s Schedule, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.Count > 0 && r.planned >= r.o.Count || r.o.For > 0 && time.Since(r.began) >= r.o.For {
		return Schedule{}, false
	}
	r.planned++
	defer func() {
		if s.alone() {
			r.alone++
		}
	}()
	draw := func() Schedule {
		r.drawn++
		return r.gen.draw(r.o.Seed + r.drawn - 1)
	}
	if r.planned == 1 { // the first seed is that of the schedule to replay
		return draw(), true
	}
	alone, found := r.alone < r.forAlone(), false
	for i := 0; i < looks || !found; i++ { // Only may exclude the kind that is wanted
		candidate := draw()
		if !r.gen.fits(candidate) {
			continue
		}
		s, found = candidate, true
		if s.alone() == alone {
			break
		}
	}
	return s, true
}

// one runs a schedule, once more if nobody can judge it, and notes a failure.
func (r *run) one(ctx context.Context, s Schedule) error {
	got, report, err := r.try.judged(ctx, s, r.unclear)
	r.ended(s)
	if over(ctx) {
		return nil // what it says is of no use
	}
	if err != nil || got.unclear {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Schedules++
	r.result.Moves += len(s.Moves)
	p := r.progress()
	if got.invariant != "" {
		p.Failure = r.note(s, got, report)
	}
	if p.Failure != nil { // whoever is killed later has it
		r.result.Elapsed = p.Elapsed
		if err := r.save(); err != nil {
			return err
		}
	}
	r.o.Progress(p)
	if len(r.result.Failures) >= r.o.MostFailures {
		return errFound
	}
	return nil
}

// ended makes room for another schedule that needs a sandbox alone, if this one did.
func (r *run) ended(s Schedule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.alone() {
		r.alone--
	}
}

// unclear notes why nobody could judge a run.
func (r *run) unclear(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Unclear++
	r.result.Unjudged = append(r.result.Unjudged, why)
}

func (r *run) progress() Progress {
	return Progress{Schedules: r.result.Schedules, Unclear: r.result.Unclear, Elapsed: time.Since(r.began)}
}

// note keeps a failure, unless one like it is kept. The caller holds the lock.
func (r *run) note(s Schedule, got outcome, report *scenario.Report) *Failure {
	f := &Failure{Invariant: got.invariant, Seed: s.Seed, Smallest: s, Seen: got.seen, Times: 1, Report: report, Log: got.log}
	if known := alike(r.result.Failures, f); known != nil {
		known.Times++
		return nil
	}
	r.result.Failures = append(r.result.Failures, f)
	f.File = f.fileName()
	return f
}

// over tells whether a context has ended, which is no error of what it was for.
func over(ctx context.Context) bool { return ctx.Err() != nil }
