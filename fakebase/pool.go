package fakebase

import "sync"

// pool runs tasks like Java's ThreadPoolExecutor with CallerRunsPolicy. A task runs on one of the core goroutines. If
// they are all busy, the task is queued. If the queue is full, the task runs on an additional goroutine, up to limit
// goroutines. If all of them are busy, the caller runs the task.
type pool struct {
	core, limit, queued int
	spawn               func(func()) bool

	mu      sync.Mutex
	running int
	queue   []func()
}

// submit starts or queues a task. If the pool is full, it runs the task itself before it returns.
func (p *pool) submit(task func()) {
	p.mu.Lock()
	switch {
	case p.running < p.core, len(p.queue) >= p.queued && p.running < p.limit:
		p.running++
		p.mu.Unlock()
		p.spawn(func() { p.work(task) })
	case len(p.queue) < p.queued:
		p.queue = append(p.queue, task)
		p.mu.Unlock()
	default:
		p.mu.Unlock()
		task()
	}
}

func (p *pool) work(task func()) {
	for {
		task()
		p.mu.Lock()
		if len(p.queue) == 0 {
			p.running--
			p.queue = nil
			p.mu.Unlock()
			return
		}
		task = p.queue[0]
		p.queue = p.queue[1:]
		p.mu.Unlock()
	}
}
