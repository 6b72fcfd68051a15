package main

import "slices"

// level says how much an expectation weighs.
type level string

// The levels.
const (
	// must is what a document or the protocol states, and what a user loses something without.
	must level = "must"
	// should is what users rely on without a document that states it word for word.
	should level = "should"
	// original is what only the original controller does. It never fails a run.
	original level = "original"
)

// The documents, as expectations name their sources. A number of the protocol is a section of
// arklet's protocol; one of the behaviour is a line of the original controller's behaviour.
const (
	principle  = "principle 6.6.2"
	release    = "guide 5.1 模块上线"
	lossless   = "guide 5.1 滚动更新"
	takeDown   = "guide 5.1 模块下线"
	scaling    = "guide 5.1 模块扩缩容"
	replacing  = "guide 5.1 模块替换"
	rollback   = "guide 5.1 模块回滚"
	view       = "guide 5.1 查看模块状态"
	together   = "guide 5.1 不兼容发布"
	peers      = "guide 5.2 对等部署"
	batches    = "guide 5.2 分批更新"
	cluster    = "guide 5.4 分片集群"
	errorCodes = "guide 5.6 错误码"
)

// The tunnels.
const (
	overMQTT = "mqtt"
	overHTTP = "http"
)

// expectation is one thing that a user of a module controller relies on.
type expectation struct {
	// Name is unique: group/what.
	Name string
	// Text says what is expected, in one sentence.
	Text string
	// Source is the document and section that says so.
	Source string
	// Level says how much it weighs.
	Level level
	// Phase is the disturbance of everybody that it is about. Default: none, it runs at any time.
	Phase string
	// Long: it lasts longer than the silence after which a base is gone; --long checks it.
	Long bool
	// Replicas is how many controllers it needs. Default: 1.
	Replicas int
	// Check ends the world by fail or skip; else the expectation holds. It must not outlive its
	// world's context.
	Check func(w *world)
}

// all are the expectations in the order in which reports show them.
func all() []expectation {
	return slices.Concat(nodes(), commands(), answers(), statuses(), deletions(), releases(), replacements(), recreations(), workloads(), refusals(), disturbances())
}

// onBoth makes an expectation for each tunnel.
func onBoth(e expectation, check func(w *world, tunnel string)) []expectation {
	var list []expectation
	for _, tunnel := range []string{overMQTT, overHTTP} {
		one := e
		one.Name += "-" + tunnel
		one.Check = func(w *world) { check(w, tunnel) }
		list = append(list, one)
	}
	return list
}
