package fuzz

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// Options are the options of Run.
type Options struct {
	// Home is the parent directory of the state directories of all sandboxes. Required.
	Home string
	// Config is the configuration of the sandboxes, as returned by v1alpha1.Complete. Its speed must be at most
	// MaxSpeed; the usual value is Speed. Required.
	Config *v1alpha1.Sandbox
	// Binaries are the binaries of the sandboxes. Required.
	Binaries sandbox.Binaries
	// Name is the prefix of the sandbox names. Default: fuzz.
	Name string
	// Seed is the seed of the first schedule. The following schedules use the following seeds. Default: random.
	Seed uint64
	// Count is the number of schedules to run. 0 means unlimited: schedules are started until For has passed.
	Count int
	// For is how long new schedules are started. 0 means unlimited, until Count schedules have started. After this
	// time, the running schedules complete, and then the failures are shrunk.
	For time.Duration
	// Only contains the names of the actions to use. Default: all actions.
	Only []string
	// Beyond also enables faults that a correct API server never causes. By default, only those that Only names are
	// enabled.
	Beyond bool
	// Parallel is the number of sandboxes. Each sandbox runs up to six schedules concurrently. Default: 3, which is
	// enough to keep two CPUs busy.
	Parallel int
	// Corpus is the directory to which failures are written as scenarios. Required.
	Corpus string
	// ShrinkFor is the maximum time for shrinking one failure. Default: 5 min. If it is negative, failures are not
	// shrunk.
	ShrinkFor time.Duration
	// MaxFailures is the number of different failures after which the run stops. Default: 10.
	MaxFailures int
	// Progress is called after each schedule and after each shrinking step, one call at a time. Default: no progress
	// is reported.
	Progress func(Progress)
}

// Progress describes the progress of a run.
type Progress struct {
	// Schedules is the number of schedules with a result. Inconclusive is the number of inconclusive runs.
	Schedules, Inconclusive int
	// Elapsed is the time since the start of the first schedule.
	Elapsed time.Duration
	// Failure is a new failure, or nil. Shrinking is the number of actions that remain in the failure that is being
	// shrunk.
	Failure   *Failure
	Shrinking int
}

// Result is the result of Run. It is saved in the corpus as fuzz.json.
type Result struct {
	Started time.Time `json:"started"`
	Seed    uint64    `json:"seed"`
	// Only contains the names of the actions that were used; empty means all actions.
	Only []string `json:"only,omitempty"`
	// Beyond reports whether the run used faults that a correct API server never causes.
	Beyond       bool          `json:"beyondContract,omitempty"`
	Schedules    int           `json:"schedules"`
	Inconclusive int           `json:"unclear"`
	Actions      int           `json:"moves"`
	Elapsed      time.Duration `json:"elapsed"`
	Failures     []*Failure    `json:"failures"`
	// InconclusiveReasons lists the reasons why runs were inconclusive.
	InconclusiveReasons []string `json:"unjudged,omitempty"`
	// Error is the error that ended the run; empty if there was none.
	Error string `json:"error,omitempty"`
}

// runner is a function that runs a schedule and returns the result.
type runner func(context.Context, Schedule) (runResult, *scenario.Report, error)

// runConclusive runs a schedule. It runs the schedule a second time if the first run was inconclusive. It calls
// recordInconclusive with the reason of each inconclusive run.
func (r runner) runConclusive(ctx context.Context, s Schedule, recordInconclusive func(reason string)) (got runResult,
	report *scenario.Report, err error) {
	for range 2 {
		got, report, err = r(ctx, s)
		if err != nil || isDone(ctx) || !got.inconclusive {
			break
		}
		recordInconclusive(got.seen)
	}
	return got, report, err
}

type run struct {
	queue
	runSchedule runner
	// room is the maximum number of schedules that run concurrently in a sandbox.
	room int

	result Result // guarded by the mutex of the queue
}

// queue returns schedules until Count schedules were returned or the time For has passed.
type queue struct {
	o   Options
	gen generator

	mu        sync.Mutex
	began     time.Time
	taken     int
	seedsUsed uint64 // number of seeds that were used
}

// next returns the next schedule, or false if Count or For is exhausted. The first schedule uses Options.Seed.
func (q *queue) next() (Schedule, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.o.Count > 0 && q.taken >= q.o.Count || q.o.For > 0 && time.Since(q.began) >= q.o.For {
		return Schedule{}, false
	}
	q.taken++
	for {
		s := q.gen.generate(q.o.Seed + q.seedsUsed)
		q.seedsUsed++
		if q.taken == 1 || q.gen.fits(s) {
			return s, true
		}
	}
}

// each calls do for every schedule of the queue from n goroutines, and blocks until all calls have returned. It stops
// at the first error and returns this error. If ctx ends, it returns nil.
func (q *queue) each(ctx context.Context, n int, do func(context.Context, Schedule) error) error {
	group, life := errgroup.WithContext(ctx)
	for range n {
		group.Go(func() error {
			for life.Err() == nil {
				s, more := q.next()
				if !more {
					return nil
				}
				if err := do(life, s); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// errFound ends a run after MaxFailures different failures were found.
var errFound = errors.New("the maximum number of failures was found")

// Run runs schedules until Count schedules have started, For has passed, MaxFailures different failures were found,
// or ctx ends. Then it shrinks the failures. It blocks until the sandboxes are deleted. If ctx ends, the result
// contains the failures found before, and the error is nil. Run returns an error if, for example, a sandbox cannot be
// created.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	o = o.Complete()
	p, err := openPool(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(context.WithoutCancel(ctx))) }()
	r := newRun(o, p.run)
	r.gen.controllers, r.gen.speed = controllersOf(o.Config), o.Config.Spec.Speed
	return &r.result, r.runAll(ctx)
}

// runAll runs schedules and shrinks the failures. It saves the corpus even if it returns an error.
func (r *run) runAll(ctx context.Context) error {
	r.began = time.Now()
	err := r.workers(ctx)
	r.result.Elapsed = time.Since(r.began)
	if err == nil {
		err = r.shrinkAll(ctx)
	}
	if err != nil {
		r.result.Error = err.Error()
	}
	return errors.Join(err, r.save())
}

func newRun(o Options, runSchedule runner) *run {
	return &run{
		queue: queue{o: o, gen: generator{only: o.Only, beyond: o.Beyond}}, runSchedule: runSchedule,
		room:   maxConcurrent,
		result: Result{Seed: o.Seed, Only: o.Only, Beyond: o.Beyond, Failures: []*Failure{}},
	}
}

// Complete returns the options with defaults for all unset fields, including a random seed.
func (o Options) Complete() Options {
	if o.Name == "" {
		o.Name = "fuzz"
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64() >> 11 // JSON readers represent smaller numbers exactly
	}
	if o.Parallel == 0 {
		o.Parallel = 3
	}
	if o.ShrinkFor == 0 {
		o.ShrinkFor = 5 * time.Minute
	}
	if o.MaxFailures == 0 {
		o.MaxFailures = 10
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return o
}

func (r *run) workers(ctx context.Context) error {
	if err := r.each(ctx, r.o.Parallel*r.room, r.runOne); !errors.Is(err, errFound) {
		return err
	}
	return nil
}

// runOne runs a schedule and records the failure if the schedule fails.
func (r *run) runOne(ctx context.Context, s Schedule) error {
	got, report, err := r.runSchedule.runConclusive(ctx, s, r.recordInconclusive)
	if isDone(ctx) {
		return nil // the end of ctx has changed the result
	}
	if err != nil || got.inconclusive {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Schedules++
	r.result.Actions += len(s.Actions)
	p := r.progress()
	if got.invariant != "" {
		p.Failure = r.recordFailure(s, got, report)
	}
	if p.Failure != nil { // saved now, in case the process is killed
		r.result.Elapsed = p.Elapsed
		if err := r.save(); err != nil {
			return err
		}
	}
	r.o.Progress(p)
	if len(r.result.Failures) >= r.o.MaxFailures {
		return errFound
	}
	return nil
}

func (r *run) recordInconclusive(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Inconclusive++
	r.result.InconclusiveReasons = append(r.result.InconclusiveReasons, reason)
}

func (r *run) progress() Progress {
	return Progress{Schedules: r.result.Schedules, Inconclusive: r.result.Inconclusive, Elapsed: time.Since(r.began)}
}

// recordFailure records a failure and returns it. It returns nil if a failure of the same kind was already recorded.
// The caller must hold the lock.
func (r *run) recordFailure(s Schedule, got runResult, report *scenario.Report) *Failure {
	f := &Failure{Invariant: got.invariant, Seed: s.Seed, Smallest: s, Seen: got.seen, Times: 1, Report: report,
		Log: got.log}
	if known := findSameShape(r.result.Failures, f); known != nil {
		known.Times++
		return nil
	}
	r.result.Failures = append(r.result.Failures, f)
	f.File = f.fileName()
	return f
}

// isDone reports whether ctx has ended.
func isDone(ctx context.Context) bool { return ctx.Err() != nil }
